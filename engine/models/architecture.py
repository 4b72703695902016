"""The description of a decoder: a family fills it in from config.json, an executor computes it.

A field says what a layer does, never which family has it. So a family is a function that returns an
``Architecture``, and an executor has one forward pass.

To add a field: give it a default that changes nothing. Every executor then refuses models that set it,
until it declares the field (engine/backends/support.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass

from engine.values import MAX_ROWS, RECENT_ROWS


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions: pair i of a head is rotated by ``frequencies[i]`` radians a position.

    With fewer frequencies than half the head's width, the rest of the head is not rotated. ``magnitude``
    multiplies the rotated part (YaRN and LongRoPE sharpen attention this way).
    """

    frequencies: tuple[float, ...]
    magnitude: float = 1.0
    interleaved: bool = False
    """In the file, the numbers of a pair stand side by side; otherwise half the rotated width apart."""
    axes: tuple[int, ...] = ()
    """Which of time (0), row (1) and column (2) in an image rotates each pair (M-RoPE, Qwen2-VL); all
    three are the position in text. Empty: the position alone."""


@dataclass(frozen=True, slots=True)
class Temperature:
    """Queries at position p are multiplied by 1 + scale * ln(1 + floor(p / length)) (Llama 4)."""

    scale: float
    length: int


def _check_shared(many: int, whose: str, few: int, what: str) -> None:
    """Raise ValueError unless each of ``few`` serves as many of ``many`` as the others."""
    if not 1 <= few <= many or many % few:
        raise ValueError(f"{many} {whose} cannot share {few} {what} evenly")


@dataclass(frozen=True, slots=True)
class Attention:
    """Grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245)."""

    heads: int
    kv_heads: int
    head_dim: int
    query_scale: float
    """Multiplies the scores; head_dim ** -0.5 in most models."""
    rope: Rope | None
    """None for a layer without positions (NoPE)."""
    window: int | None = None
    """Positions that a row sees, itself included; None: all of the past."""
    qkv_bias: bool = False
    output_bias: bool = False
    joined: bool = False
    """The file holds qkv_proj instead of its parts."""
    qk_norm: bool = False
    """Queries and keys are normalised per head before RoPE."""
    qk_norm_across_heads: bool = False
    """They are normalised over all heads together instead."""
    qk_norm_after_rope: bool = False
    """They are normalised after RoPE instead."""
    temperature: Temperature | None = None
    output_gate: bool = False
    """What a head attends to is multiplied by sigmoid(gate(x)), gates as wide as the queries."""
    shared_with: int | None = None
    """The earlier layer whose keys and values it reads, of the same size; it makes none itself."""
    value_norm: bool = False
    """Values are normalised per head too, without a weight."""
    keys_as_values: bool = False
    """Values are the keys, before their norm and RoPE."""
    score_cap: float | None = None
    """Scores s become cap * tanh(s / cap)."""
    sinks: bool = False
    """Each head's softmax has one more score, without a value (Xiao et al. 2023, arXiv 2309.17453)."""
    causal: bool = True
    """False: a row also sees the later rows of its step (block drafters)."""
    inputs: int | None = None
    """Width of its input, if it is not the residual stream's (EAGLE-3)."""

    def __post_init__(self) -> None:
        """Raise ValueError for heads that do not divide."""
        _check_shared(self.heads, "query heads", self.kv_heads, "key-value heads")


class Recurrent(ABC):
    """A mixer that keeps a state of fixed size and its last rows, instead of keys and values."""

    __slots__ = ()
    kernel: int
    """Positions of its convolution, the row itself included."""

    def __post_init__(self) -> None:
        """Raise ValueError for a convolution that reaches behind the rows that are kept."""
        if not 1 <= self.kernel <= MAX_ROWS:
            raise ValueError(
                f"a convolution over {self.kernel} positions is not supported, only over 1 to {MAX_ROWS}"
            )

    @property
    @abstractmethod
    def state_numbers(self) -> int:
        """How many numbers a state has."""

    @property
    @abstractmethod
    def row_numbers(self) -> int:
        """How many numbers of a row are kept, to take it in again and to convolve later rows."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of what the compiled step keeps of a sequence, in float32: two states and recent rows."""
        return 4 * (2 * self.state_numbers + (RECENT_ROWS + MAX_ROWS) * self.row_numbers)


@dataclass(frozen=True, slots=True)
class GatedDeltaNet(Recurrent):
    """A linear attention whose state decays and corrects itself (Yang, Kautz, Hatamizadeh 2024, arXiv
    2412.06464), after a causal convolution over ``kernel`` positions, as in Qwen3-Next and 3.5.

    Each key head serves ``value_heads / key_heads`` value heads.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    tiled: bool = False
    """Value head h uses key head h % key_heads, as in GGUF files; otherwise neighbours share one."""

    def __post_init__(self) -> None:
        Recurrent.__post_init__(self)
        _check_shared(self.value_heads, "value heads", self.key_heads, "key heads")

    @property
    def values(self) -> int:
        """How wide the values are, and so the gates and the result."""
        return self.value_heads * self.value_dim

    @property
    def channels(self) -> int:
        """How wide queries, keys and values are together: all that is convolved."""
        return 2 * self.key_heads * self.key_dim + self.values

    @property
    def state_numbers(self) -> int:
        return self.value_heads * self.key_dim * self.value_dim

    @property
    def row_numbers(self) -> int:
        return self.channels + 2 * self.value_heads


@dataclass(frozen=True, slots=True)
class Mamba2(Recurrent):
    """A state space whose heads forget by a number each (Dao and Gu 2024, arXiv 2405.21060), after a
    causal convolution over ``kernel`` positions; the result is gated, then normalised by ``groups``.

    Heads of a group share what they write and read of the state, ``state`` numbers wide.
    """

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int

    def __post_init__(self) -> None:
        Recurrent.__post_init__(self)
        _check_shared(self.heads, "Mamba-2 heads", self.groups, "groups")

    @property
    def values(self) -> int:
        """How wide the values are, and so the gates and the result."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """How wide values and what groups share are together: all that is convolved."""
        return self.values + 2 * self.groups * self.state

    @property
    def state_numbers(self) -> int:
        return self.values * self.state

    @property
    def row_numbers(self) -> int:
        return self.channels + self.heads


@dataclass(frozen=True, slots=True)
class ShortConvolution(Recurrent):
    """C * convolve(B * x) over ``kernel`` positions, where B, C and x are three linear outputs, each
    ``width`` wide (LFM2: Liquid AI 2025, arXiv 2511.23404).
    """

    width: int
    kernel: int

    @property
    def state_numbers(self) -> int:
        return 0

    @property
    def row_numbers(self) -> int:
        return self.width


@dataclass(frozen=True, slots=True)
class GatedMlp:
    """down(activation(gate(x)) * up(x)), ``intermediate`` wide inside (Shazeer 2020)."""

    intermediate: int
    activation: str
    """Transformers' name of the gate's function."""
    bias: bool = False
    joined: bool = False
    """The file holds gate_up_proj instead of its parts."""


@dataclass(frozen=True, slots=True)
class Mlp:
    """down(activation(up(x))), ``intermediate`` wide inside."""

    intermediate: int
    activation: str
    """Transformers' name."""
    bias: bool = False


MOST_EXPERTS = 4096
"""More than any layer has: a list of what a damaged file says would fill the memory."""


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of gated MLPs, of which each row uses some (Shazeer et al. 2017, arXiv 1701.06538).

    A row goes through those ``chosen`` of ``count`` to which a router gives the highest scores. Its
    result is the sum of theirs, each times its score.
    """

    count: int
    chosen: int
    intermediate: int
    """Width of each expert."""
    activation: str
    """See ``GatedMlp``."""
    sigmoid: bool = False
    """Scores are sigmoids of the router's logits; otherwise their softmax over all experts."""
    score_bias: bool = False
    """A bias is added to the scores by which experts are chosen, not to those in the sum."""
    renormalised: bool = False
    """The chosen experts' scores are divided by their sum."""
    scale: float = 1.0
    """Multiplies the scores in the end."""
    bias: bool = False
    """Router and experts add biases."""
    clamp: float | None = None
    """Gates are cut to this, before their function; the other factors to ± this, then 1 is added."""
    shared: int | None = None
    """Width of an expert that all rows go through besides."""
    shared_gate: bool = False
    """Its result is multiplied by sigmoid(gate(x)), one number for a row."""
    norms: bool = False
    """Router, experts and shared expert have a norm each before them, the experts' sum and the shared one
    a norm after them."""
    score_scales: bool = False
    """Scores are multiplied by a number of each expert in the end."""

    def __post_init__(self) -> None:
        """Raise ValueError for more experts than ``MOST_EXPERTS``, or for none that a row uses."""
        if not 1 <= self.chosen <= self.count:
            raise ValueError(f"a token cannot use {self.chosen} of {self.count} experts")
        if self.count > MOST_EXPERTS:
            raise ValueError(f"{self.count:,} experts in a layer are more than {MOST_EXPERTS:,}")

    @property
    def expert(self) -> GatedMlp:
        """One of the experts."""
        return GatedMlp(self.intermediate, self.activation, self.bias)


Mixer = Attention | GatedDeltaNet | Mamba2 | ShortConvolution


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """A layer: a mixer, through which a row sees the rows before it, then a feed-forward."""

    mixer: Mixer
    feed_forward: GatedMlp | Mlp | Experts

    @property
    def attention(self) -> Attention:
        """The mixer, which must be attention. Raises TypeError for another."""
        if not isinstance(self.mixer, Attention):
            raise TypeError(f"a layer has {type(self.mixer).__name__}, no attention")
        return self.mixer


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder: embedding, layers, final norm and output head."""

    layers: tuple[LayerSpec, ...]
    vocabulary: int
    hidden: int
    epsilon: float
    tied: bool
    """The output head is the embedding."""

    centred_norms: bool = False
    """Norms multiply by 1 + weight."""
    sandwich_norms: bool = False
    """The results of mixers and feed-forwards are normalised too, before they are added."""
    post_norms: bool = False
    """They are normalised before they are added, and inputs are not."""
    layer_norms: bool = False
    """Norms subtract the mean first (LayerNorm, Ba et al. 2016)."""
    norm_bias: bool = False
    """Norms add a bias."""
    parallel: bool = False
    """The feed-forward reads what the mixer reads, and the results of both are added."""
    residual_scale: float = 1.0
    """Multiplies the results of mixers and feed-forwards before they are added."""
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    """Multiplies logits, before ``logit_cap``."""
    per_layer_width: int | None = None
    """Width of the input that each layer has of its own, from a second embedding: Gemma's per-layer
    embeddings. The activation of the layer's feed-forward gates it."""
    layer_scalars: bool = False
    """The result of each layer is multiplied by a number of its own."""
    logit_cap: float | None = None
    """Logits l become cap * tanh(l / cap)."""

    @property
    def kv_slots(self) -> dict[int, int]:
        """The slot in a cache of each layer that attends, by its index."""
        slots: dict[int, int] = {}
        for index, spec in enumerate(self.layers):
            if isinstance(spec.mixer, Attention):
                shared = spec.mixer.shared_with
                slots[index] = len(set(slots.values())) if shared is None else slots[shared]
        return slots

    @property
    def kv_sizes(self) -> list[tuple[int, int]]:
        """kv_heads and head_dim of each slot."""
        makers = (each for each in self.attentions if each.shared_with is None)
        return [(each.kv_heads, each.head_dim) for each in makers]

    @property
    def last_slots(self) -> dict[bool, int]:
        """The slot of the last layer that makes keys and values, by whether it slides."""
        slots = self.kv_slots
        return {
            spec.mixer.window is not None: slots[index]
            for index, spec in enumerate(self.layers)
            if isinstance(spec.mixer, Attention) and spec.mixer.shared_with is None
        }

    @property
    def mixtures(self) -> tuple[Experts, ...]:
        """The feed-forwards that are mixtures of experts, in order."""
        feed_forwards = (spec.feed_forward for spec in self.layers)
        return tuple(each for each in feed_forwards if isinstance(each, Experts))

    @property
    def attentions(self) -> tuple[Attention, ...]:
        """The mixers of the attention layers, in order."""
        return tuple(spec.mixer for spec in self.layers if isinstance(spec.mixer, Attention))


SIZES = frozenset(
    {
        "layers", "vocabulary", "hidden", "epsilon", "layers.feed_forward.intermediate",
        "layers.feed_forward.count", "layers.feed_forward.chosen",
        "layers.mixer.rope.frequencies", "layers.mixer.query_scale",
        "layers.mixer.temperature.scale", "layers.mixer.temperature.length",
        *(f"layers.mixer.{name}" for name in (
            "heads", "kv_heads", "head_dim", "key_heads", "value_heads", "key_dim", "value_dim",
            "kernel", "width", "groups", "state",
        )),
    }
)  # fmt: skip
"""Sizes of every decoder, by ``features``' names. Executors check separately which sizes they take."""

KINDS = "layers.mixer", "layers.feed_forward"
"""Fields whose type is a feature."""


def features(architecture: Architecture) -> frozenset[str]:
    """Return the features that the model needs: fields, except sizes, that differ from their defaults.

    A name is the path of the field, as ``layers.mixer.window``. The value follows if the field names a
    function, as in ``layers.feed_forward.activation=silu``, and the type if there are several, as in
    ``layers.mixer=GatedDeltaNet``. A field without a default is needed unless it is None or False.
    """
    return frozenset(_features(architecture, ""))


def _features(value: object, prefix: str) -> Iterator[str]:
    for field in fields(value):  # type: ignore[arg-type]  # a dataclass
        name, setting = prefix + field.name, getattr(value, field.name)
        neutral = (None, False) if field.default is MISSING else (field.default,)
        if name in KINDS:
            yield f"{name}={type(setting).__name__}"
        elif name not in SIZES and setting not in neutral:
            yield f"{name}={setting}" if isinstance(setting, str) else name
        for part in setting if isinstance(setting, tuple) else (setting,):
            if is_dataclass(part):
                yield from _features(part, f"{name}.")
