"""Replies of a target and their hidden states, stored in a folder.

Each shard is one safetensors file, written atomically, so that a stopped recording continues after the
last. Hidden states are stored in bf16.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import ForetokenError, what_failed
from engine.files import parse_json
from engine.models.hidden_states import NORMED, AuxLayer


class RecordingError(ForetokenError):
    """Replies cannot be stored or read."""


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """``tokens``: prompt and answer; ``start``: where the answer begins."""

    tokens: tuple[int, ...]
    start: int
    temperature: float


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply in a shard: its tokens are ``offset`` .. ``offset + length - 1`` there."""

    shard: int
    offset: int
    length: int
    start: int
    temperature: float


class Recording:
    """The shards of one folder, which is created if need be."""

    def __init__(self, folder: Path, aux_layers: Sequence[AuxLayer], target: str = "") -> None:
        """``aux_layers``: the hidden states that are needed; a recording may hold more. ``target``: the
        model that replies.

        Raises RecordingError where the folder's recording lacks a layer, or is another model's.
        """
        self.folder, self._target = folder, target
        folder.mkdir(parents=True, exist_ok=True)
        first = _metadata(self._path(0))
        recorded = first.get("target")
        if target and recorded and recorded != target:
            raise RecordingError(
                f"{folder} has replies of {recorded}, not of {target}. Choose another --out."
            )
        stored = map(AuxLayer, parse_json(first.get("taps", "[]")))
        self.aux_layers = tuple(stored) or tuple(aux_layers)
        missing = [aux_layer for aux_layer in aux_layers if aux_layer not in self.aux_layers]
        if missing:
            raise RecordingError(
                f"{folder} has no hidden states of layer "
                f"{', '.join(map(str, _plain(missing)))}, which this drafter type needs. Add "
                "them to recipe key replies.layers before recording, or choose another --out."
            )
        self._shards: list[Any] = []
        self.replies: list[StoredReply] = []
        self.seconds = 0.0
        """Seconds that the recording took, as far as known."""
        while self._path(len(self._shards)).exists():
            self._open(len(self._shards))

    @property
    def bytes(self) -> int:
        """Bytes of all shards on disk."""
        return sum(self._path(number).stat().st_size for number in range(len(self._shards)))

    def add(self, replies: Sequence[tuple[RecordedReply, Tensor]], seconds: float = 0.0) -> None:
        """Write one more shard, made in ``seconds``; states are (aux layers, tokens - 1, hidden).

        Raises RecordingError when the disk is full; earlier shards stay.
        """
        entries, offset = [], 0
        for reply, _ in replies:
            entry = StoredReply(
                len(self._shards), offset, len(reply.tokens), reply.start, reply.temperature
            )
            entries.append(asdict(entry))
            offset += len(reply.tokens)
        # The target never read the last token of a reply: its state is a row of zeros.
        rows = [torch.nn.functional.pad(states, (0, 0, 0, 1)) for _, states in replies]
        tokens = [token for reply, _ in replies for token in reply.tokens]
        tensors = {
            "tokens": torch.tensor(tokens, dtype=torch.int32),
            "features": torch.cat(rows, dim=1).to("cpu", torch.bfloat16).contiguous(),
        }
        metadata = {
            "replies": json.dumps(entries),
            "taps": json.dumps(_plain(self.aux_layers)),
            "seconds": str(seconds),
            "target": self._target,
        }
        number = len(self._shards)
        partial = self._path(number).with_suffix(".partial")
        try:
            save_file(tensors, str(partial), metadata=metadata)
            partial.replace(self._path(number))
        except (OSError, SafetensorError) as error:
            partial.unlink(missing_ok=True)
            raise RecordingError(
                f"Replies could not be saved in {self.folder}: {what_failed(error)}. Earlier "
                "replies are kept. Free some space and run the same command again, or lower "
                "replies.gigabytes."
            ) from error
        self._open(number)

    def tokens(self, reply: StoredReply) -> Tensor:
        """Return a reply's tokens: int32 (length,)."""
        part: Tensor = self._shards[reply.shard].get_slice("tokens")[_rows(reply)]
        return part

    def states(self, aux_layer: AuxLayer, reply: StoredReply) -> Tensor:
        """Return its hidden states: bf16 (length, hidden); the last row is zeros."""
        at = self.aux_layers.index(aux_layer)
        part: Tensor = self._shards[reply.shard].get_slice("features")[at, _rows(reply)]
        return part

    def _open(self, number: int) -> None:
        shard: Any = safe_open(str(self._path(number)), framework="pt")  # mapped, not read
        metadata: Mapping[str, str] = shard.metadata()
        self._shards.append(shard)
        self.seconds += float(metadata.get("seconds", 0.0))
        self.replies += [StoredReply(**entry) for entry in parse_json(metadata["replies"])]

    def _path(self, number: int) -> Path:
        return self.folder / f"replies-{number:05}.safetensors"


def with_normed(aux_layers: Sequence[AuxLayer]) -> tuple[AuxLayer, ...]:
    """Return a trainer's aux layers, then ``NORMED``."""
    return (*(aux_layer for aux_layer in aux_layers if aux_layer != NORMED), NORMED)


def batched(replies: Iterator[Any], size: int, due: Callable[[], bool]) -> Iterator[list[Any]]:
    """Yield lists of ``size``, or shorter ones when ``due``; the last one has the rest.

    On Ctrl-C, yield the rest before it is raised again.
    """
    batch: list[Any] = []
    try:
        for reply in replies:
            batch.append(reply)
            if len(batch) == size or due():
                yield batch
                batch = []
    except KeyboardInterrupt:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _rows(reply: StoredReply) -> slice:
    return slice(reply.offset, reply.offset + reply.length)


def _metadata(shard: Path) -> Mapping[str, str]:
    """Return a shard's metadata; empty if there is no shard."""
    if not shard.exists():
        return {}
    with safe_open(str(shard), framework="pt") as opened:
        metadata: Mapping[str, str] = opened.metadata()
        return metadata


def _plain(aux_layers: Sequence[AuxLayer]) -> list[int | None]:
    return [aux_layer.layer for aux_layer in aux_layers]
