"""A reply as its events tell it: the one fold that pages, API, command line and races show."""

from __future__ import annotations

from collections.abc import Iterable

from engine.errors import ForetokenError
from engine.events import Emitted, Event, Failed, Finished, FinishReason, Started, Token
from engine.stats import Statistics, Tally


class ReplyState:
    """What a reply says and how it stands, after every event so far.

    ``prompt``: its tokens. ``tokens`` is None once the engine emitted text without tokens, and
    ``token_ids`` where it reported none in the end. ``reason`` and ``error``: how it ended; both are
    None before.
    """

    def __init__(self) -> None:
        self.prompt: tuple[int, ...] = ()
        self.text = ""
        self.tokens: list[Token] | None = []
        self.token_ids: tuple[int, ...] | None = ()
        self.seed: int | None = None
        self.reason: FinishReason | None = None
        self.error: str | None = None
        self._tally = Tally()

    @classmethod
    def of(cls, events: Iterable[Event]) -> ReplyState:
        """A whole reply. Raises ForetokenError, with the engine's message, where it failed."""
        state = cls()
        for event in events:
            state.add(event)
        if state.error is not None:
            raise ForetokenError(state.error)
        return state

    def add(self, event: Event) -> None:
        """Takes the next event."""
        self._tally.add(event)
        match event:
            case Started():
                self.prompt, self.seed = event.prompt_tokens or (), event.seed
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
