"""One choice of an answer: a reply of the engine's, and which of its ends are errors here."""

from __future__ import annotations

from app.server.errors import closing, engine_failed
from engine.events import Event, Failed, Finished, FinishReason
from engine.reply import ReplyState
from engine.request import Request


class Answer:
    """A reply and how far its request let rounds draft."""

    def __init__(self, request: Request) -> None:
        self.depth = request.speculation.deepest
        self.control = request.speculation.control
        self.reply = ReplyState()

    def add(self, event: Event) -> None:
        """Takes one event. Raises ApiError for a generation that failed or was cancelled."""
        self.reply.add(event)
        match event:
            case Finished(reason=FinishReason.CANCELLED):
                raise closing()
            case Failed():
                raise engine_failed(event.message)
            case _:
                pass
