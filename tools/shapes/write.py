"""Write a shape as a GGUF file, tensor by tensor: random bits, with scales that keep values small."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tools.shapes.shapes import Shape

DEVIATION = 0.02
"""Of the weights."""
_CHUNK = 1 << 20
"""Blocks that are made at once."""
_STEPS = {"Q4_K": (9e-5, 7e-4), "Q6_K": (9e-5, None), "Q8_0": (2.7e-4, None)}
"""The factors of scales and of minimums that give about ``DEVIATION``."""
_FACTOR_AT = {"Q4_K": (0, 2), "Q6_K": (208, None), "Q8_0": (0, None)}
_VECTORS = {"ssm_a": -1.0, "ssm_dt.bias": -3.0, "attn_sinks.weight": 0.0}
"""What vectors hold; other biases hold 0, norms and scales 1."""


def write(shape: Shape, file: Path, layers: int | None = None) -> None:
    """Write ``shape`` with ``layers`` of its layers, by default as many as it suggests."""
    count = layers or shape.written
    writer = gguf.GGUFWriter(file, shape.architecture)
    for key, value in shape.metadata(count).items():
        kind = gguf.GGUFValueType.get_type(value)
        if kind == gguf.GGUFValueType.INT32:
            kind = gguf.GGUFValueType.UINT32
        writer.add_key_value(f"{shape.architecture}.{key}", value, kind)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    _list_tokens(writer, shape.vocabulary)
    sizes, types = dict(shape.tensors(count)), shape.types(count)
    for name, size in sizes.items():
        _announce(writer, name, size, types[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    random = np.random.default_rng(0)
    for name, size in sizes.items():
        _write_tensor(writer, _data(random, name, size, types[name]))
    writer.close()


def _write_tensor(writer: gguf.GGUFWriter, parts: Iterator[np.ndarray]) -> None:
    """Append a tensor that comes in parts, aligned."""
    assert writer.fout is not None
    out = writer.fout[0]
    writer.write_padding(out, out.tell())
    for part in parts:
        out.write(part.tobytes())
    writer.write_padding(out, out.tell())


def _announce(writer: gguf.GGUFWriter, name: str, size: tuple[int, ...], kind: str) -> None:
    if kind == "F32":
        writer.add_tensor_info(name, size, np.dtype(np.float32), 4 * math.prod(size))
        return
    stored = gguf.GGMLQuantizationType[kind]
    block, bytes_ = gguf.GGML_QUANT_SIZES[stored]
    in_bytes = (*size[:-1], size[-1] // block * bytes_)
    writer.add_tensor_info(
        name, in_bytes, np.dtype(np.uint8), math.prod(in_bytes), raw_dtype=stored
    )


def _data(
    random: np.random.Generator, name: str, size: tuple[int, ...], kind: str
) -> Iterator[np.ndarray]:
    """Yield the parts of a tensor."""
    count = math.prod(size)
    if kind != "F32":
        block, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
        for first in range(0, count // block, _CHUNK):
            yield _blocks(random, kind, min(_CHUNK, count // block - first))
    elif name == "rope_freqs.weight":  # a quarter of the pairs turns
        yield np.where(np.arange(count) < count // 4, 1, 1e30).astype(np.float32)
    elif len(size) > 1 and not name.endswith(".bias"):
        yield (DEVIATION * random.standard_normal(count)).astype(np.float32)
    else:
        part = name.split(".", 2)[-1]
        yield np.full(count, _VECTORS.get(part, 0 if part.endswith("bias") else 1), np.float32)


def _blocks(random: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Return random blocks: any bits, but for the factors."""
    _, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = np.frombuffer(random.bytes(count * size), np.uint8).reshape(count, size).copy()
    if kind == "MXFP4":
        blocks[:, 0] = 120  # the exponent, biased by 127
        return blocks
    if kind == "Q6_K":
        blocks[:, 192:208] = (blocks[:, 192:208] % 41).view(np.int8) - 20  # scales of sixteen
    for at, factor in zip(_FACTOR_AT[kind], _STEPS[kind], strict=True):
        if factor is not None and at is not None:
            blocks[:, at : at + 2] = np.array([factor], np.float16).view(np.uint8)
    return blocks


def _list_tokens(writer: gguf.GGUFWriter, count: int) -> None:
    """List a byte-level vocabulary of single bytes, one merge, and names that no text has."""
    letters = [letter for letter, _ in sorted(_letters().items(), key=lambda each: each[1])]
    tokens = [*letters, "ab", *(f"<|{number}|>" for number in range(257, count))]
    kinds = [gguf.TokenType.NORMAL] * 257 + [gguf.TokenType.UNUSED] * (count - 257)
    kinds[-1] = gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(count - 1)
    writer.add_add_bos_token(False)


def _letters() -> dict[str, int]:
    """Return the bytes by the letters that GPT-2 has for them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters: dict[str, Any] = {chr(byte): byte for byte in plain}
    return letters | {chr(256 + at): byte for at, byte in enumerate(others)}
