"""The header of a GGUF file: metadata, and where tensors are. Reads no weight, imports no torch.

The format: "GGUF", a version, two counts, key-value pairs, descriptions of tensors, and, aligned, their
bytes; all little-endian. Every length is checked against the file's size before it is used.
The package ``gguf`` reads it too, but makes numpy arrays of every token: 19 s for the 150,000 tokens and
as many merges of Qwen 2.5, where this takes 0.1 s.
Source: ggml's docs/gguf.md.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from engine.errors import ModelError
from engine.kernels.formats.block_formats import LAYOUTS, Layout
from engine.models.checkpoints.safetensors_header import (
    AGAIN,
    TensorEntry,
    check_no_lfs_pointer,
    unreadable,
)

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_FIRST_READ = 8_000_000
_LONGEST_HEADER = 1_000_000_000
_LEAST_PAIR, _LEAST_TENSOR, _LEAST_STRING = 13, 24, 8
"""The fewest bytes that an entry takes."""
_MOST_DIMENSIONS = 4
_MOST_ELEMENTS = 2**62
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
            12: "<d"}  # fmt: skip
_STRING, _ARRAY = 8, 9

TENSOR_TYPES: Mapping[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M",
    30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0", 42: "Q2_0",
}  # fmt: skip
"""GGUF's numbers of the tensor types that are read, as in ggml.h. The package ``gguf`` has them too, but
takes half a second to import; a test compares both."""

FILE_TYPES: Mapping[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M",
    18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S",
    25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M",
    32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0", 41: "Q2_0",
}  # fmt: skip
"""Names of files whose matrices are mostly of a type, by ``general.file_type``."""

_PLAIN = {
    **{name: Layout(1, 8) for name in ("F64", "I64")},
    **{name: Layout(1, 4) for name in ("F32", "I32")},
    **{name: Layout(1, 2) for name in ("F16", "BF16")},
}


@dataclass(frozen=True, slots=True, eq=False)
class GgufHeader:
    """A file's header. ``tensors`` have GGUF's names, shapes in torch's order and types in capitals.

    ``digest`` covers everything before the tensors' bytes. ``size`` and ``modified`` (nanoseconds) show
    later whether the file has changed.
    """

    file: Path
    metadata: Metadata
    tensors: Mapping[str, TensorEntry]
    digest: str
    size: int
    modified: int


class Metadata(Mapping[str, Any]):
    """Values by key. A list of strings is unpacked when it is read; the last ones are cached."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        return value.unpacked if isinstance(value, _Strings) else value

    def raw(self, key: str) -> Any:
        """Return what ``get`` does, but a list of strings as its stored bytes, for comparison."""
        value = self._values.get(key)
        return value.data if isinstance(value, _Strings) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def read_gguf_header(file: Path) -> GgufHeader:
    """Return the header of ``file``, cached by time and size. Raises ModelError unless it is complete."""
    try:
        stat = file.stat()
    except OSError as error:
        raise unreadable(file, error) from error
    return _read(file, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4)
def _read(file: Path, size: int, modified: int) -> GgufHeader:
    length = min(size, _FIRST_READ)
    try:
        with file.open("rb") as stream:
            while True:
                stream.seek(0)
                start = stream.read(length)
                parser = _Parser(file, start, size)
                try:
                    metadata, tensors = parser.header()
                except _Short:
                    if len(start) < length or length == size:
                        raise ModelError(
                            f"{file} is cut short: its {size:,} bytes end within the header. {AGAIN}"
                        ) from None
                    if length >= _LONGEST_HEADER:
                        raise ModelError(
                            f"{file} has a header of more than {_LONGEST_HEADER:,} bytes. {AGAIN}"
                        ) from None
                    length = min(size, 4 * length)
                else:
                    return GgufHeader(
                        file,
                        Metadata(metadata),
                        MappingProxyType(tensors),
                        hashlib.sha256(start[: parser.at]).hexdigest(),
                        size,
                        modified,
                    )
    except OSError as error:
        raise unreadable(file, error) from error


def forget_strings() -> None:
    """Free the cached lists of strings, such as vocabularies, which take far more than their bytes."""
    _unpacked.cache_clear()


def layout_of(name: str) -> Layout:
    """Return the inputs and bytes of a block of a tensor type; a plain number is a block."""
    return _PLAIN.get(name) or LAYOUTS[name.lower()]


def is_blocks(name: str) -> bool:
    """Return whether a tensor type has blocks of codes that share scales, not plain numbers."""
    return name.lower() in LAYOUTS


class _Short(Exception):
    """The header is longer than the bytes that were read."""


@dataclass(frozen=True, slots=True)
class _Strings:
    """``count`` strings, each after its length."""

    file: Path
    data: bytes
    count: int

    @property
    def unpacked(self) -> list[str]:
        try:
            return _unpacked(self.data, self.count)
        except UnicodeDecodeError as error:
            raise _no_text(self.file, error.object) from error


@lru_cache(maxsize=4)
def _unpacked(data: bytes, count: int) -> list[str]:
    """Cached: a target and its draft mostly have one vocabulary."""
    begin, strings = 8, []
    length_at = struct.Struct("<Q").unpack_from
    for _ in range(count):
        end = begin + length_at(data, begin - 8)[0]
        strings.append(data[begin:end].decode())
        begin = end + 8
    return strings


def _no_text(file: Path, data: bytes) -> ModelError:
    return ModelError(f"{file} contains text that is not UTF-8 ({data[:20]!r}). {AGAIN}")


class _Parser:
    """Parses ``start``, the first bytes of a file of ``size``. Raises _Short if the header is longer."""

    def __init__(self, file: Path, start: bytes, size: int) -> None:
        self.file, self.start, self.size, self.at = file, start, size, 0

    def header(self) -> tuple[dict[str, Any], dict[str, TensorEntry]]:
        self._check_magic()
        count, pairs = self._count(_LEAST_TENSOR, "tensors"), self._count(_LEAST_PAIR, "values")
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._string()
            if key in metadata:
                raise self._damaged(f"the key {key!r} appears twice")
            metadata[key] = self._value(self._scalar("<I"))
        described = [self._tensor() for _ in range(count)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self._damaged(f"general.alignment is {alignment!r}, not a power of two")
        data = self.at + -self.at % alignment
        tensors: dict[str, TensorEntry] = {}
        for name, shape, dtype, nbytes, offset in described:
            if name in tensors:
                raise self._damaged(f"the tensor {name!r} appears twice")
            if offset % alignment:
                raise self._damaged(f"tensor {name!r} at {offset} is not aligned")
            if data + offset + nbytes > self.size:
                raise ModelError(
                    f"{self.file} is cut short: tensor {name!r} ends at byte "
                    f"{data + offset + nbytes:,}, but the file has {self.size:,}. {AGAIN}"
                )
            tensors[name] = TensorEntry(shape, dtype, nbytes, data + offset)
        return metadata, tensors

    def _check_magic(self) -> None:
        if self.start[:4] != MAGIC:
            if not self.size:
                raise ModelError(f"{self.file} is empty. {AGAIN}")
            check_no_lfs_pointer(self.file, self.start)
            raise ModelError(
                f"{self.file} is not a GGUF file: it does not begin with GGUF. Give a GGUF "
                "file, or a model folder in transformers layout."
            )
        self.at = 4
        version = self._scalar("<I")
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
            kind = "for big-endian machines" if swapped else f"of version {version}"
            raise ModelError(
                f"{self.file} is a GGUF file {kind}; supported are versions "
                f"{' and '.join(map(str, _VERSIONS))}, little-endian. Convert the model again "
                "with llama.cpp's converter."
            )

    def _damaged(self, what: str) -> ModelError:
        return ModelError(f"{self.file}: {what}. {AGAIN}")

    def _take(self, count: int) -> bytes:
        begin, end = self.at, self.at + count
        if end > self.size:
            raise ModelError(
                f"{self.file} is cut short or damaged: its header announces {count:,} bytes, "
                f"but {self.size - begin:,} are left. {AGAIN}"
            )
        if end > len(self.start):
            raise _Short
        self.at = end
        return self.start[begin:end]

    def _scalar(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _count(self, least: int, what: str) -> int:
        """Read the number of entries, which take at least ``least`` bytes each."""
        count = int(self._scalar("<Q"))
        if count * least > self.size - self.at:
            raise ModelError(
                f"{self.file} is cut short or damaged: its header announces {count:,} {what}, "
                f"but {self.size - self.at:,} bytes are left. {AGAIN}"
            )
        return count

    def _string(self) -> str:
        data = self._take(int(self._scalar("<Q")))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise _no_text(self.file, data) from error

    def _value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array(self._scalar("<I"))
        raise self._damaged(f"a value has the unknown type {kind}")

    def _array(self, kind: int) -> Any:
        if kind == _STRING:
            return self._strings()
        if kind not in _SCALARS:
            raise self._damaged(f"a list has values of the unknown type {kind}")
        form = np.dtype(_SCALARS[kind])
        count = self._count(form.itemsize, "numbers of a list")
        return np.frombuffer(self._take(count * form.itemsize), form).tolist()

    def _strings(self) -> _Strings:
        """Step over the strings by their lengths; ``Metadata`` unpacks them when they are needed."""
        count = self._count(_LEAST_STRING, "texts of a list")
        start, at = self.start, self.at
        length_at = struct.Struct("<Q").unpack_from
        try:
            for _ in range(count):
                at += 8 + length_at(start, at)[0]
        except (struct.error, OverflowError):  # beyond what was read, or beyond all memory
            self._take(at + 8 - self.at)
        data = self._take(at - self.at)
        return _Strings(self.file, data, count)

    def _tensor(self) -> tuple[str, tuple[int, ...], str, int, int]:
        """Read a tensor's name, shape, type, bytes and offset."""
        name = self._string()
        dimensions = self._scalar("<I")
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise self._damaged(f"tensor {name!r} has {dimensions:,} dimensions")
        shape = tuple(int(self._scalar("<Q")) for _ in range(dimensions))[::-1]
        number, offset = self._scalar("<I"), int(self._scalar("<Q"))
        dtype = TENSOR_TYPES.get(number)
        if dtype is None:
            raise ModelError(
                f"{self.file}: tensor {name!r} is stored as {_name_of(number)}, which is not "
                f"supported. Use a file of another type: {', '.join(TENSOR_TYPES.values())}."
            )
        layout, elements = layout_of(dtype), 1
        for size in shape:
            elements *= size
        if not 0 < elements < _MOST_ELEMENTS or shape[-1] % layout.inputs:
            raise self._damaged(f"tensor {name!r} in {dtype} cannot have shape {list(shape)}")
        return name, shape, dtype, elements // layout.inputs * layout.size, offset


def _name_of(number: int) -> str:
    """Return the package ``gguf``'s name of an unsupported tensor type."""
    try:
        from gguf.constants import GGMLQuantizationType

        return GGMLQuantizationType(number).name
    except (ImportError, ValueError):
        return f"type {number}"
