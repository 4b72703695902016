"""Structures of the compiled step, field by field as in structures.h, memory.h and program.h."""

from __future__ import annotations

import ctypes as c
from enum import IntEnum
from typing import Any

from engine.values import sampling as values


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class Mixer(IntEnum):
    ATTENTION = 0
    GATED_DELTA = 1
    SHORT_CONVOLUTION = 2
    MAMBA2 = 3


class FeedForward(IntEnum):
    GATED_MLP = 0
    MLP = 1
    EXPERTS = 2


class Attention(c.Structure):
    _fields_ = [
        *_fields(c.c_void_p, "qkv output qk_norm sinks rotation temperature axes"),
        *_fields(c.c_int32, "heads kv_heads head_dim window slot output_gate shared value_norm"),
        *_fields(c.c_int32, "qk_norm_across_heads qk_norm_after_rope"),
        ("score_cap", c.c_float),
    ]


class GatedDelta(c.Structure):
    _fields_ = [
        *_fields(c.c_void_p, "inputs output convolution decay decay_bias norm"),
        *_fields(c.c_int32, "key_heads value_heads key_dim value_dim kernel slot tiled"),
    ]


class ShortConvolution(c.Structure):
    _fields_ = [
        *_fields(c.c_void_p, "inputs output convolution"),
        *_fields(c.c_int32, "width kernel slot"),
    ]


class Mamba2(c.Structure):
    _fields_ = [
        *_fields(c.c_void_p, "inputs output convolution convolution_bias"),
        *_fields(c.c_void_p, "decay step_bias skip norm"),
        *_fields(c.c_int32, "heads head_dim groups state kernel slot"),
    ]


class GatedMlp(c.Structure):
    _fields_ = [*_fields(c.c_void_p, "gate_up down"), *_fields(c.c_int32, "intermediate gate")]


class OwnInput(c.Structure):
    _fields_ = [*_fields(c.c_void_p, "gate output after"), ("function", c.c_int32)]


class Experts(c.Structure):
    _fields_ = [
        *_fields(
            c.c_void_p,
            "router gate_up down score_bias score_scale norm shared_norm after shared_after",
        ),
        ("shared", GatedMlp),
        *_fields(c.c_int32, "count chosen intermediate gate sigmoid renormalised shared_gate"),
        *_fields(c.c_float, "scale clamp"),
    ]


class Layer(c.Structure):
    _fields_ = [
        *_fields(c.c_void_p, "mixer_norm mixer_after mlp_norm mlp_after"),
        *_fields(c.c_int32, "mixer feed_forward"),
        ("attention", Attention),
        ("delta", GatedDelta),
        ("convolution", ShortConvolution),
        ("mamba", Mamba2),
        ("mlp", GatedMlp),
        ("experts", Experts),
        ("own", OwnInput),
        ("scalar", c.c_float),
    ]


class Shape(c.Structure):
    _fields_ = [
        ("layers", c.POINTER(Layer)),
        *_fields(c.c_void_p, "embedding head norm"),
        *_fields(c.c_int32, "count vocabulary hidden context layer_norms norm_bias parallel"),
        *_fields(c.c_float, "epsilon embedding_scale residual_scale logit_scale logit_cap"),
        *_fields(c.c_void_p, "own_projection own_embedding own_norm"),
        ("own_width", c.c_int32),
        *_fields(c.c_float, "own_epsilon own_scale"),
    ]


class AuxLayer(c.Structure):
    _fields_ = [("rows", c.c_void_p), ("layer", c.c_int32)]


class Recurrence(c.Structure):
    _fields_ = [("states", c.c_void_p * 2), ("recent", c.c_void_p)]


class Cache(c.Structure):
    _fields_ = [
        *_fields(c.POINTER(c.c_void_p), "keys values"),
        ("recurrences", c.POINTER(Recurrence)),
        ("aux_layers", c.POINTER(AuxLayer)),
        *_fields(c.c_int32, "aux_count bf16 context"),
    ]


class Range(c.Structure):
    _fields_ = _fields(c.c_int, "first end")


class TrimmedPanels(c.Structure):
    _fields_ = [("runs", c.POINTER(Range)), *_fields(c.c_int32, "count panels tokens")]


class Sequence(c.Structure):
    _fields_ = [
        ("cache", Cache),
        *_fields(c.c_void_p, "parents embedded places"),
        *_fields(c.c_int32, "rows start from_ to pending absorbed shift"),
    ]


class Step(c.Structure):
    _fields_ = [
        ("tokens", c.c_void_p),
        ("sequences", c.POINTER(Sequence)),
        *_fields(c.c_int32, "count last"),
        ("logits", c.c_void_p),
        ("trimmed", TrimmedPanels),
    ]


class LayerCache(c.Structure):
    _fields_ = [*_fields(c.c_void_p, "keys values rotation"), *_fields(c.c_int32, "capacity bf16")]


class Sampling(c.Structure):
    _fields_ = [*_fields(c.c_float, "sharpness top_p min_p"), ("top_k", c.c_int32)]

    @classmethod
    def of(cls, values: values.Sampling) -> Sampling:
        """Return what a draw needs of ``values``, whose temperature is not 0."""
        top_k = min(values.top_k, 2**31 - 1)
        return cls(1 / values.temperature, values.top_p, values.min_p, top_k)


class Drawn(c.Structure):
    _fields_ = [*_fields(c.c_float, "peak least exp_sum probability"), ("index", c.c_int64)]


class Draws(c.Structure):
    _fields_ = [
        ("keys", c.c_void_p),
        ("sampling", Sampling),
        ("floor", c.c_float),
        ("count", c.c_int32),
    ]


class Op(c.Structure):
    _fields_ = [
        *_fields(c.c_int32, "code width choice by_columns barrier offset window"),
        *_fields(c.c_void_p, "rows start source second to"),
        *_fields(c.c_int32, "source_stride second_stride to_stride heads kv_heads"),
        *_fields(
            c.c_void_p,
            "matrix weight bias cache tokens numbers chosen probability draws experts trimmed",
        ),
        *_fields(c.c_float, "scale epsilon"),
    ]
