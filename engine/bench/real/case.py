"""The input of every engine: a pair on disk and prompts as its target's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.bench.prompts import Prompt
from engine.bench.real.contest import Case, EncodedPrompt
from engine.decoding.text.codec import TextCodec
from engine.errors import InvalidRequest
from engine.loading.request import LoadRequest
from engine.machine import threads
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.request import Request
from engine.values.messages import Message

SHIPPED = Path(__file__).with_name("prompts.jsonl")
"""Code, chat, JSON and rewriting; one rewriting is an edit of a file of more than 60 lines."""
_HELLO = "Hello! Who are you?"
_ROOM = 64
"""Beyond the longest prompt and its reply: some engines draft beyond the end."""
_PIECE = 1 << 24


def make(
    load: LoadRequest, prompts: Sequence[Prompt], limit: int
) -> tuple[Case, list[EncodedPrompt]]:
    """Return the case, with the first turn of every prompt rendered by the target's chat template.

    ``load`` names the pair by where it lies. All of it is read once: then it is in the page cache, for
    whoever starts first too. Raises ModelError for what cannot be read, InvalidRequest where the
    model's context is too short.
    """
    target, draft = Path(load.target), Path(load.draft) if load.draft else None
    checkpoint = inspect(target)
    pair = [checkpoint] if draft is None else [checkpoint, inspect(draft)]
    codec = TextCodec(target)
    encoded = [EncodedPrompt(prompt.kind, encode(codec, prompt.turns[0])) for prompt in prompts]
    case = Case(
        target=target,
        draft=draft,
        eos=frozenset(checkpoint.eos_ids),
        hello=encode(codec, _HELLO),
        context=context(checkpoint, [one.tokens for one in encoded], limit, _ROOM),
        limit=limit,
        threads=threads.default() if load.threads is None else load.threads,
    )
    for one in pair:
        _read_once(one)
    return case, encoded


def encode(codec: TextCodec, text: str) -> tuple[int, ...]:
    """Return the tokens of a first user message, rendered by the chat template."""
    return tuple(codec.encode_request(Request(messages=(Message("user", text),))))


def context(checkpoint: Checkpoint, prompts: Sequence[Sequence[int]], limit: int, room: int) -> int:
    """Return the tokens of the longest prompt, of a reply and of ``room``. Raises InvalidRequest."""
    longest = max(map(len, prompts))
    if longest + limit + room > checkpoint.context:
        raise InvalidRequest(
            "max_tokens",
            f"The longest prompt has {longest} tokens; with {limit} of reply and {room} to spare "
            f"that is more than the model's context of {checkpoint.context}. Choose shorter prompts "
            "with --prompts, or fewer tokens with --max-tokens.",
        )
    return longest + limit + room


def _read_once(checkpoint: Checkpoint) -> None:
    for file in sorted({tensor.file for tensor in checkpoint.tensors.values()}):
        with file.open("rb") as opened:
            while opened.read(_PIECE):
                pass
