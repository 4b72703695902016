"""One choice: a fold over one generation's events."""

from __future__ import annotations

from app.server.errors import ApiError, engine_failed
from engine.events import Emitted, Event, Failed, Finished, FinishReason, Piece, Started
from engine.request import Request
from engine.stats import Statistics, Tally


class Answer:
    """What a choice says and cost; ``add`` raises where there is no more to come of it."""

    def __init__(self, request: Request) -> None:
        self.depth = request.speculation.deepest
        self.control = request.speculation.control
        self.text = ""
        self.seed = 0
        self.pieces: list[Piece] = []
        self.reason: FinishReason | None = None
        self.length = 0
        """Characters of all pieces so far."""
        self._tally = Tally()

    @property
    def statistics(self) -> Statistics:
        return self._tally.statistics()

    def add(self, event: Event) -> None:
        """Counts one event. Raises ApiError for a generation that failed or was cancelled."""
        self._tally.add(event)
        match event:
            case Started():
                self.seed = event.seed
            case Emitted():
                self.pieces += event.pieces
                self.length += sum(len(piece.text) for piece in event.pieces)
            case Finished(reason=FinishReason.CANCELLED):
                raise ApiError(
                    503,
                    "Foretoken is closing, so this reply was cancelled. Start it again.",
                    code="cancelled",
                    kind="server_error",
                    retry=True,
                )
            case Finished():
                self.text, self.reason = event.text, event.reason
            case Failed():
                raise engine_failed(event.message)
