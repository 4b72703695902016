"""A contract for every kind of head: both executors draft the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.backends.native import build
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.text.codec import TextCodec
from engine.drafting import heads, proposers
from engine.drafting.resources import Resources
from engine.events import Budget
from engine.kernels.native.library import Kind, Library, Matrix
from engine.models.checkpoints.checkpoint import inspect
from engine.models.hidden_states import AuxHiddenStates, AuxLayer, EmbeddingAndHead
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support import heads as made
from tests.support.gguf_heads import write_gguf_head
from tests.support.heads import FakeShape, write_head
from tests.support.loading import load_model
from tests.support.places import PIP

CPU = torch.device("cpu")
TARGET = FakeShape(hidden=64, vocabulary=1037, layers=8, context=400)
SIZES = {"heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 48}
GREEDY = Sampling(), AcceptanceRule.GREEDY
DRAWN = Sampling(temperature=0.9, seed=4), AcceptanceRule.COUPLED
CUT = Sampling(temperature=0.9, top_p=0.95, seed=4), AcceptanceRule.COUPLED
PENALISED = Sampling(temperature=0.0, repetition_penalty=1.3), AcceptanceRule.GREEDY

Made = tuple[dict[str, Any], dict[str, Tensor]]


@pytest.fixture(scope="module")
def threads(library: Library) -> Library:
    """The compiled step on two threads, so that what one makes is read by the other."""
    return Library(Path(build.build()), 2)


class Shown:
    """A target that has read as much as it is told; its states and its ends are noise."""

    tree_nodes = 0

    def __init__(
        self, library: Library, aux_layers: Sequence[AuxLayer], dtype: torch.dtype
    ) -> None:
        generator = torch.Generator().manual_seed(3)

        def noise(rows: int) -> Tensor:
            return torch.randn(rows, TARGET.hidden, generator=generator)

        self.length = 0
        self.kept = AuxHiddenStates(
            aux_layers,
            layers=TARGET.layers,
            hidden=TARGET.hidden,
            context=400,
            dtype=dtype,
            device=CPU,
        )
        for aux_layer in aux_layers:
            self.kept.write(aux_layer, torch.arange(400), noise(400))
        self.keys = torch.randn(2, 25, 16, 16, generator=generator).to(dtype)
        self.values = torch.randn(2, 400, 16, generator=generator).to(dtype)
        embedding, head = (Matrix(library, Kind.FP32, noise(TARGET.vocabulary)) for _ in "eh")
        self.embedding_and_head = EmbeddingAndHead(embedding, head, 20.0, 0.5)

    def aux_hidden_states(self, aux_layer: AuxLayer, start: int, end: int) -> Tensor:
        return self.aux_buffer(aux_layer)[start:end].float()

    def aux_buffer(self, aux_layer: AuxLayer) -> Tensor:
        return self.kept.at(aux_layer)

    def head_operations(self) -> None:
        return None

    def keys_values(self, slides: bool) -> tuple[Tensor, Tensor]:
        keys, values = self.keys.transpose(2, 3).flatten(1, 2), self.values
        return keys[:, : self.length].float(), values[:, : self.length].float()

    def kv_buffers(self, slides: bool) -> tuple[Tensor, Tensor]:
        return self.keys, self.values

    def embed(self, tokens: Sequence[int]) -> Tensor:
        return self.embedding_and_head.embedding.rows(tokens)

    def logits(self, normed: Tensor) -> Tensor:
        return 20 * torch.tanh(self.embedding_and_head.head(0.5 * normed) / 20)


def eagle3(**changes: Any) -> Made:
    return made.eagle3(TARGET, sizes=SIZES, **changes)


def eagle3_otherwise() -> Made:
    """With all that the plain one lacks: a norm before fc, norms of heads, biases, an embedding."""
    config, tensors = made.eagle3(TARGET, sizes=SIZES, draft_vocabulary=TARGET.vocabulary)
    generator = torch.Generator().manual_seed(8)
    del tensors["d2t"], tensors["t2d"]
    config |= {"norm_before_residual": True, "norm_output": True, "norm_before_fc": True}
    config |= {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu_pytorch_tanh"}

    def near_one(width: int) -> Tensor:
        return 1 + 0.2 * torch.randn(width, generator=generator)

    tensors["input_norm.weight"] = near_one(3 * TARGET.hidden)
    for name in "qk":
        tensors[f"midlayer.self_attn.{name}_norm.weight"] = near_one(SIZES["head_dim"])
    for name in [name for name in tensors if "_proj" in name]:
        bias = torch.randn(len(tensors[name]), generator=generator)
        tensors[name.replace("weight", "bias")] = bias
    table = torch.randn(TARGET.vocabulary, TARGET.hidden, generator=generator)
    tensors["embed_tokens.weight"] = table.bfloat16()
    return config, tensors


def block(**changes: Any) -> Made:
    return made.block(TARGET, sizes=SIZES, read=(0, 3, 6), **changes)


def halves(made: Made) -> Made:
    """As speculators are published."""
    return made[0], {name: tensor.half() for name, tensor in made[1].items()}


HEADS: dict[str, tuple[str, Callable[[], Made]]] = {
    **{
        f"medusa, {layers} layers": (
            "medusa",
            lambda layers=layers: made.medusa(TARGET, layers=layers),
        )
        for layers in (1, 2)
    },
    "mlp": ("mlp", lambda: made.mlp(TARGET, steps=4, width=48)),
    "mlp, steps of their own": ("mlp", lambda: made.mlp(TARGET, steps=4, width=48, tied=False)),
    "mlp, in halves": ("mlp", lambda: halves(made.mlp(TARGET, width=32))),
    "lstm": ("lstm", lambda: made.lstm(TARGET, steps=4, width=48)),
    "lstm, an embedding a gate": (
        "lstm",
        lambda: made.lstm(TARGET, steps=4, width=48, tied=False),
    ),
    "eagle3": ("eagle3", eagle3),
    "eagle3, otherwise": ("eagle3", eagle3_otherwise),
    "p-eagle": ("eagle3", lambda: made.peagle(TARGET, sizes=SIZES)),
    "dflash": ("block", block),
    "dflash, 20 rows": ("block", lambda: block(size=20, layers=1)),
    "dspark": ("block", lambda: block(rank=16)),
    "dflash2": ("block", lambda: made.dflash2(TARGET, sizes=SIZES, read=(0, 3, 6))),
    "assistant": ("assistant", lambda: made.assistant(TARGET)),
}


def load(folder: Path, name: str, products: LinearFactory) -> Any:
    kind, make = HEADS[name]
    folder = write_head(folder, *make())
    head = heads.load(heads.inspect(folder, TARGET), products)
    assert head.kind == kind
    return head


class Drafter:
    """A proposer for a text that grows."""

    def __init__(
        self,
        head: Any,
        target: Any,
        options: dict[str, Any] | None = None,
        *,
        in_torch: bool = False,
    ) -> None:
        self.target = target
        resources = Resources(heads={head.kind: head}, backbone=target)
        with made.in_torch() if in_torch else nullcontext():
            self.proposer: Any = proposers.create(head.kind, options or {}, resources)

    @property
    def compiled(self) -> bool:
        return bool(self.proposer.drafts.draft.draws)

    def begin(self, text: Sequence[int], wanted: tuple[Sampling, AcceptanceRule]) -> Drafter:
        self.context = Context(tuple(text))
        self.read()
        vocabulary = TARGET.vocabulary if isinstance(self.target, Shown) else 4096
        self.sampler = Sampler(*wanted, 4, self.context, vocabulary)
        self.proposer.begin(self.context, self.sampler)
        for _ in self.proposer.prepare(self.context):
            pass
        return self

    def read(self) -> None:
        if isinstance(self.target, Shown):
            self.target.length = len(self.context.tokens) - 1
        else:
            self.target.extend(self.context.tokens[self.target.length : -1])

    def draft(self, depth: int) -> DraftProposal:
        proposal: DraftProposal = self.proposer.propose(self.context, Budget(depth, depth))
        return proposal

    def take(self, tokens: Sequence[int]) -> None:
        self.context.tokens += tokens
        self.read()


def text(count: int) -> list[int]:
    generator = torch.Generator().manual_seed(count)
    return torch.randint(TARGET.vocabulary, (count,), generator=generator).tolist()


def same(found: DraftProposal, expected: DraftProposal, kind: str = "") -> None:
    # An assistant reads the target's keys and values in bf16, which some processors multiply in pairs.
    times = 10 if kind == "assistant" else 1
    assert found.tree == expected.tree
    assert found.chosen_q == pytest.approx(expected.chosen_q, rel=times * 2e-3, abs=1e-6)
    if expected.q is None or found.q is None:
        return
    assert torch.allclose(found.q, expected.q, atol=times * 2e-5)


@pytest.mark.parametrize("name", HEADS)
def test_drafts_are_those_of_torch_round_after_round(
    name: str, threads: Library, tmp_path: Path
) -> None:
    """Behind prompts of one part and of many, and whatever of a draft was accepted."""
    head = load(tmp_path, name, LinearFactory("fp32", CPU, threads))
    compiled, eager = (
        Drafter(head, Shown(threads, head.aux_layers, torch.bfloat16), in_torch=in_torch)
        for in_torch in (False, True)
    )
    assert compiled.compiled and not eager.compiled
    for wanted, length in (
        (GREEDY, 5),
        (CUT, 40),
        (PENALISED, 300),
        (DRAWN, 9),
    ):
        both = [drafter.begin(text(length), wanted) for drafter in (compiled, eager)]
        for depth, accepted in ((3, 0), (15, 2), (1, 1), (4, 3), (2, 0)):
            found, expected = (drafter.draft(depth) for drafter in both)
            same(found, expected, name)
            for drafter in both:
                drafter.take([*expected.tree.tokens[:accepted], 7 + depth])


@pytest.mark.parametrize("name", ["eagle3", "dflash", "dflash2", "dspark", "assistant"])
def test_a_gguf_file_drafts_what_the_folder_does_that_it_was_made_from(
    name: str, threads: Library, tmp_path: Path
) -> None:
    kind, make = HEADS[name]
    folder = write_head(tmp_path / "head", *make())
    linears = LinearFactory("fp32", CPU, threads)
    plans = [
        heads.inspect(place, TARGET)
        for place in (folder, write_gguf_head(folder, tmp_path / "head.gguf", TARGET.layers))
    ]
    shapes = [getattr(plan.shape, "architecture", plan.shape) for plan in plans]
    assert shapes[0] == shapes[1] and plans[1].kind == kind
    drafters = [
        Drafter(head, Shown(threads, head.aux_layers, torch.float32)).begin(text(40), DRAWN)
        for head in (heads.load(plan, linears) for plan in plans)
    ]
    for token in (3, 5):
        one, other = (drafter.draft(5) for drafter in drafters)
        assert one.tree == other.tree and one.chosen_q == other.chosen_q
        for drafter in drafters:
            drafter.take([token])


@pytest.mark.parametrize("name", ["eagle3", "dspark"])
def test_a_text_that_is_all_read_is_drafted_behind_again(
    name: str, threads: Library, tmp_path: Path
) -> None:
    head = load(tmp_path, name, LinearFactory("fp32", CPU, threads))
    drafter = Drafter(head, Shown(threads, head.aux_layers, torch.float32)).begin(text(40), GREEDY)
    first = drafter.draft(4)
    same(drafter.draft(4), first)
    same(drafter.begin(text(40), GREEDY).draft(4), first)
    drafter.proposer.close()
    same(drafter.draft(4), first)


@pytest.mark.parametrize("wanted", [GREEDY, DRAWN, CUT])
@pytest.mark.parametrize("least", [0.3, 0.5, 0.9])
def test_doubted_tokens_are_cut_likewise(
    least: float, wanted: tuple[Sampling, AcceptanceRule], threads: Library, tmp_path: Path
) -> None:
    head = load(tmp_path, "dspark", LinearFactory("fp32", CPU, threads))
    options = {"min_confidence": least}
    found, expected = (
        Drafter(
            head, Shown(threads, head.aux_layers, torch.float32), options, in_torch=in_torch
        ).begin(text(30), wanted)
        for in_torch in (False, True)
    )
    for token in (3, 5, 8):
        same(found.draft(5), expected.draft(5))
        found.take([token])
        expected.take([token])


@pytest.mark.parametrize("name", ["medusa, 1 layers", "mlp", "lstm", "eagle3", "dspark"])
def test_products_that_are_not_compiled_draft_in_torch(
    name: str, threads: Library, tmp_path: Path
) -> None:
    head = load(tmp_path, name, LinearFactory("fp32", CPU))
    drafter = Drafter(head, Shown(threads, head.aux_layers, torch.float32))
    assert not drafter.compiled
    assert len(drafter.begin(text(9), GREEDY).draft(3).tree) == 3


@pytest.mark.parametrize("in_torch", [False, True], ids=["compiled", "in torch"])
@pytest.mark.parametrize("name", ["medusa, 1 layers", "lstm", "eagle3", "dspark"])
def test_what_drafts_is_freed_with_its_proposer(
    name: str, in_torch: bool, threads: Library, tmp_path: Path
) -> None:
    """At once: it holds weights of the head and the target, and a GPU's memory waits for no collector."""
    head = load(tmp_path, name, LinearFactory("fp32", CPU, threads))
    drafter = Drafter(head, Shown(threads, head.aux_layers, torch.float32), in_torch=in_torch)
    drafter.begin(text(9), GREEDY).draft(3)
    held = weakref.ref(drafter.proposer.drafts.draft)
    gc.disable()
    try:
        del drafter
        assert held() is None
    finally:
        gc.enable()


def test_odd_widths_draft_in_torch(threads: Library, tmp_path: Path) -> None:
    folder = write_head(tmp_path, *made.lstm(TARGET, width=24))
    head = heads.load(heads.inspect(folder, TARGET), LinearFactory("fp32", CPU, threads))
    assert Drafter(head, Shown(threads, head.aux_layers, torch.float32)).compiled is False


@pytest.mark.parametrize("kind", heads.kinds())
def test_pips_own_heads_draft_the_same(kind: str, library: Library) -> None:
    """With weights as they are; in int8 the last bit of a row may round it to another byte."""
    model, shape = load_model(PIP / "target", quantization="fp32"), inspect(PIP / "target")
    folder = made.heads_of_pip()[heads.kinds().index(kind)]
    plan, codec = heads.inspect(folder, shape), TextCodec(PIP / "target")
    kinds = [quick for quick in ("fp32", "int8") if quick in library.kinds]
    for products in (LinearFactory(quick, CPU, library) for quick in kinds):
        head = heads.load(plan, products)
        differ, drafted = 0, 0
        for prompt in ("Once upon a time", "What is a draft model? It is", "def main():"):
            tokens = codec.encode(prompt, special=True)
            compiled, eager = (
                Drafter(head, Target(model, head.aux_layers), in_torch=in_torch).begin(
                    tokens, GREEDY
                )
                for in_torch in (False, True)
            )
            assert compiled.compiled and not eager.compiled
            for _ in range(8):
                found, expected = compiled.draft(4), eager.draft(4)
                if products.kind == "fp32":
                    same(found, expected)
                drafted += len(expected.tree)
                pairs = zip(found.tree.tokens, expected.tree.tokens, strict=True)
                differ += sum(one != other for one, other in pairs)
                for drafter in (compiled, eager):
                    drafter.take([expected.tree.tokens[0]])
        assert differ <= 0.1 * drafted
