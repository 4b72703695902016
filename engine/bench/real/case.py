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
    load: LoadRequest, prompts: Sequence[Prompt], limit: int, *, skip_long: bool = False
) -> tuple[Case, list[EncodedPrompt]]:
    """Return the case, with the first turn of every prompt rendered by the target's chat template.

    ``load`` names the pair by where it lies. All of it is read once: then it is in the page cache, for
    whoever starts first too. ``skip_long``: leave out prompts that do not fit into the model's context,
    if others do. Raises ModelError for what cannot be read, InvalidRequest if a prompt does not fit.
    """
    target, draft = Path(load.target), Path(load.draft) if load.draft else None
    checkpoint = inspect(target)
    pair = [checkpoint] if draft is None else [checkpoint, inspect(draft)]
    codec = TextCodec(target)
    encoded = [_encoded(codec, prompt) for prompt in prompts]
    if skip_long:
        longest = checkpoint.context - limit - _ROOM
        encoded = [one for one in encoded if len(one.tokens) <= longest] or encoded
    case = Case(
        target=target,
        draft=draft,
        eos=frozenset(checkpoint.eos_ids),
        hello=encode(codec, _HELLO),
        context=_context(
            checkpoint, max(len(one.tokens) for one in encoded) + limit + _ROOM, limit
        ),
        limit=limit,
        threads=threads.default() if load.threads is None else load.threads,
    )
    for file in sorted({tensor.file for one in pair for tensor in one.tensors.values()}):
        with file.open("rb") as opened:
            while opened.read(_PIECE):
                pass
    return case, encoded


def encode(codec: TextCodec, text: str) -> tuple[int, ...]:
    """Return the tokens of a first user message, rendered by the chat template."""
    return _encoded(codec, Prompt("", (text,))).tokens


def _encoded(codec: TextCodec, prompt: Prompt) -> EncodedPrompt:
    chat = (*prompt.before, Message("user", prompt.turns[0]))
    tokens = tuple(codec.encode_request(Request(messages=chat)))
    return EncodedPrompt(prompt.kind, tokens, "\n\n".join(one.content for one in chat))


def _context(checkpoint: Checkpoint, needed: int, limit: int) -> int:
    """Return the tokens ``needed`` for the longest prompt, its reply and some room. Raises
    InvalidRequest."""
    if needed > checkpoint.context:
        raise InvalidRequest(
            "max_tokens",
            f"The longest prompt has {needed - limit - _ROOM:,} tokens; with {limit} for the reply and "
            f"{_ROOM} spare this exceeds the context of {checkpoint.context:,} tokens. Choose shorter "
            "prompts with --prompts, or fewer tokens with --max-tokens.",
        )
    return needed
