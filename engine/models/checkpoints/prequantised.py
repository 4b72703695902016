"""Recognise quantised checkpoints: bitsandbytes' NF4 is read, others are refused by name.

bitsandbytes stores a weight ``w`` of shape (out, in) as bytes ``w`` of shape (out * in / 2, 1), with
``w.absmax``, ``w.quant_map`` and ``w.quant_state.bitsandbytes__nf4`` (JSON as bytes: shape, block size)
beside it; doubly quantised scales add ``w.nested_absmax`` and ``w.nested_quant_map``.
Never imports torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import MALFORMED, ModelError, what_failed
from engine.files import parse_json
from engine.models.checkpoints.safetensors_header import TensorEntry, read_bytes

NF4 = "NF4"
"""The ``TensorInfo.dtype`` of a weight that is stored in bitsandbytes' 4 bits."""
STATE = ".quant_state.bitsandbytes__nf4"
_AUXILIARY = (".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", STATE)
_BLOCK = 64
_SCHEMES = {
    ".qweight": "GPTQ or AWQ",
    ".qzeros": "GPTQ or AWQ",
    ".weight_packed": "compressed-tensors",
    ".weight_scale_inv": "fp8",
    ".weight_scale": "fp8 or compressed-tensors",
    ".SCB": "bitsandbytes in 8 bits (LLM.int8)",
    ".quant_state.bitsandbytes__fp4": "bitsandbytes in fp4",
}
"""Suffixes of tensors that only these schemes have."""
_REMEDY = (
    "Use the original model in bf16, fp16 or fp32; with int8 or q4 it is quantised while loading."
)


@dataclass(frozen=True, slots=True)
class Nf4State:
    """bitsandbytes' description of a weight. ``nested_block`` is 0 if the scales are not quantised."""

    shape: tuple[int, int]
    nested_block: int
    nested_offset: float


def check_scheme(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise ModelError if ``config`` (or a part of it) names a scheme that is not read here."""
    for key in ("quantization_config", "compression_config"):
        scheme = config.get(key)
        if not scheme:
            continue
        name = _unsupported(scheme)
        if name is not None:
            raise ModelError(
                f"{folder} is quantised by {name} (config.json, {key}), which is not supported. "
                f"{_REMEDY}"
            )


def check_names(folder: Path, names: Iterable[str]) -> None:
    """Raise ModelError if the tensors are of a scheme that config.json does not name.

    GPTQ and AWQ had settings files of their own before transformers supported them.
    """
    for name in names:
        suffix = next((each for each in _SCHEMES if name.endswith(each)), None)
        if suffix is not None:
            raise ModelError(
                f"{folder} is quantised by {_SCHEMES[suffix]} (it has {name}), which is not "
                f"supported. {_REMEDY}"
            )


def auxiliary(name: str, names: Mapping[str, Any]) -> bool:
    """Return whether the tensor ``name`` only describes a quantised weight among ``names``."""
    return any(
        name.endswith(suffix) and name.removesuffix(suffix) + STATE in names
        for suffix in _AUXILIARY
    )


def nf4_state(file: Path, name: str, entry: TensorEntry) -> Nf4State:
    """Return the state of the weight ``name``, ``entry`` of ``file``. Raises ModelError."""
    try:
        state = parse_json(read_bytes(file, entry))
        rows, width = (int(size) for size in state["shape"])
        block = int(state["blocksize"])
        nested = int(state.get("nested_blocksize") or 0)
        offset = float(state.get("nested_offset") or 0.0)
    except MALFORMED as error:
        raise ModelError(
            f"{file}: the quantisation of {name!r} cannot be read: {what_failed(error)}. The file is "
            f"damaged, or from another version of bitsandbytes. {_REMEDY}"
        ) from error
    if block != _BLOCK or rows < 1 or width < 1:
        raise ModelError(
            f"{file}: {name!r} is quantised in blocks of {block}; only blocks of {_BLOCK} "
            f"are supported. {_REMEDY}"
        )
    return Nf4State((rows, width), nested, offset)


def _unsupported(scheme: object) -> str | None:
    """Return the name of a scheme that is not read, in quotes; None for bitsandbytes' NF4."""
    if not isinstance(scheme, Mapping):
        return f"'{scheme}'"
    method = scheme.get("quant_method", "unnamed")
    if method == "mxfp4":  # of experts; see parts.py
        return None
    if method != "bitsandbytes":
        return f"'{method}'"
    if scheme.get("load_in_8bit"):
        return "'bitsandbytes' in 8 bits (LLM.int8)"
    kind = scheme.get("bnb_4bit_quant_type", "fp4")  # bitsandbytes' own default
    return None if kind == "nf4" else f"'bitsandbytes' in {kind}"
