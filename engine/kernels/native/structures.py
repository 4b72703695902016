"""What the compiled step is handed, field by field as in its headers."""

from __future__ import annotations

import ctypes as c
from enum import IntEnum


class Mixer(IntEnum):
    """See structures.h."""

    ATTENTION = 0


class FeedForward(IntEnum):
    """See structures.h."""

    GATED_MLP = 0


class Attention(c.Structure):
    """See structures.h."""

    _fields_ = [
        *((name, c.c_void_p) for name in ("qkv", "output", "qk_norm", "rotation")),
        *((name, c.c_int32) for name in ("heads", "kv_heads", "head_dim", "window", "slot")),
        ("score_cap", c.c_float),
    ]


class GatedMlp(c.Structure):
    """See structures.h."""

    _fields_ = [
        *((name, c.c_void_p) for name in ("gate_up", "down")),
        *((name, c.c_int32) for name in ("intermediate", "gate")),
    ]


class Layer(c.Structure):
    """See structures.h."""

    _fields_ = [
        *((name, c.c_void_p) for name in ("mixer_norm", "mixer_after", "mlp_norm", "mlp_after")),
        *((name, c.c_int32) for name in ("mixer", "feed_forward")),
        ("attention", Attention),
        ("mlp", GatedMlp),
    ]


class Shape(c.Structure):
    """See structures.h."""

    _fields_ = [
        ("layers", c.POINTER(Layer)),
        *((name, c.c_void_p) for name in ("embedding", "head", "norm")),
        *((name, c.c_int32) for name in ("count", "vocabulary", "hidden", "context")),
        *((name, c.c_float) for name in ("epsilon", "embedding_scale")),
    ]


class AuxLayer(c.Structure):
    """See structures.h."""

    _fields_ = [("rows", c.c_void_p), ("layer", c.c_int32)]


class Cache(c.Structure):
    """See structures.h."""

    _fields_ = [
        ("keys", c.POINTER(c.c_void_p)),
        ("values", c.POINTER(c.c_void_p)),
        ("aux_layers", c.POINTER(AuxLayer)),
        ("aux_count", c.c_int32),
        ("bf16", c.c_int32),
        ("context", c.c_int32),
    ]


class Range(c.Structure):
    """See memory.h."""

    _fields_ = [("first", c.c_int), ("end", c.c_int)]


class TrimmedPanels(c.Structure):
    """See structures.h."""

    _fields_ = [("runs", c.POINTER(Range)), ("count", c.c_int32), ("panels", c.c_int32)]


class Sequence(c.Structure):
    """See structures.h."""

    _fields_ = [
        ("cache", Cache),
        ("parents", c.c_void_p),
        ("rows", c.c_int32),
        ("start", c.c_int32),
    ]


class Step(c.Structure):
    """See structures.h."""

    _fields_ = [
        ("tokens", c.c_void_p),
        ("sequences", c.POINTER(Sequence)),
        ("count", c.c_int32),
        ("last", c.c_int32),
        ("logits", c.c_void_p),
        ("trimmed", TrimmedPanels),
    ]


class LayerCache(c.Structure):
    """See program.h."""

    _fields_ = [
        *((name, c.c_void_p) for name in ("keys", "values", "rotation")),
        ("room", c.c_int32),
    ]


class Draws(c.Structure):
    """See program.h."""

    _fields_ = [
        ("keys", c.c_void_p), ("sharpness", c.c_float), ("floor", c.c_float), ("count", c.c_int32),
    ]  # fmt: skip


class Op(c.Structure):
    """See program.h."""

    _fields_ = [
        *(
            (name, c.c_int32)
            for name in ("code", "width", "choice", "by_columns", "barrier", "offset")
        ),
        *((name, c.c_void_p) for name in ("rows", "start", "source", "second", "to")),
        *((name, c.c_int32) for name in ("source_stride", "second_stride", "to_stride")),
        *((name, c.c_int32) for name in ("heads", "kv_heads")),
        *((name, c.c_void_p) for name in ("matrix", "weight", "bias", "cache")),
        *((name, c.c_void_p) for name in ("tokens", "numbers", "chosen", "probability", "draws")),
        *((name, c.c_float) for name in ("scale", "epsilon")),
    ]
