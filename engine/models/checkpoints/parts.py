"""Weights by the names that are read, of files that name them otherwise or store several as one
tensor.

The names are those of most families, and of Qwen3.5 and Qwen3-MoE. Qwen3.5 stores all experts of a
layer as one tensor, gates above the other factors; gpt-oss too, but transposed, gates and other factors
in turn, or in blocks of MXFP4. Qwen3-Next stores what a key head of a delta net needs together.
Source: transformers' conversion_mapping.py and its modeling files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.architecture import MOST_EXPERTS
from engine.models.checkpoints.safetensors_header import TensorEntry

_LFM2 = {
    "embedding_norm": "norm",
    "operator_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "self_attn.q_layernorm": "self_attn.q_norm",
    "self_attn.k_layernorm": "self_attn.k_norm",
    "self_attn.out_proj": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w3": "mlp.up_proj",
    "feed_forward.w2": "mlp.down_proj",
}
_LFM2_MOE = {
    **_LFM2,
    "feed_forward.expert_bias": "mlp.gate.e_score_correction_bias",
    "feed_forward": "mlp",
    "w1": "gate_proj",
    "w3": "up_proj",
    "w2": "down_proj",
}
_MIXTRAL = {
    "block_sparse_moe": "mlp",
    "w1": "gate_proj",
    "w3": "up_proj",
    "w2": "down_proj",
}
_GEMMA4 = {"router.proj": "mlp.gate", "experts": "mlp.experts"}
PARTS: Mapping[str, Mapping[str, str]] = {
    "gemma4_text": _GEMMA4,
    "glm4": {
        "post_attention_layernorm": "pre_feedforward_layernorm",
        "post_self_attn_layernorm": "post_attention_layernorm",
        "post_mlp_layernorm": "post_feedforward_layernorm",
    },
    "glm4_moe": {"mlp.shared_experts": "mlp.shared_expert"},
    "gpt_oss": {"mlp.router": "mlp.gate"},
    "granitemoehybrid": {
        "block_sparse_moe.router.layer": "mlp.gate",
        "block_sparse_moe.input_linear": "mlp.experts.gate_up_proj",
        "block_sparse_moe.output_linear": "mlp.experts.down_proj",
        "shared_mlp.input_linear": "mlp.shared_expert.gate_up_proj",
        "shared_mlp.output_linear": "mlp.shared_expert.down_proj",
    },
    "hunyuan_v1_dense": {"query_layernorm": "q_norm", "key_layernorm": "k_norm"},
    "lfm2": _LFM2,
    "lfm2_moe": _LFM2_MOE,
    "mixtral": _MIXTRAL,
    "starcoder2": {"c_fc": "up_proj", "c_proj": "down_proj"},
}
"""By ``model_type``: parts of names in transformers' checkpoints -> the common ones."""


def common_name(model_type: object, name: str) -> str:
    """Return the common name of a tensor that a checkpoint of ``model_type`` calls ``name``."""
    for own, common in PARTS.get(str(model_type), {}).items():
        name = f"{name}.".replace(f".{own}.", f".{common}.").removesuffix(".")
    return name


MXFP4 = "MXFP4"
_BLOCK, _BLOCK_BYTES = 32, 17
_STACKED = re.compile(
    r"(.*\.mlp\.experts\.)(gate_up|gate|up|down)_proj(|_bias|_blocks|_scales|\.weight|\.bias)"
)
_AXES = {"": 3, "_bias": 2, "_blocks": 4, "_scales": 3, ".weight": 3, ".bias": 2}
_SHARED = re.compile(r"(.*\.mlp\.)shared_expert\.(gate_up|down)_proj\.weight")
"""Granite's, whose gates lie above the other factors."""
_DELTA = re.compile(r"(.*\.linear_attn\.in_proj_)(qkvz|ba)\.weight")


@dataclass(frozen=True, slots=True)
class Rows:
    """Of each ``period`` rows those of the first range, then of each those of the second, and so on."""

    period: int
    ranges: tuple[range, ...]

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def among(self, count: int) -> list[int]:
        """Return the rows of ``count`` in order."""
        starts = range(0, count, self.period)
        return [start + row for each in self.ranges for start in starts for row in each]


@dataclass(frozen=True, slots=True)
class PartEntry(TensorEntry):
    """``rows`` of a matrix in the file, of ``stored`` shape and ``stored_bytes``, or of its transpose.

    Of experts' weights in MXFP4 it has the codes; ``scales`` is the tensor with those of all experts.
    """

    stored: tuple[int, ...] = ()
    stored_bytes: int = 0
    rows: Rows | None = None
    transposed: bool = False
    scales: str = ""
    expert: int = 0

    @property
    def whole(self) -> TensorEntry:
        """The entry of the matrix that it is a part of."""
        return TensorEntry(self.stored, self.dtype, self.stored_bytes, self.start)


def split_tensors(
    file: Path, tensors: Mapping[str, TensorEntry], config: Mapping[str, Any]
) -> Iterator[tuple[str, TensorEntry]]:
    """Yield all tensors of ``file`` by the names that are read. ``config``: the text model's.

    Raises ModelError for a tensor that holds no experts, or too many.
    """
    for stored_name, entry in tensors.items():
        name = common_name(config.get("model_type"), stored_name)
        stacked, delta = _STACKED.fullmatch(name), _DELTA.fullmatch(name)
        shared = _SHARED.fullmatch(name) if config.get("model_type") == "granitemoehybrid" else None
        if stacked is not None and len(entry.shape) == _AXES[stacked[3]]:
            if 0 in entry.shape or entry.shape[0] > MOST_EXPERTS:
                raise ModelError(
                    f"{file} has {stored_name} of shape {list(entry.shape)}, which must be of 1 to "
                    f"{MOST_EXPERTS:,} experts. The file is damaged: download it again."
                )
            if not is_scales(name):
                yield from _of_experts(
                    stacked, entry, in_turn=config.get("model_type") == "gpt_oss"
                )
            else:
                yield name, entry
        elif shared is not None and len(entry.shape) == 2:
            # Without experts it is the only MLP.
            mlp = "shared_expert." if config.get("num_local_experts") else ""
            yield from _of_shared(f"{shared[1]}{mlp}", shared[2], entry)
        elif delta is not None and len(entry.shape) == 2:
            yield from _of_key_heads(delta, entry, config)
        else:
            yield name, entry


def is_scales(name: str) -> bool:
    """Return whether ``name`` is a tensor of scales, which belong to another tensor's blocks."""
    return name.endswith("_proj_scales") and _STACKED.fullmatch(name) is not None


def rows_of_key_heads(config: Mapping[str, Any]) -> dict[str, Mapping[str, Rows]]:
    """Return the rows of Qwen3-Next's joined projections that Qwen3.5 has in a tensor each."""
    group = int(config["linear_num_value_heads"]) // int(config["linear_num_key_heads"])
    key, value = int(config["linear_key_head_dim"]), group * int(config["linear_value_head_dim"])
    query_key_value = range(key), range(key, 2 * key), range(2 * key, 2 * key + value)
    gates = range(2 * key + value, 2 * (key + value))
    return {
        "qkvz": {
            "qkv": Rows(2 * (key + value), query_key_value),
            "z": Rows(2 * (key + value), (gates,)),
        },
        "ba": {
            "b": Rows(2 * group, (range(group),)),
            "a": Rows(2 * group, (range(group, 2 * group),)),
        },
    }


def _of_shared(prefix: str, joined: str, entry: TensorEntry) -> Iterator[tuple[str, TensorEntry]]:
    for part, rows in _parts(joined, entry.shape[0], in_turn=False):
        name = f"{prefix}{part}_proj.weight"
        yield name, entry if rows is None else _rows(entry, rows)


def _rows(entry: TensorEntry, rows: Rows) -> PartEntry:
    """Return these rows of a matrix."""
    outputs, inputs = entry.shape
    made = outputs // max(rows.period, 1) * len(rows)
    nbytes = entry.nbytes * made // max(outputs, 1)
    return PartEntry(
        (made, inputs), entry.dtype, nbytes, entry.start, entry.shape, entry.nbytes, rows
    )


def _of_key_heads(
    delta: re.Match[str], entry: TensorEntry, config: Mapping[str, Any]
) -> Iterator[tuple[str, TensorEntry]]:
    for part, rows in rows_of_key_heads(config)[delta[2]].items():
        yield f"{delta[1]}{part}.weight", _rows(entry, rows)


def _of_experts(
    stacked: re.Match[str], entry: TensorEntry, *, in_turn: bool
) -> Iterator[tuple[str, TensorEntry]]:
    prefix, joined, kind = stacked.groups()
    count, *rest = entry.shape
    transposed = in_turn and not kind
    vectors = _AXES[kind] == 2
    outputs, *inputs = reversed(rest) if transposed else rest
    size = entry.nbytes // max(count, 1)
    dtype, width, scales = entry.dtype, inputs, ""
    if kind == "_blocks":
        dtype, width, scales = MXFP4, [inputs[0] * _BLOCK], f"{prefix}{joined}_proj_scales"
    for part, rows in _parts(joined, outputs, in_turn=in_turn):
        made = outputs if rows is None else outputs // rows.period * len(rows)
        nbytes = size * made // max(outputs, 1)
        if scales:
            nbytes = made * inputs[0] * _BLOCK_BYTES
        for expert in range(count):
            yield (
                f"{prefix}{expert}.{part}_proj.{'bias' if vectors else 'weight'}",
                PartEntry(
                    (made, *width), dtype, nbytes, entry.start + expert * size, tuple(rest), size,
                    rows, transposed, scales, expert,
                ),
            )  # fmt: skip


def _parts(joined: str, outputs: int, *, in_turn: bool) -> Sequence[tuple[str, Rows | None]]:
    if joined != "gate_up":
        return [(joined, None)]
    period, half = (2, 1) if in_turn else (max(outputs, 1), outputs // 2)
    return [
        ("gate", Rows(period, (range(half),))),
        ("up", Rows(period, (range(half, 2 * half),))),
    ]
