"""One choice of an answer: the engine's reply split into thought, content and calls of tools, and its
formats in ``/v1/chat/completions`` and ``/v1/completions``."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Sequence

from app.server.errors import ended_early, failed
from app.server.sending import Json
from engine.events import Emitted, Event, Failed, Finished, FinishReason, Round, Token
from engine.reply import ReplyState
from engine.request import Request
from engine.tool_calls.in_reply import CallsInReply, WrittenCall
from engine.tool_calls.reading import Arguments, CallStart, Content, Part, Thought
from engine.tool_calls.styles import CallStyle


class Answer:
    """A reply, event by event."""

    def __init__(
        self, request: Request, style: CallStyle | None = None, *, keeps_rounds: bool = False
    ) -> None:
        """``style``: how the model writes calls of tools. ``keeps_rounds``: the answer reports each
        round."""
        self.request, self.keeps_rounds = request, keeps_rounds
        self.depth = request.speculation.deepest
        self.control = request.speculation.control
        self.reply = ReplyState()
        self.rounds: list[Round] = []
        self.calls = CallsInReply(style, request) if request.tools and style is not None else None
        """The calls of the request's tools, if it offers any."""
        self.parts: list[Part] = []
        """The parts that the last event added. Text that may begin a call or a thought comes later."""

    async def each(self, events: AsyncIterable[Event]) -> AsyncGenerator[Event, None]:
        """Add all events of a reply, and yield each after it was added. Raises as ``add``."""
        async for event in events:
            self.add(event)
            yield event

    async def follow(self, events: AsyncIterable[Event]) -> None:
        """Add all events of a reply. Raises as ``add``."""
        async for _ in self.each(events):
            pass

    def add(self, event: Event) -> None:
        """Add one event. Raises ApiError for a generation that failed or was cancelled."""
        self.reply.add(event)
        self.parts = [*self._split(event)]
        match event:
            case Emitted(round=Round() as round) if self.keeps_rounds:
                self.rounds.append(round)
            case Finished(reason=FinishReason.CANCELLED):
                raise ended_early()
            case Failed():
                raise failed(event)
            case _:
                pass

    def _split(self, event: Event) -> Iterator[Part]:
        """Yield what an event adds; only a chat's reply has a thought."""
        text = event.tail if isinstance(event, Finished) else getattr(event, "text", "")
        thought, answer = self.reply.added if self.request.messages else ("", text)
        if thought:
            yield Thought(thought)
        if self.calls is not None:
            yield from self.calls.add(answer, last=isinstance(event, Finished))
        elif answer:
            yield Content(answer)

    @property
    def thought(self) -> str:
        return self.reply.thoughts.thought if self.request.messages else ""

    @property
    def thinks(self) -> bool:
        """True while the reply is a thought that has not ended."""
        return bool(self.request.messages) and not self.reply.thoughts.closed

    @property
    def content(self) -> str:
        """The reply without thought and calls."""
        if self.calls is not None:
            return self.calls.content
        return self.reply.thoughts.answer if self.request.messages else self.reply.text

    @property
    def called(self) -> Sequence[WrittenCall]:
        """The calls in the reply; the last one may be incomplete."""
        return () if self.calls is None else self.calls.calls

    @property
    def cut(self) -> bool:
        """True if the last call is incomplete: a limit or a stop string ended the reply inside it."""
        return bool(self.called) and self.called[-1].object is None


NEVER = -9999.0
"""OpenAI's log probability for a probability of zero."""


class ChatDialect:
    """``/v1/chat/completions``. Choices have no index yet."""

    prefix, whole, part = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, logprobs: bool) -> None:
        self._wanted = logprobs

    def opening(self) -> Iterator[Json]:
        """Yield the first choice of a stream, if it has one before the text."""
        yield self._delta({"role": "assistant", "content": ""})

    def ended(self, reason: str) -> Json:
        """Return the last choice of a stream."""
        return self._delta({}) | {"finish_reason": reason}

    def choice(self, answer: Answer) -> Json:
        """Return the choice with the whole answer."""
        message: Json = {"role": "assistant", "content": answer.content, "refusal": None}
        if answer.thought:
            message["reasoning_content"] = answer.thought
        if answer.called:
            message["content"] = answer.content or None
            message["tool_calls"] = [
                {"id": call.id, **_call(call.name, call.arguments)} for call in answer.called
            ]
        return {
            "message": message,
            "logprobs": self._logprobs(answer.reply.tokens),
            "finish_reason": chat_reason(answer),
            **stop_found(answer),
        }

    def added(self, answer: Answer, tokens: Sequence[Token] | None) -> Iterator[Json]:
        """Yield the choices of a stream for the answer's last event. The first gets all ``tokens``."""
        deltas = [_delta(answer, part) for part in answer.parts]
        for delta in deltas or ([{"content": ""}] if tokens and self._wanted else []):
            yield self._delta(delta) | {"logprobs": self._logprobs(tokens)}
            tokens = None

    def _delta(self, delta: Json) -> Json:
        return {"delta": delta, "logprobs": None, "finish_reason": None}

    def _logprobs(self, tokens: Sequence[Token] | None) -> Json | None:
        if not self._wanted or tokens is None:
            return None
        return {"content": chat_logprobs(tokens), "refusal": None}


class TextDialect:
    """``/v1/completions``, as ``ChatDialect``."""

    prefix, whole, part = "cmpl", "text_completion", "text_completion"

    def __init__(self, logprobs: int | None) -> None:
        """``logprobs``: how many top tokens come with each token's log probability; None: neither."""
        self._wanted, self._top = logprobs is not None, bool(logprobs)

    def opening(self) -> Iterator[Json]:
        return iter(())

    def added(self, answer: Answer, tokens: Sequence[Token] | None) -> Iterator[Json]:
        text = "".join(part.text for part in answer.parts if isinstance(part, Content))
        if text or (tokens and self._wanted):
            yield self._choice(text, self._logprobs(tokens), None)

    def ended(self, reason: str) -> Json:
        return self._choice("", None, reason)

    def choice(self, answer: Answer) -> Json:
        reply = answer.reply
        choice = self._choice(reply.text, self._logprobs(reply.tokens), reply.reason)
        return choice | stop_found(answer)

    def _choice(self, text: str, logprobs: Json | None, reason: str | None) -> Json:
        return {"text": text, "logprobs": logprobs, "finish_reason": reason}

    def _logprobs(self, tokens: Sequence[Token] | None) -> Json | None:
        if not self._wanted or tokens is None:
            return None
        return {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [logprob(token.p) for token in tokens],
            "top_logprobs": [_top_logprobs(token) for token in tokens] if self._top else None,
            "text_offset": [token.start for token in tokens],
        }


Dialect = ChatDialect | TextDialect


def chat_reason(answer: Answer) -> str | None:
    """Return the finish reason of a chat's reply. That of one whose last call was cut is the engine's."""
    reason, complete = answer.reply.reason, bool(answer.called) and not answer.cut
    return "tool_calls" if complete and reason is FinishReason.STOP else reason


def stop_found(answer: Answer) -> dict[str, str]:
    """Return the stop string that ended a reply, in vLLM's field, if one did."""
    found = answer.reply.stop_string
    return {} if found is None else {"stop_reason": found}


def _delta(answer: Answer, part: Part) -> Json:
    """Return a chat stream's delta of a part of the reply."""
    match part:
        case Thought(text):
            return {"reasoning_content": text}
        case Content(text):
            return {"content": text}
        case CallStart(index, name):
            opened = {"index": index, "id": answer.called[index].id, **_call(name, "")}
            return {"tool_calls": [opened]}
        case Arguments(index, text):
            return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


def _call(name: str, arguments: str) -> Json:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def chat_logprobs(tokens: Sequence[Token]) -> list[Json]:
    """Return an entry for each token, as in ``/v1/chat/completions`` and ``/v1/responses``."""
    return [
        {
            **_entry(token.text, token.p),
            "top_logprobs": [_entry(other.text, other.p) for other in token.top_logprobs],
        }
        for token in tokens
    ]


def _entry(text: str, p: float | None) -> Json:
    return {"token": text, "logprob": logprob(p), "bytes": list(text.encode())}


def _top_logprobs(token: Token) -> dict[str, float | None]:
    """Return the log probabilities of a position's top tokens and its own token, by their texts.

    Of tokens with the same text, such as parts of a character, the most likely one counts.
    """
    logprobs: dict[str, float | None] = {}
    for other in token.top_logprobs:
        logprobs.setdefault(other.text, logprob(other.p))
    if token.id not in {other.id for other in token.top_logprobs}:
        logprobs.setdefault(token.text, logprob(token.p))
    return logprobs


def logprob(p: float | None) -> float | None:
    """Return the log of a token's probability in the target, after penalties, temperature, truncation."""
    if p is None:
        return None
    return math.log(p) if p > 0 else NEVER
