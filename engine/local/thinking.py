"""How a request's reply thinks, resolved against the loaded model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from engine.decoding.text.channels import Harmony, channels_of
from engine.decoding.text.codec import TextCodec
from engine.decoding.thinking import Thinking, ThoughtTokens, thought_tokens
from engine.errors import InvalidRequest
from engine.models.base import ModelInfo
from engine.request import Request
from engine.thoughts import CLOSING, opens_thought

_LAST_TOKENS = 8
"""Tokens at the end of a prompt that may hold the mark that opens or closes a thought."""


def thinking_of(
    request: Request, prompt: Sequence[int], codec: TextCodec, model: ModelInfo
) -> Thinking | None:
    """Return how the reply thinks; None if nothing limits it and no grammar waits for its end.

    Raises InvalidRequest for a budget where the model's vocabulary has no tokens around thoughts. A model
    that does not think needs none.
    """
    budget, constrained = request.thinking_budget, request.grammar is not None or request.tools
    if not request.messages or (budget is None and not constrained):
        return None
    tokens, last = _tokens(codec), _last(prompt, codec)
    if tokens is None:
        if budget is not None and opens_thought(last):
            raise InvalidRequest(
                "thinking_budget",
                "thinking_budget is not supported: this model has no token that ends a "
                "thought. Leave it out.",
            )
        return None
    if tokens.whole and budget is None:
        return None
    closed = last.rstrip().endswith((*CLOSING, "<channel|>", "<|END_THINKING|>"))
    place = tokens.start(opened=opens_thought(last), closed=closed)
    return Thinking(tokens, place, budget, model.vocabulary, frozenset(model.eos))


def prefill_of(
    request: Request, prompt: Sequence[int], codec: TextCodec, context: int
) -> tuple[int, ...]:
    """Return the tokens of the request's prefill, which follow ``prompt``.

    Raises InvalidRequest where an answer does not follow the prompt at once: after it comes a thought, or
    the name of a channel.
    """
    why = ""
    if opens_thought(_last(prompt, codec)):
        why = "its chat template begins every reply with a thought. Turn thinking off"
    elif isinstance(channels_of(codec.token_named), Harmony):
        why = "it writes its replies in channels. End the messages with a user message"
    if why:
        raise InvalidRequest("prefill", f"prefill is not possible with this model: {why}.")
    return tuple(codec.encode_as_text(request.prefill, context))


def may_limit(codec: TextCodec) -> bool:
    """Return whether the model has tokens around thoughts."""
    return codec.has_template and _tokens(codec) is not None


def _tokens(codec: TextCodec) -> ThoughtTokens | None:
    return thought_tokens(codec.token_named, partial(codec.encode, special=False))


def begins_inside_thought(
    request: Request, prompt: Sequence[int], codec: TextCodec, thinking: Thinking | None
) -> bool:
    """Return whether the template opened a thought in the prompt, and the reply may go on with it."""
    constrained = request.grammar is not None or request.tool_choice.must
    if not request.messages or (constrained and thinking is None):
        return False
    return opens_thought(_last(prompt, codec))


def _last(prompt: Sequence[int], codec: TextCodec) -> str:
    return "".join(map(codec.token_text, prompt[-_LAST_TOKENS:]))
