"""What backends declare: a feature that one does not list is refused, in words that name it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from engine.backends import operations
from engine.backends.cuda import decoder as cuda
from engine.backends.native import support as native
from engine.backends.support import Support
from engine.backends.torch import decoder as eager
from engine.kernels.formats import FORMATS
from engine.kernels.native.library import Library
from engine.models.architecture import (
    Architecture,
    Attention,
    GatedMlp,
    LayerSpec,
    Rope,
    features,
)

ROPE = Rope((1.0, 0.5))
ATTENTION = Attention(2, 1, 64, 0.125, ROPE)
MLP = GatedMlp(64, "silu")
PLAIN = Architecture(
    layers=(LayerSpec(ATTENTION, MLP), LayerSpec(replace(ATTENTION, rope=None), MLP)),
    vocabulary=8, hidden=64, epsilon=1e-6, tied=False,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WiderArchitecture(Architecture):
    sinks: int = 0


@dataclass(frozen=True, slots=True)
class WiderLayer(LayerSpec):
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class WiderAttention(Attention):
    pass


@dataclass(frozen=True, slots=True)
class WiderMlp(GatedMlp):
    pass


@dataclass(frozen=True, slots=True)
class WiderRope(Rope):
    turned_back: bool = False


def widened(**new: int) -> Architecture:
    return WiderArchitecture(
        **{name: getattr(PLAIN, name) for name in Architecture.__dataclass_fields__}, **new
    )


def with_layer(**parts: Attention | GatedMlp) -> Architecture:
    return replace(PLAIN, layers=(replace(LayerSpec(ATTENTION, MLP), **parts),))


NEW = {
    "sinks": widened(sinks=4),
    "layers.chunk": replace(PLAIN, layers=(WiderLayer(ATTENTION, MLP, chunk=8),)),
    "layers.mixer.rope.turned_back": with_layer(
        mixer=replace(ATTENTION, rope=WiderRope((1.0,), turned_back=True))
    ),
    "layers.mixer=WiderAttention": with_layer(mixer=WiderAttention(2, 1, 64, 0.125, ROPE)),
    "layers.mixer.causal": with_layer(mixer=replace(ATTENTION, causal=False)),
    "layers.mixer.inputs": with_layer(mixer=replace(ATTENTION, inputs=128)),
    "layers.feed_forward=WiderMlp": with_layer(feed_forward=WiderMlp(64, "silu")),
    "layers.feed_forward.activation=xielu": with_layer(feed_forward=GatedMlp(64, "xielu")),
}
"""Models with what no decoder computes, by its name. Heads alone have two of them."""

DENSE = {
    "layers.mixer=Attention", "layers.mixer.rope", "layers.feed_forward=GatedMlp",
    "layers.feed_forward.activation=silu",
}  # fmt: skip

WhyNot = Callable[[Architecture, str], str | None]


@pytest.fixture(params=["torch", "native", "cuda"])
def why_not(request: pytest.FixtureRequest) -> WhyNot:
    if request.param == "torch":
        return eager.SUPPORT.why_not
    if request.param == "cuda":
        return cuda.why_not
    library: Library = request.getfixturevalue("library")
    return lambda architecture, weights: native.why_not(architecture, weights, library)


@pytest.mark.parametrize("name", NEW)
def test_a_new_field_is_refused_by_name_until_a_backend_lists_it(
    name: str, why_not: WhyNot
) -> None:
    assert why_not(PLAIN, "bf16") is None
    reason = why_not(NEW[name], "bf16")
    assert reason is not None and name in reason


def test_a_new_field_that_nobody_sets_changes_nothing(why_not: WhyNot) -> None:
    assert features(widened()) == features(PLAIN) == DENSE
    assert why_not(widened(), "int8") is None


def test_a_format_is_refused_with_those_that_there_are(why_not: WhyNot) -> None:
    reason = why_not(PLAIN, "fp4")
    assert reason is not None and "fp4" in reason and "bf16" in reason


def test_blocks_of_a_gguf_file_are_refused_until_a_backend_lists_their_format(
    library: Library,
) -> None:
    assert native.why_not(PLAIN, "stored", library, {"q4_k", "iq2_s"}) is None
    reason = native.why_not(PLAIN, "stored", library, {"q4_k", "q9_k"})
    assert reason == "The compiled kernels cannot compute with Q9_K blocks."
    assert native.why_not(PLAIN, "int8", library, {"q9_k"}) is None  # they are widened before
    for why_not in (eager.SUPPORT.why_not, cuda.why_not):
        assert why_not(PLAIN, "stored", {"q4_k"}) is None
        assert "cannot compute with IQ2_S blocks" in (why_not(PLAIN, "stored", {"iq2_s"}) or "")


def test_a_heads_layers_have_what_heads_compute() -> None:
    ahead = replace(ATTENTION, causal=False, inputs=128, window=8, qk_norm=True, output_gate=True)
    assert operations.SUPPORT.why_not(with_layer(mixer=ahead), "fp32") is None
    for change in ({"score_cap": 5.0}, {"shared_with": 0}):
        reason = operations.SUPPORT.why_not(with_layer(mixer=replace(ahead, **change)), "fp32")
        assert (
            reason
            == f"A head cannot compute layers.mixer.{next(iter(change))}, which the model needs."
        )


def test_what_is_not_listed_is_not_computed() -> None:
    nothing = Support("It", {}, {}, (), FORMATS, options=frozenset())
    capped = with_layer(mixer=replace(ATTENTION, score_cap=50.0))
    reason = nothing.why_not(replace(capped, tied=True), "bf16")
    assert reason == (
        "It cannot compute layers.feed_forward.activation=silu, layers.feed_forward=GatedMlp, "
        "layers.mixer.rope, layers.mixer.score_cap, layers.mixer=Attention, tied, which the model needs."
    )


@pytest.mark.parametrize(
    ("sized", "kind"),
    [
        (replace(PLAIN, hidden=72), "bf16"),
        (with_layer(feed_forward=GatedMlp(80, "silu")), "nf4"),
        (with_layer(feed_forward=GatedMlp(80, "silu")), "q4"),
    ],
    ids=["hidden", "nf4", "q4"],
)
def test_the_compiled_step_takes_whole_vectors_and_groups(
    sized: Architecture, kind: str, library: Library
) -> None:
    reason = native.why_not(sized, kind, library)
    assert reason is not None and "multiples of 16, in q4 of 32, and in nf4 of 64" in reason
    assert native.why_not(PLAIN, kind, library) is None
