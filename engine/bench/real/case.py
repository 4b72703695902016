"""What is asked of every engine: a pair on disk and prompts as its target's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.bench.prompts import Prompt
from engine.bench.real.contest import Asked, Case
from engine.decoding.text import TextCodec
from engine.errors import InvalidRequest
from engine.machine import threads as machine_threads
from engine.models.checkpoints.checkpoint import inspect
from engine.request import Message, Request

SHIPPED = Path(__file__).with_name("prompts.jsonl")
"""Code, chat, JSON and rewriting; one rewriting is an edit of a file of more than 60 lines."""
LIMIT = 96
_HELLO = "Hello! Who are you?"
_ROOM = 64
"""Beyond the longest prompt and its reply: some engines draft beyond the end."""


def make(
    target: Path,
    draft: Path | None,
    prompts: Sequence[Prompt],
    limit: int = LIMIT,
    threads: int | None = None,
) -> tuple[Case, list[Asked]]:
    """The case, and the first turn of every prompt through the target's chat template.

    Raises ModelError for what cannot be read, InvalidRequest where the model's context is too short.
    """
    checkpoint = inspect(target)
    if draft is not None:
        inspect(draft)  # told before anything is started
    codec = TextCodec(target)

    def encode(text: str) -> tuple[int, ...]:
        return tuple(codec.encode_request(Request(messages=(Message("user", text),))))

    asked = [Asked(prompt.kind, encode(prompt.turns[0])) for prompt in prompts]
    longest = max(len(one.tokens) for one in asked)
    context = longest + limit + _ROOM
    if context > checkpoint.context:
        raise InvalidRequest(
            "max_tokens",
            f"The longest prompt has {longest} tokens; with {limit} of reply and {_ROOM} to spare "
            f"that is more than the model's context of {checkpoint.context}. Choose shorter prompts "
            "with --prompts, or fewer tokens with --max-tokens.",
        )
    return Case(
        target=target,
        draft=draft,
        eos=frozenset(checkpoint.eos_ids),
        hello=encode(_HELLO),
        context=context,
        limit=limit,
        threads=machine_threads.default() if threads is None else threads,
    ), asked
