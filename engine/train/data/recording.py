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
    """The shards of one folder, which is made if need be."""

    def __init__(self, folder: Path, aux_layers: Sequence[AuxLayer], target: str = "") -> None:
        """``aux_layers``: the hidden states that are needed; what is there already may hold more.
        ``target``: whose replies they are.

        Raises RecordingError where the folder's recording lacks some of them, or is another model's.
        """
        self.folder, self._target = folder, target
        folder.mkdir(parents=True, exist_ok=True)
        there = _about(self._path(0)).get("target")
        if target and there and there != target:
            raise RecordingError(
                f"{folder} holds replies of {there}, and these are to be of {target}. "
                "Choose another --out."
            )
        self.aux_layers = _aux_layers_in(self._path(0)) or tuple(aux_layers)
        lacking = [aux_layer for aux_layer in aux_layers if aux_layer not in self.aux_layers]
        if lacking:
            raise RecordingError(
                f"{folder} has no hidden states of layer {', '.join(map(str, _plain(lacking)))}, which "
                "this kind of drafter reads. Name all layers in recipe key replies.layers before "
                "recording, or choose another --out."
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
        kept, offset = [], 0
        for reply, _ in replies:
            entry = StoredReply(
                len(self._shards), offset, len(reply.tokens), reply.start, reply.temperature
            )
            kept.append(asdict(entry))
            offset += len(reply.tokens)
        # The target never read the last token of a reply: its state is a row of zeros.
        rows = [torch.nn.functional.pad(states, (0, 0, 0, 1)) for _, states in replies]
        tokens = [token for reply, _ in replies for token in reply.tokens]
        tensors = {
            "tokens": torch.tensor(tokens, dtype=torch.int32),
            "features": torch.cat(rows, dim=1).to("cpu", torch.bfloat16).contiguous(),
        }
        about = {
            "replies": json.dumps(kept),
            "taps": json.dumps(_plain(self.aux_layers)),
            "seconds": str(seconds),
            "target": self._target,
        }
        number = len(self._shards)
        partial = self._path(number).with_suffix(".partial")
        try:
            save_file(tensors, str(partial), metadata=about)
            partial.replace(self._path(number))
        except (OSError, SafetensorError) as error:
            partial.unlink(missing_ok=True)
            raise RecordingError(
                f"Replies could not be kept in {self.folder}: {what_failed(error)}. Those before "
                "are there; make room and run the same command again, or lower replies.gigabytes."
            ) from error
        self._open(number)

    def tokens(self, kept: StoredReply) -> Tensor:
        """int32 (length,)."""
        part: Tensor = self._shards[kept.shard].get_slice("tokens")[_rows(kept)]
        return part

    def states(self, aux_layer: AuxLayer, kept: StoredReply) -> Tensor:
        """bf16 (length, hidden); the last row is zeros."""
        at = self.aux_layers.index(aux_layer)
        part: Tensor = self._shards[kept.shard].get_slice("features")[at, _rows(kept)]
        return part

    def _open(self, number: int) -> None:
        shard: Any = safe_open(str(self._path(number)), framework="pt")  # mapped, not read
        about: Mapping[str, str] = shard.metadata()
        self._shards.append(shard)
        self.seconds += float(about.get("seconds", 0.0))
        self.replies += [StoredReply(**entry) for entry in parse_json(about["replies"])]

    def _path(self, number: int) -> Path:
        return self.folder / f"replies-{number:05}.safetensors"


def with_normed(aux_layers: Sequence[AuxLayer]) -> tuple[AuxLayer, ...]:
    """Return a trainer's aux layers, then ``NORMED``."""
    return (*(aux_layer for aux_layer in aux_layers if aux_layer != NORMED), NORMED)


def batched(replies: Iterator[Any], size: int, due: Callable[[], bool]) -> Iterator[list[Any]]:
    """Yield lists of ``size``, or shorter ones when ``due``; the last one has the rest.

    On Ctrl-C, yield the rest before it is raised again.
    """
    held: list[Any] = []
    try:
        for reply in replies:
            held.append(reply)
            if len(held) == size or due():
                yield held
                held = []
    except KeyboardInterrupt:
        if held:
            yield held
        raise
    if held:
        yield held


def _rows(kept: StoredReply) -> slice:
    return slice(kept.offset, kept.offset + kept.length)


def _about(shard: Path) -> Mapping[str, str]:
    """Return a shard's metadata; empty if there is no shard."""
    if not shard.exists():
        return {}
    with safe_open(str(shard), framework="pt") as opened:
        about: Mapping[str, str] = opened.metadata()
        return about


def _aux_layers_in(shard: Path) -> tuple[AuxLayer, ...]:
    """Return the aux layers of a shard; none if there is no shard."""
    return tuple(AuxLayer(layer) for layer in parse_json(_about(shard).get("taps", "[]")))


def _plain(aux_layers: Sequence[AuxLayer]) -> list[int | None]:
    return [aux_layer.layer for aux_layer in aux_layers]
