"""A reply as its events tell it: the one fold that pages, API, command line and races show."""

from __future__ import annotations

from engine.events import Emitted, Event, Failed, Finished, FinishReason, Started, Token
from engine.stats import Statistics, Tally


class ReplyState:
    """What a reply says and how it stands, after every event so far.

    ``tokens`` is None once the engine emitted text without tokens, and ``token_ids`` where it
    reported none in the end. ``reason`` and ``error``: how it ended; both are None before.
    """

    def __init__(self) -> None:
        self.text = ""
        self.tokens: list[Token] | None = []
        self.token_ids: tuple[int, ...] | None = ()
        self.seed: int | None = None
        self.reason: FinishReason | None = None
        self.error: str | None = None
        self._tally = Tally()

    def add(self, event: Event) -> None:
        """Takes the next event."""
        self._tally.add(event)
        match event:
            case Started():
                self.seed = event.seed
            case Emitted():
                self.text += event.text
                if event.tokens is None:
                    self.tokens = None
                elif self.tokens is not None:
                    self.tokens += event.tokens
            case Finished():
                self.text, self.token_ids = event.text, event.token_ids
                self.reason = event.reason
            case Failed():
                self.error = event.message
            case _:
                pass

    @property
    def statistics(self) -> Statistics:
        """The figures so far."""
        return self._tally.statistics()
