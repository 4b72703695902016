"""Recurrent layers in the kernels, whose states only the device knows to go forward by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda.state import DeviceState
from engine.backends.cuda.trial.findings import Comparison
from engine.backends.cuda.trial.recurrence import recurrence_cases
from engine.backends.linear_factory import LinearFactory
from engine.decoding.text.codec import TextCodec
from engine.drafting import heads
from engine.drafting.resources import Resources
from engine.local.session import Session
from engine.models.architecture import ShortConvolution
from engine.models.checkpoints.checkpoint import inspect
from engine.models.prompt_content import ContentRows, PromptContent
from engine.request import Speculation
from engine.values.sampling import Sampling
from tests.engine.backends.cuda.small import load, load_reference, tokens
from tests.engine.backends.cuda.test_decoder import APART, distance
from tests.engine.backends.cuda.test_heads import HOT, MOST
from tests.engine.backends.cuda.test_rounds import DRAWN, GREEDY, NONE, PROMPT, draft, run, words
from tests.engine.backends.cuda.test_trees import PENALISED, captured
from tests.engine.backends.cuda.wrong_kernels import put_wrong, spoil_values
from tests.engine.kernels.cuda.where import DEVICE, INTERPRETED
from tests.support import sameness
from tests.support.families import write_family
from tests.support.heads import WRITERS

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]
__all__ = ["captured"]

SMALL: dict[str, dict[str, Any]] = {
    "qwen3.5": {  # a gated delta net, and attention with gates
        "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 1, "linear_num_value_heads": 2,
    },
    "granite, hybrid": {
        "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"],
        "mamba_n_heads": 2, "mamba_n_groups": 1, "mamba_expand": 1,
    },
    "lfm2": {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]},
}  # fmt: skip


@pytest.fixture(
    scope="module",
    params=["qwen3.5", pytest.param("granite, hybrid", marks=pytest.mark.exhaustive), "lfm2"],
)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("recurrent")
    write_family(made, request.param, **SMALL[request.param])
    return made


def test_logits_are_those_of_torch_and_a_row_s_bits_its_own(folder: Path) -> None:
    """Some of a step's rows are kept, others not; of the next two steps only one row."""
    text = tokens(40)
    model, reference = load(folder), load_reference(folder)
    state, theirs = model.new_state(64), reference.new_state(64)
    assert isinstance(state, DeviceState) and state.memories is not None
    model.forward(text[:19], state, last=0)
    reference.forward(text[:19], theirs, last=0)
    together = model.forward(text[19:35], state, last=16, final=False)
    assert distance(together, reference.forward(text[19:35], theirs, last=16)) < APART["bf16"]
    state.commit(())
    found = model.forward(text[19:24], state, last=5, final=False)
    assert torch.equal(found, together[:5])
    state.commit(range(3))
    assert torch.equal(model.forward(text[22:24], state, last=2, final=False), together[3:5])
    assert torch.equal(model.forward(text[24:25], state, last=1, final=False), together[5:6])
    state.commit(range(1))
    assert torch.equal(model.forward(text[23:25], state, last=2), together[4:6])


def test_it_goes_back_and_is_copied(folder: Path) -> None:
    text = tokens(40)
    model = load(folder)
    state, copy = model.new_state(64), model.new_state(64)
    assert not state.crops
    model.forward(text[:18], state, last=0)
    state.save_checkpoint()
    expected = model.forward(text[18:20], state, last=2)
    model.forward(text[20:38], state, last=0)
    assert state.reachable(37) == 37 and state.reachable(19) == 18 and state.reachable(17) == 0
    assert copy.copy_prefix(state, 17) == 0 and copy.copy_prefix(state, 19) == 18
    assert torch.equal(model.forward(text[18:20], copy, last=2), expected)
    assert copy.copy_prefix(state, 30) == 30
    more = model.forward(text[30:32], copy, last=2)
    state.rewind(30)
    assert torch.equal(model.forward(text[30:32], state, last=2), more)
    for length in (18, 0):
        state.rewind(length)
        if not length:
            model.forward(text[:18], state, last=0)
        assert torch.equal(model.forward(text[18:20], state, last=2), expected)


def test_words_do_not_depend_on_who_drafts(folder: Path) -> None:
    """The target drafts for itself within rounds, and goes on after its first reply."""
    session = Session(load(folder), TextCodec(folder), Resources(draft=load(folder)))
    asked: dict[str, Any] = {"max_tokens": 5}
    alone = run(session, NONE, DRAWN, **asked)[1].token_ids
    rounds, done = run(session, draft(2), DRAWN, **asked)
    assert done.token_ids == alone
    assert any(round.accepted_path for round in rounds)
    follow = {"token_ids": (*PROMPT, *alone, 9), "reuse_cache": True, "max_tokens": 2}
    after = run(session, draft(2), DRAWN, **follow)[1].token_ids
    assert after == run(session, NONE, DRAWN, **{**follow, "reuse_cache": False})[1].token_ids


def test_a_row_of_a_tree_has_the_bits_of_its_branch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what follows after some of it was kept, which the state takes in with the next tree."""
    if INTERPRETED:
        monkeypatch.setattr(sameness, "_MOST_ROWS", 6)
        monkeypatch.setattr(sameness, "_TREES", 2)
    monkeypatch.setattr(sameness, "_ROOM", 64)
    sameness.check_tree(load(folder), tokens(5), seed=10)  # the first path is no chain's rows


@pytest.mark.parametrize("sampling", [PENALISED] if INTERPRETED else [GREEDY, HOT, PENALISED])
def test_words_do_not_depend_on_trees(
    folder: Path, captured: list[str], sampling: Sampling, tmp_path: Path
) -> None:
    """A head drafts them in captured rounds; their replays give the bits of their dry runs."""
    shape, linears = (
        inspect(folder),
        LinearFactory("bf16", torch.device(DEVICE.type, 0), triton=True),
    )
    head = heads.load(heads.inspect(WRITERS["medusa"](tmp_path / "head", shape), shape), linears)
    session = Session(load(folder), TextCodec(folder), Resources(heads={"medusa": head}))
    asked = Speculation(proposer="medusa", depth=3, options={"tree_nodes": 7})
    alone = words(session, NONE, sampling, max_tokens=MOST)
    rounds, done = run(session, asked, sampling, max_tokens=MOST)
    assert done.token_ids == alone
    trees = [round for round in rounds if not round.tree.is_chain]
    assert trees and (sampling is GREEDY or any(round.accepted_path for round in trees))
    assert any("tree=True" in mode for mode in captured)
    runners: list[Any] = list(session.target._runners.values())
    assert not any(each._uncaptured for each in runners)
    follow: dict[str, Any] = {"token_ids": (*PROMPT, *alone, 9), "max_tokens": 3}
    after = words(session, asked, sampling, **follow, reuse_cache=True)
    assert after == words(session, NONE, sampling, **follow)


@pytest.mark.parametrize("wrong", ["", "everywhere", "in trees"])
def test_a_wrong_recurrence_is_found(
    wrong: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(folder)
    (case,) = recurrence_cases(model)
    if wrong:
        if isinstance(case.spec, ShortConvolution):
            pytest.skip("it has no kernel")
        put_wrong(monkeypatch, "take_in_rows", spoil_values, trees=wrong == "in trees")
    comparison = Comparison()
    case.check(comparison)
    assert bool(comparison.why) is bool(wrong)
    assert ("tree" in comparison.why) is (wrong == "in trees")


def test_rows_in_images_are_placed_as_by_torch(tmp_path: Path) -> None:
    """Then text alone is placed by its positions again. A pass with an image's rows is no graph."""
    rope = {
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
        "partial_rotary_factor": 0.25,
        "rope_theta": 10000.0,
    }
    write_family(tmp_path, "qwen3.5", **SMALL["qwen3.5"], rope_parameters=rope)
    text, model, reference = tokens(14), load(tmp_path), load_reference(tmp_path)
    assert any(each.rope and each.rope.axes for each in model.architecture.attentions)
    draw = torch.Generator().manual_seed(1)
    rows = torch.randn(4, model.architecture.hidden, generator=draw)
    content = PromptContent((ContentRows(2, (2, 2), rows),))
    state, theirs = model.new_state(64), reference.new_state(64)
    for images in (content, None):
        for each in (state, theirs):
            each.rewind(0)
            each.content = images
        assert state.has_images(4) is (images is not None)
        model.forward(text[:10], state, last=0)
        reference.forward(text[:10], theirs, last=0)
        found = model.forward(text[10:], state, last=4)
        expected = reference.forward(text[10:], theirs, last=4)
        assert distance(found, expected) < 2 * APART["bf16"]
        if images is not None:
            theirs.rewind(0)
            theirs.content = PromptContent((ContentRows(2, (1, 4), rows),))  # placed otherwise
            reference.forward(text[:10], theirs, last=0)
            assert distance(reference.forward(text[10:], theirs, last=4), expected) > 0.1
