"""The header of a safetensors file: names, shapes, dtypes. Reads no weight, imports no torch.

The format: 8 bytes little-endian length N, N bytes of JSON, then the tensors' bytes. Every length
is checked against the file's size, so that a broken download is refused before it is loaded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import MALFORMED, ModelError
from engine.files import parse_json

_PREFIX = 8
_LONGEST_HEADER = 100_000_000  # the limit of the safetensors library itself
_MOST_AXES = 16  # the product of millions of sizes takes hours
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
}  # fmt: skip
AGAIN = "The file is incomplete or damaged: download or copy it again."


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor as its header describes it: its ``nbytes`` begin at ``start`` of the file."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    start: int = 0


def unreadable(file: Path, error: OSError) -> ModelError:
    """Return the ModelError for a file that the system does not let us read."""
    return ModelError(
        f"{file} cannot be read: {error.strerror}. Check the path and its permissions."
    )


def check_no_lfs_pointer(file: Path, start: bytes) -> None:
    """Raise ModelError if a file that begins with ``start`` is a Git LFS pointer."""
    if start.startswith(b"version https://git-lfs"):
        raise ModelError(
            f"{file} is a Git LFS pointer, not the weights. Run `git lfs pull` in its "
            "folder, or download the file."
        )


def read_header(file: Path) -> dict[str, TensorEntry]:
    """Return the tensors of ``file`` by name. Raises ModelError unless the file is complete."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            start = stream.read(_PREFIX)
            length = _header_length(file, start, stream.read(64), size)
            stream.seek(_PREFIX)
            raw = stream.read(length)
    except OSError as error:
        raise unreadable(file, error) from error
    entries = _parse(file, raw)
    data_start = _PREFIX + length
    tensors = {name: _tensor(file, name, entry, data_start) for name, entry in entries.items()}
    _check_size(file, tensors, data_start, size)
    return tensors


def read_bytes(file: Path, entry: TensorEntry) -> bytes:
    """Return a small tensor's bytes. Raises ModelError if the file cannot be read."""
    buffer = bytearray(entry.nbytes)
    read_into(file, entry, memoryview(buffer))
    return bytes(buffer)


def read_into(file: Path, entry: TensorEntry, buffer: memoryview) -> None:
    """Fill ``buffer``, of ``entry.nbytes`` bytes, with a tensor's bytes. Raises ModelError."""
    try:
        with file.open("rb", buffering=0) as stream:
            stream.seek(entry.start)
            done = 0
            while done < entry.nbytes:  # one read returns 2 GB at most
                count = stream.readinto(buffer[done:])
                if not count:
                    raise ModelError(f"{file} is cut short. {AGAIN}")
                done += count
    except OSError as error:
        raise unreadable(file, error) from error


def _header_length(file: Path, start: bytes, following: bytes, size: int) -> int:
    check_no_lfs_pointer(file, start + following)
    if size < _PREFIX:
        raise ModelError(f"{file} has {size} bytes, too few for a safetensors file. {AGAIN}")
    length = int.from_bytes(start, "little")
    if length > _LONGEST_HEADER:
        raise ModelError(
            f"{file} is not a safetensors file: its first bytes announce a header of "
            f"{length:,} bytes. Use a file written by the safetensors library."
        )
    if _PREFIX + length > size:
        raise ModelError(
            f"{file} is cut short: its header alone needs {_PREFIX + length:,} bytes, the "
            f"file has {size:,}. {AGAIN}"
        )
    return length


def _parse(file: Path, raw: bytes) -> dict[str, Any]:
    try:
        header = parse_json(raw)
    except ValueError as error:
        raise ModelError(
            f"{file} is not a safetensors file: its header is not JSON ({error}). {AGAIN}"
        ) from error
    if not isinstance(header, dict):
        raise ModelError(
            f"{file} is not a safetensors file: its header is not a JSON object. {AGAIN}"
        )
    header.pop("__metadata__", None)
    return header


def _tensor(file: Path, name: str, entry: Any, data_start: int) -> TensorEntry:
    try:
        shape = tuple(int(size) for size in entry["shape"])
        dtype = str(entry["dtype"])
        begin, end = (int(offset) for offset in entry["data_offsets"])
        if len(shape) > _MOST_AXES:
            raise ValueError(f"{len(shape):,} axes")
    except MALFORMED as error:
        raise ModelError(
            f"{file}: the header entry of tensor {name!r} is invalid. {AGAIN}"
        ) from error
    bits = _BITS.get(dtype)
    tensor = TensorEntry(shape, dtype, end - begin, data_start + begin)
    if min((begin, end - begin, *shape)) < 0 or (
        bits is not None and math.prod(shape) * bits != tensor.nbytes * 8
    ):
        raise ModelError(
            f"{file}: tensor {name!r} of shape {list(shape)} in {dtype} cannot have "
            f"{tensor.nbytes:,} bytes, as the header says. {AGAIN}"
        )
    return tensor


def _check_size(file: Path, tensors: dict[str, TensorEntry], data_start: int, size: int) -> None:
    ends = (tensor.start + tensor.nbytes for tensor in tensors.values())
    promised = max(ends, default=data_start)
    if size != promised:
        raise ModelError(
            f"{file} is {'cut short' if size < promised else 'too long'}: its header "
            f"announces {promised:,} bytes, the file has {size:,}. {AGAIN}"
        )
