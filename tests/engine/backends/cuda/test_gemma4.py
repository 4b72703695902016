"""Gemma 4 in the kernels: inputs of each layer, keys and values of earlier layers, experts with norms."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.backends import linear_factory
from engine.backends.cuda.trial.attention import attention_cases
from engine.backends.cuda.trial.findings import Comparison
from engine.backends.executors import executed
from engine.backends.linear_factory import LEAST_INT8, LinearFactory
from engine.backends.torch.eager import EagerOperations
from engine.decoding.proposer import RoundProposer
from engine.decoding.target import Target
from engine.decoding.text.codec import TextCodec
from engine.drafting import heads
from engine.drafting.heads.assistant import AssistantDraft, AssistantHead
from engine.drafting.resources import Resources
from engine.kernels.operands import Groups
from engine.local.session import Session
from engine.models.checkpoints.checkpoint import inspect
from tests.engine.backends.cuda.small import load, load_reference, tokens
from tests.engine.backends.cuda.test_decoder import distance
from tests.engine.backends.cuda.test_heads import HOT, asked
from tests.engine.backends.cuda.test_rounds import DRAWN, NONE, PROMPT, draft, run, words
from tests.engine.drafting.heads.test_assistant import write_assistant
from tests.engine.kernels.cuda.where import DEVICE
from tests.support.families import write_family

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

ONE = {"hidden_size": 64, "head_dim": 16, "global_head_dim": 32, "intermediate_size": 64}
SHARING = {
    **ONE,
    "num_hidden_layers": 3,
    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
    "num_kv_shared_layers": 1,
    "hidden_size_per_layer_input": 64,
    "sliding_window": 4,
}
MODELS: dict[str, dict[str, Any]] = {
    "gemma4": SHARING,
    "gemma4, experts": {**ONE, "moe_intermediate_size": 64, "uneven": 0.5},
    "gemma4, keys as values": {**ONE, "num_hidden_layers": 1, "layer_types": ["full_attention"]},
}

APART = {"bf16": 0.06, "int8": 0.12}
"""As in ``test_decoder``, but scores are not scaled: torch in bf16 is up to 0.04 off."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("gemma4")
    write_family(made, "gemma4", **SHARING)
    return made


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("gemma4", "bf16"),
        ("gemma4, experts", "bf16"),
        *(
            pytest.param(*each, marks=pytest.mark.exhaustive)
            for each in (("gemma4", "int8"), ("gemma4, keys as values", "bf16"))
        ),
    ],
)
def test_logits_are_those_of_torch_and_a_row_s_bits_its_own(
    name: str, dtype: str, tmp_path: Path
) -> None:
    write_family(tmp_path, name, **MODELS[name])
    model, reference, text = load(tmp_path, dtype), load_reference(tmp_path), tokens(7)
    state, theirs = model.new_state(64), reference.new_state(64)
    for part in (text[:5], text[5:6], text[6:]):
        found = model.forward(part, state, last=len(part))
        expected = reference.forward(part, theirs, last=len(part))
        assert distance(found, expected) < APART[dtype]
    state.rewind(5)
    assert torch.equal(model.forward(text[5:], state, last=1), found[-1:])


@pytest.mark.parametrize(
    "kv_cache_dtype", ["auto", pytest.param("fp8", marks=pytest.mark.exhaustive)]
)
def test_layers_that_store_nothing_pass_the_trial(folder: Path, kv_cache_dtype: str) -> None:
    cases = attention_cases(load(folder, kv_cache_dtype=kv_cache_dtype))
    storing = next(case for case in cases if case.spec.value_norm)
    (reading,) = (case for case in cases if not case.stores)
    for case in (storing, reading):
        comparison = Comparison()
        case.check_stores(comparison)
        case.check_trees(comparison)
        assert not comparison.why, (case.shape, comparison.why)


@pytest.mark.exhaustive
def test_words_do_not_depend_on_who_drafts(folder: Path) -> None:
    """The target drafts for itself, within rounds."""
    session = Session(load(folder), TextCodec(folder), Resources(draft=load(folder)))
    alone = run(session, NONE, DRAWN, max_tokens=4)[1].token_ids
    rounds, done = run(session, draft(2), DRAWN, max_tokens=4)
    assert done.token_ids == alone
    assert any(round.accepted_path for round in rounds)


@pytest.mark.parametrize("ordered", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_an_assistant_drafts_within_rounds(folder: Path, tmp_path: Path, ordered: bool) -> None:
    """The words are those of ``none``, and the second draft is that of a new head for the same text."""
    write_assistant(tmp_path, ordered=ordered, sliding_window=4, num_key_value_heads=2)
    model, speculation = load(folder), asked("assistant")

    def new_session() -> Session:
        linears = LinearFactory("bf16", torch.device(DEVICE.type, 0), triton=True)
        head = heads.load(heads.inspect(tmp_path, inspect(folder)), linears)
        return Session(model, TextCodec(folder), Resources(heads={head.kind: head}))

    session = new_session()
    alone = words(session, NONE, HOT, max_tokens=5)
    rounds, done = run(session, speculation, HOT, max_tokens=5)
    assert done.token_ids == alone
    assert len(model.attention._rotations) == 2  # the assistant turns by its target's tables
    proposer = session._slots.first.proposer(speculation)
    assert isinstance(proposer, RoundProposer) and proposer.device_drafting() is not None
    text = [*PROMPT, *rounds[0].tokens]
    fresh, _ = run(new_session(), speculation, HOT, token_ids=text, max_tokens=2)
    assert fresh[0].tree.tokens[:1] == rounds[1].tree.tokens[:1]
    assert fresh[0].q[:1] == rounds[1].q[:1]


@pytest.mark.parametrize(("least_int8", "apart"), [(0, 0.0), (LEAST_INT8, 2e-6)])
def test_only_the_chosen_groups_are_multiplied(
    folder: Path, least_int8: int, apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their tokens have the logits of the whole product, in int8 to the bit."""
    monkeypatch.setattr(linear_factory, "LEAST_INT8", least_int8)
    draw = torch.Generator().manual_seed(0)
    model, linears = load(folder), LinearFactory("bf16", DEVICE, triton=True)
    output = linears.linear(torch.randn(320, 64, generator=draw))
    x, scores = (torch.randn(1, width, generator=draw).to(DEVICE) for width in (64, 10))
    groups = Groups(torch.randperm(320, generator=draw).numpy(), 10, 3)
    ops = model.head_operations(model.new_state(64))
    expected = EagerOperations.of_groups(ops, output, x, scores[0].topk(3).indices, groups)
    monkeypatch.delattr(output, "streamed")
    found = ops.group_logits(output, x, scores, groups)
    tokens = torch.from_numpy(groups.ordering).view(10, 32)[scores[0].topk(3).indices.cpu()]
    assert int(found.isfinite().sum()) == tokens.numel()
    assert float((found[0, tokens] - expected).abs().max()) <= apart * float(expected.abs().max())


@pytest.mark.exhaustive
def test_an_assistant_s_logits_are_nearly_torch_s(folder: Path, tmp_path: Path) -> None:
    """It reads the keys and values on the device, within the window and beyond."""
    write_assistant(tmp_path, sliding_window=4, num_key_value_heads=2)
    model = load(folder)
    linears = LinearFactory("bf16", torch.device(DEVICE.type, 0), triton=True)
    head = heads.load(heads.inspect(tmp_path, inspect(folder)), linears)
    assert isinstance(head, AssistantHead)

    class Beside(Target):
        def head_operations(self) -> None:
            return None

    found, text = [], tokens(9)
    for make in (Target, Beside):
        target = make(model, head.aux_layers)
        drafts = executed(partial(AssistantDraft, head), target)
        for read in (3, 8):
            target.extend(text[target.length : read])
            draft = drafts.begin(read, text[read])
            for step, token in enumerate((40, 50)):
                found.append(draft.logits(step).cpu().clone())
                draft.chain[step + 1] = token
    for drafted, expected in zip(found[:4], found[4:], strict=True):
        assert float((drafted - expected).norm() / expected.norm()) < 0.05
