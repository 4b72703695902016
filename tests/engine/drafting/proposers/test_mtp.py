"""The layer that a checkpoint brings drafts as vLLM's does, and no word depends on it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting import heads, proposers, vocabulary_trimmer
from engine.drafting.heads.base import HeadPlan
from engine.drafting.heads.mtp import MtpHead
from engine.drafting.proposers import mtp
from engine.drafting.resources import Resources
from engine.errors import ModelError
from engine.events import Budget
from engine.loading.catalog import local_spec
from engine.loading.specs import Pairing
from engine.models.checkpoints.checkpoint import inspect
from engine.models.hidden_states import NORMED
from engine.request import Control, Request, Speculation
from engine.values.grammar import Grammar, GrammarKind
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.local.session.test_batch import Client, run
from tests.support.checkpoints import open_session
from tests.support.families import write_family
from tests.support.gguf_files import write_gguf
from tests.support.heads import in_torch, write_mtp
from tests.support.loading import load_model
from tests.support.lossless import COUPLED, GREEDY, Pair, answer
from tests.support.lossless import PLAIN as PLAIN_DECODING
from tests.support.places import TINY_QWEN

PLAIN = LinearFactory("fp32", torch.device("cpu"))
TEXT = tuple(range(5, 160, 3))
ANIMALS = Grammar(GrammarKind.REGEX, r"(The|A) [a-z]{3,9}( and the [a-z]{3,9}){0,3}\.")
FIXED = Speculation(proposer="mtp", depth=5, controller=Control.FIXED)
QUESTION = (Message("user", "Tell me a short tale about a fox."),)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("qwen")
    write_family(folder, "qwen3.5", hidden_size=64, intermediate_size=96)
    write_mtp(folder)
    return folder


def by_vllm(folder: Path, states: Tensor, tokens: Sequence[int], depth: int) -> list[Tensor]:
    """The logits of each drafted token, by transformers' layer and the order of vLLM's qwen3_5_mtp.py.

    ``states (rows, hidden)`` are the target's, normed; row i goes with ``tokens[i + 1]``.
    """
    qwen = pytest.importorskip("transformers.models.qwen3_5.modeling_qwen3_5")
    config = qwen.Qwen3_5TextConfig.from_pretrained(folder, attn_implementation="eager")
    tensors = load_file(folder / "model.safetensors")
    own = {name.removeprefix("mtp."): each for name, each in tensors.items() if "mtp." in name}
    layer = qwen.Qwen3_5DecoderLayer(config, config.layer_types.index("full_attention"))
    prefix = "layers.0."
    layer.load_state_dict(
        {name.removeprefix(prefix): each for name, each in own.items() if prefix in name}
    )
    rotary, table = qwen.Qwen3_5TextRotaryEmbedding(config), tensors["model.embed_tokens.weight"]

    def norm(x: Tensor, name: str) -> Tensor:
        scale = (x.square().mean(-1, keepdim=True) + config.rms_norm_eps).rsqrt()
        return x * scale * (1 + own[f"{name}.weight"])

    def outputs(states: Tensor, behind: Sequence[int]) -> Tensor:
        embedded = norm(table[list(behind)], "pre_fc_norm_embedding")
        x = torch.cat([embedded, norm(states, "pre_fc_norm_hidden")], -1) @ own["fc.weight"].T
        rows = len(x)
        mask = torch.full((rows, rows), float("-inf")).triu(1)[None, None]
        around = rotary(x[None], torch.arange(rows)[None])
        hidden: Any = layer(x[None], position_embeddings=around, attention_mask=mask)
        return norm((hidden[0] if isinstance(hidden, tuple) else hidden).view(rows, -1), "norm")

    behind, logits = list(tokens[1:]), []
    with torch.inference_mode():
        for _ in range(depth):
            state = outputs(states, behind)[-1:]
            logits.append((state @ table.T)[0])
            behind.append(int(logits[-1].argmax()))
            states = torch.cat([states, state])
    return logits


@pytest.fixture(scope="module")
def trained() -> Pair:
    return Pair(TINY_QWEN)


class Bench:
    """A proposer behind a target, and a text that grows."""

    def __init__(self, path: Path, linears: LinearFactory = PLAIN, *, eager: bool = True) -> None:
        checkpoint = inspect(path)
        model = load_model(path, quantization="fp32", native=not eager)
        plan = heads.inside(checkpoint)
        assert isinstance(plan, HeadPlan)
        head = heads.load(plan, linears)
        assert isinstance(head, MtpHead)
        self.target = Target(model, head.aux_layers)
        resources = Resources(heads={"mtp": head}, backbone=self.target)
        self.proposer: Any = proposers.create("mtp", {}, resources)

    def begin(self, text: Sequence[int], sampling: Sampling = GREEDY) -> Bench:
        self.context = Context(tuple(text))
        self.target.extend(text[self.target.reuse(text[:-1]) : -1])
        rule = AcceptanceRule.COUPLED if sampling.temperature else AcceptanceRule.GREEDY
        self.proposer.begin(self.context, Sampler(sampling, rule, 4, self.context, 4096))
        for _ in self.proposer.prepare(self.context):
            pass
        return self

    def draft(self, depth: int = 5) -> Any:
        return self.proposer.propose(self.context, Budget(depth, depth))

    def take(self, tokens: Sequence[int]) -> None:
        self.context.tokens += tokens
        self.target.extend(self.context.tokens[self.target.length : -1])


def test_drafts_are_those_of_the_published_layer(folder: Path) -> None:
    """Behind a prompt, and behind rounds of which a part was accepted."""
    bench = Bench(folder).begin(TEXT)
    for accepted in (0, 2, 5):
        states = bench.target.aux_hidden_states(NORMED, 0, bench.target.length)
        expected = by_vllm(folder, states, bench.context.tokens, 5)
        proposal = bench.draft()
        assert list(proposal.tree.tokens) == [int(each.argmax()) for each in expected]
        q = [float(torch.softmax(each, -1).max()) for each in expected]
        assert proposal.chosen_q == pytest.approx(q, rel=1e-3)
        bench.take([*proposal.tree.tokens[:accepted], 77])


def test_a_gguf_files_layer_is_the_same(folder: Path, tmp_path: Path) -> None:
    file = write_gguf(folder, tmp_path / "model.gguf")
    assert inspect(file).layers == inspect(folder).layers
    found, expected = Bench(file).begin(TEXT).draft(), Bench(folder).begin(TEXT).draft()
    assert found.tree == expected.tree
    assert found.chosen_q == pytest.approx(expected.chosen_q, rel=1e-3)


@pytest.mark.parametrize("trimmed", [False, True], ids=["all tokens", "trimmed"])
@pytest.mark.parametrize(
    "sampling", [GREEDY, COUPLED[0], COUPLED[3]], ids=["greedy", "drawn", "cut"]
)
def test_the_compiled_step_drafts_what_torch_drafts(
    folder: Path, library: Any, sampling: Sampling, trimmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also among frequent tokens and those of the text, and among all once too many others are in it."""
    if trimmed:
        monkeypatch.setattr(mtp, "frequent_tokens", lambda vocabulary: 128)
        monkeypatch.setattr(vocabulary_trimmer, "MISSES", 2)
    compiled = Bench(folder, LinearFactory("fp32", PLAIN.device, library), eager=False)
    with in_torch():
        eager = Bench(folder, LinearFactory("fp32", PLAIN.device, library), eager=False)
    assert compiled.proposer.drafts.draft.draws and not eager.proposer.drafts.draft.draws
    for text in (TEXT, (7, 290, 3)):
        both = [bench.begin(text, sampling) for bench in (compiled, eager)]
        for extra in (9, 300, 200, 250, 170):
            found, expected = (bench.draft() for bench in both)
            assert found.tree == expected.tree
            assert found.chosen_q == pytest.approx(expected.chosen_q, rel=2e-3, abs=1e-6)
            for bench in both:
                bench.take([*expected.tree.tokens[:2], extra])
    assert compiled.proposer.candidates is None or not compiled.proposer.candidates.trimmed


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "in torch"])
def test_no_word_depends_on_it(folder: Path, compiled: bool) -> None:
    pair = Pair(folder, dtype="fp32", compiled=compiled)
    assert {"mtp", "best"} <= set(pair.proposers)
    for name in ("mtp", "best"):
        for sampling in (GREEDY, COUPLED[0], COUPLED[7]):
            for control, depth in ((Control.FIXED, 5), (Control.AUTO, 4)):
                wanted = Speculation(proposer=name, depth=depth, controller=control)
                pair.check(TEXT, sampling, wanted, 24)


@pytest.mark.parametrize("grammar", [None, ANIMALS, Grammar(GrammarKind.JSON_OBJECT)])
def test_no_word_depends_on_it_under_grammars_and_in_trees(
    trained: Pair, grammar: Grammar | None
) -> None:
    for sampling in (GREEDY, COUPLED[0]):
        request = Request(messages=QUESTION, sampling=sampling, max_tokens=40, grammar=grammar)
        plain = answer(trained.plain, replace(request, speculation=PLAIN_DECODING))
        for nodes in (0, 8):
            wanted = replace(FIXED, options={"tree_nodes": nodes})
            found = answer(trained.speculative, replace(request, speculation=wanted))
            assert found.tokens == plain.tokens
            assert grammar or found.accepted
            assert grammar or nodes == 0 or not all(one.tree.is_chain for one in found.rounds)


def test_requests_at_once_say_what_each_says_alone(trained: Pair) -> None:
    samplings = (GREEDY, COUPLED[0], COUPLED[5], GREEDY)
    wanted = Speculation(proposer="mtp", depth=4, controller=Control.AUTO)
    clients = [
        Client(
            Request(messages=QUESTION, sampling=sampling, max_tokens=40, speculation=wanted),
            arrives=arrives,
        )
        for arrives, sampling in enumerate(samplings)
    ]
    run(open_session(TINY_QWEN, dtype="auto", parallel=4), clients)
    for client in clients:
        assert client.error is None
        assert client.finished.token_ids == answer(trained.plain, client.request).tokens


def test_the_pair_is_known_to_have_it_before_it_is_loaded(folder: Path) -> None:
    assert "mtp" in Pairing(name="own", target=local_spec(folder)).proposers


def test_a_wrong_configuration_is_said_by_loading_and_stops_no_scan(
    folder: Path, tmp_path: Path
) -> None:
    damaged = Path(shutil.copytree(folder, tmp_path / "damaged"))
    config = json.loads((damaged / "config.json").read_text())
    (damaged / "config.json").write_text(json.dumps(config | {"linear_num_key_heads": "two"}))
    assert heads.inside(inspect(damaged)) is None
    assert not local_spec(damaged).mtp
    with pytest.raises(ModelError, match="holds a value that cannot be used"):
        load_model(damaged)


def test_a_layer_of_another_width_is_refused(folder: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(folder, tmp_path / "damaged"))
    tensors = load_file(folder / "model.safetensors")
    tensors["mtp.fc.weight"] = tensors["mtp.fc.weight"][:, :64].contiguous()
    save_file(tensors, damaged / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"mtp\.fc\.weight has the shape"):
        heads.inside(inspect(damaged))
