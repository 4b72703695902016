"""All engines on the start line: who is there, who is not and why; closed again at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import PeerFailed
from tools.peers.base import Case, Contender, Peer
from tools.peers.llama_cpp import LlamaCpp
from tools.peers.own import Own
from tools.peers.transformers import Transformers
from tools.peers.turns import Absence
from tools.peers.vllm import Vllm


@dataclass(frozen=True, slots=True)
class Field:
    """Who takes part, our plain decoding first, and who does not."""

    contenders: tuple[Contender, ...]
    absent: tuple[Absence, ...]


def peers(llama_cpp: Path | None, vllm: Path | None) -> tuple[Peer, ...]:
    """Every engine that is known here, ours first. The folders are where the others are installed."""
    return Own(), Transformers(), LlamaCpp(llama_cpp), Vllm(vllm)


@contextlib.contextmanager
def line_up(
    known: Sequence[Peer],
    case: Case,
    workspace: Path,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Field]:
    """Starts all of ``known`` that are there. One that fails to start is absent, not an error."""
    with contextlib.ExitStack() as stack:
        contenders: list[Contender] = []
        absent: list[Absence] = []
        for peer in known:
            reason = peer.absent()
            if reason is None:
                say(f"Starting {peer.name} ...")
                try:
                    ready = peer.contenders(case, workspace)
                except PeerFailed as error:
                    reason = str(error)
                else:
                    for contender in ready:
                        stack.callback(contender.close)
                    contenders += ready
            if reason is not None:
                absent.append(Absence(peer.name, reason))
        say("")
        yield Field(tuple(contenders), tuple(absent))
