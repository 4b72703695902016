"""One choice of an answer: the engine's reply split into thought, content and calls of tools."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterator, Sequence

from app.server.errors import ended_early, failed
from engine.events import Emitted, Event, Failed, Finished, FinishReason, Round
from engine.reply import ReplyState
from engine.request import PREDICTED, Request
from engine.tool_calls.in_reply import CallsInReply, WrittenCall
from engine.tool_calls.reading import Content, Part, Thought
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
        self.predicted_accepted = self.predicted_rejected = 0
        """Tokens drafted from the request's prediction."""
        self.rounds: list[Round] = []
        self.calls = CallsInReply(style, request) if request.tools and style is not None else None
        """The calls of the request's tools, if it offers any."""
        self.parts: list[Part] = []
        """The parts that the last event added. Text that may begin a call or a thought comes later."""

    async def follow(self, events: AsyncIterable[Event]) -> None:
        """Add all events of a reply."""
        async for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Add one event. Raises ApiError for a generation that failed or was cancelled."""
        self.reply.add(event)
        self.parts = [*self._split(event)]
        match event:
            case Emitted(round=Round() as round):
                self._add_round(round)
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

    def _add_round(self, round: Round) -> None:
        if self.keeps_rounds:
            self.rounds.append(round)
        if round.proposer == PREDICTED:
            self.predicted_accepted += round.accepted
            self.predicted_rejected += len(round.tree) - round.accepted
