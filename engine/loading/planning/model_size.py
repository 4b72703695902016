"""The sizes of one model: the bytes of its weights and caches, and of what a GPU works in beside them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.kernels.cuda import KV_SPLIT, STREAMED_ROWS, kv_parts
from engine.kernels.formats import FP8
from engine.loading.specs import ModelSpec
from engine.models.architecture import Recurrent
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families import described
from engine.models.tensor_shapes import widest_rows
from engine.values import CHECKPOINT_MB, MAX_DEPTH, MAX_ROWS, MAX_STEP_ROWS
from engine.values.memory import WIDTHS, kv_numbers

FP8_SCALE = 4
"""Bytes of the scale that each position of a head has in a KV cache in fp8."""

GPU_VOCABULARY_ROWS = 20
"""Numbers of 4 bytes for every token of a row: logits, p, q, and a truncation's sorted values, their
places and sums, of which some have 8 bytes."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The sizes of one model that count for memory.

    ``layers`` counts those that attend. ``repeated`` are the weights of an embedding that is also the
    output head, where it is kept twice: in rows for lookup, and packed for the product. 0 where that is
    not known. ``aux_width`` are the numbers kept of each token's hidden states, for heads to read.
    ``weights`` and ``cache`` are the formats of both, keys of ``WIDTHS``. ``block_bytes``: of all weights
    in a GGUF file, where they are kept in the blocks that it has or would have, else 0.
    ``recurrent_bytes`` are those of a sequence's recurrent states, ``saved_bytes`` what saved ones may
    take. ``heads`` and ``vocabulary`` are 0 where they are not known.
    ``kv_sizes``: kv_heads and head_dim of each slot of the cache; without them all ``layers`` have one
    like the model. ``on_host``: it is in main memory though the target is on a GPU. ``partial``: other
    layers of it are, so its rounds are no graphs. ``steps``: the most tokens that it drafts in a round.
    ``unrounded``: how many weights stay in bf16 while the others are in ``weights``. ``hidden`` and
    ``widest``: numbers of a row of the residual stream, and of the widest one that a linear layer takes;
    0 where they are not known.
    """

    name: str
    parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    context: int
    repeated: int = 0
    aux_width: int = 0
    weights: str = "bf16"
    cache: str = "bf16"
    heads: int = 0
    vocabulary: int = 0
    block_bytes: int = 0
    recurrent_bytes: int = 0
    saved_bytes: int = 0
    kv_sizes: tuple[tuple[int, int], ...] = ()
    on_host: bool = False
    partial: bool = False
    steps: int = MAX_DEPTH
    unrounded: int = 0
    hidden: int = 0
    widest: int = 0

    @classmethod
    def of(
        cls,
        source: ModelSpec | Checkpoint,
        weights: str = "bf16",
        cache: str = "bf16",
        checkpoint_mb: int = CHECKPOINT_MB,
    ) -> ModelSize:
        """Return the size of a catalog entry or of a folder, by its headers.

        ``checkpoint_mb``: the memory of saved states, if it has recurrent layers.
        """
        if isinstance(source, ModelSpec):
            tied, heads, known = source.tied, 0, source.architecture
        else:
            tied, heads, known = source.repeats_embedding, source.heads, described(source)
        mixers = [] if known is None else [spec.mixer for spec in known.layers]
        recurrent = [mixer for mixer in mixers if isinstance(mixer, Recurrent)]
        states = sum(mixer.memory_bytes for mixer in recurrent)
        return cls(
            source.name,
            source.parameters,
            source.layers if known is None else len(known.attentions),
            source.kv_heads,
            source.head_dim,
            source.context,
            source.vocabulary * source.hidden if tied else 0,
            weights=weights,
            cache=cache,
            heads=heads,
            vocabulary=source.vocabulary,
            recurrent_bytes=states,
            saved_bytes=checkpoint_mb << 20 if states else 0,
            kv_sizes=() if known is None else tuple(known.kv_sizes),
            hidden=source.hidden,
            widest=0 if known is None else widest_rows(known),
        )

    def weight_bytes(self) -> int:
        """Return the bytes of all weights."""
        if self.block_bytes:
            return self.block_bytes
        rounded = self.parameters + self.repeated - self.unrounded
        return int(rounded * WIDTHS[self.weights] + self.unrounded * WIDTHS["bf16"])

    def kv_bytes_per_token(self) -> int:
        """Return the bytes of keys, values and aux hidden states of a token, in all layers.

        Aux hidden states are in bf16 beside a cache in fp8.
        """
        width = aux_width = WIDTHS[self.cache]
        sizes = self.kv_sizes or ((self.kv_heads, self.head_dim),) * self.layers
        numbers = sum(kv_numbers(*size) for size in sizes)
        scales = 0
        if self.cache == FP8:
            aux_width = WIDTHS["bf16"]
            scales = sum(kv_numbers(kv_heads, 1) for kv_heads, _ in sizes) * FP8_SCALE
        return int(numbers * width + scales + self.aux_width * aux_width)

    def kv_bytes(self, context: int) -> int:
        """Return the bytes of states and of a cache of ``context`` tokens, at most the model's own."""
        cache = min(context, self.context) * self.kv_bytes_per_token()
        return cache + self.recurrent_bytes + self.saved_bytes

    def scratch_bytes(self, threads: int) -> int:
        """Return the bytes of each thread's buffers in the compiled step (``Scratch`` of decoder.h): the
        residual stream, its norm, an expert's rows, and a layer's rows, which are floats at most."""
        return threads * MAX_STEP_ROWS * 4 * (3 * self.hidden + self.widest)

    def attention_bytes(self, context: int, gpu: bool) -> int:
        """Return what attention takes beside the cache: the cosines and sines of all positions, which
        layers of one size share, and on a GPU what is between its two launches."""
        if not self.heads:  # of a head or a tower, which may attend to nothing
            return 0
        positions, total = min(context, self.context), 0
        for kv_heads, head_dim in {*self.kv_sizes} or {(self.kv_heads, self.head_dim)}:
            if gpu:
                parts = min(-(-positions // KV_SPLIT), kv_parts(kv_heads))
                total += STREAMED_ROWS * self.heads * parts * 4 * (head_dim + 2)
            total += positions * 4 * head_dim
        return total

    def sampling_bytes(self, drafts: bool) -> int:
        """Return the bytes in which a GPU samples: a round's rows, and one of what ``drafts``."""
        return (MAX_ROWS + drafts) * self.vocabulary * 4 * GPU_VOCABULARY_ROWS
