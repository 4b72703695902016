"""Fold a reply's events into its state, for pages, API, command line and races."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from engine.errors import ForetokenError
from engine.events import (
    Emitted,
    Event,
    Failed,
    Finished,
    FinishReason,
    Prefilled,
    Queued,
    Round,
    Started,
    Token,
)
from engine.request import PREDICTED
from engine.stats import Statistics, Tally
from engine.thoughts import Thoughts


class ReplyState:
    """A reply's text and state after every event so far.

    ``prompt``: its tokens. ``proposer``: the method that drafts; "" before it begins. ``tokens`` is None
    once the engine emitted text without tokens, and ``token_ids`` where it reported none in the end.
    ``reason`` and ``error``: how it ended; both are None before. ``stop_string``: the one that ended it,
    if known. ``thoughts`` says where its thought stands, ``thinking`` whether it begins inside one, and
    ``thought_s`` how long it took to write; ``added`` is what the last event added to thought and answer
    for sure. ``predicted_drafted`` and ``predicted_accepted`` count tokens that were drafted from a
    predicted reply.
    """

    def __init__(self) -> None:
        self.prompt: tuple[int, ...] = ()
        self.proposer = self.text = ""
        self.tokens: list[Token] | None = []
        self.token_ids: tuple[int, ...] | None = ()
        self.seed: int | None = None
        self.reason: FinishReason | None = None
        self.stop_string: str | None = None
        self.error: str | None = None
        self.thinking = False
        self.thoughts = Thoughts()
        self.thought_s: float | None = None
        self.added = ("", "")
        self.predicted_drafted = self.predicted_accepted = 0
        self._tally = Tally()

    @classmethod
    def of(cls, events: Iterable[Event]) -> ReplyState:
        """Return the whole reply. Raises ForetokenError, with the engine's message, if it failed."""
        state = cls()
        for event in events:
            state.add(event)
        if state.error is not None:
            raise ForetokenError(state.error)
        return state

    def add(self, event: Event) -> None:
        """Take the next event."""
        self._tally.add(event)
        self.added = ("", "")
        match event:
            case Started():
                self.prompt, self.seed = event.prompt_tokens or (), event.seed
                self.proposer, self.thinking = event.proposer, event.thinking
                self.thoughts = Thoughts(opened=event.thinking)
            case Emitted():
                self.text += event.text
                self.added = self.thoughts.read(event.text)
                if self.added[0] or not self.thoughts.closed:
                    self.thought_s = self._tally.decode_s
                if event.tokens is None:
                    self.tokens = None
                elif self.tokens is not None:
                    self.tokens += event.tokens
                if event.round is not None and event.round.proposer == PREDICTED:
                    self.predicted_drafted += len(event.round.tree)
                    self.predicted_accepted += event.round.accepted
            case Finished():
                self.text, self.token_ids = event.text, event.token_ids
                self.reason, self.stop_string = event.reason, event.stop_string
                self.added = self.thoughts.read(event.tail, last=True)
            case Failed():
                self.error = event.message
            case _:
                pass

    @property
    def thought_tokens(self) -> int:
        """Return how many tokens the thought has; 0 where the engine reports no tokens.

        A token counts if any of its text stands in the thought. Marks do not, nor what is white space
        around the thought alone. So the count depends on the reply, not on the rounds that it came in.
        """
        begin, end, tokens = self.thoughts.begin, self.thoughts.end, self.tokens
        if begin == end or not tokens:
            return 0
        first = bisect_left(tokens, begin, key=lambda token: token.start)
        reaching = first > 0 and tokens[first - 1].start + len(tokens[first - 1].text) > begin
        return bisect_left(tokens, end, key=lambda token: token.start) - first + reaching

    @property
    def statistics(self) -> Statistics:
        """Return the statistics so far."""
        return self._tally.statistics()


class ResumedReply:
    """Appends the events of a continued reply to its earlier ones: together they form one reply."""

    def __init__(self, before: Sequence[Event] = ()) -> None:
        """``before``: the events of the reply that is continued; none for a new reply."""
        kept = [e for e in before if isinstance(e, Started | Prefilled | Emitted)]
        self._before, self._goes_on = kept, bool(kept)
        self._rounds = sum(isinstance(e, Emitted) and e.round is not None for e in kept)
        self._state = ReplyState.of(kept)

    def join(self, event: Event) -> Iterator[Event]:
        """Return what to add to the reply for its next event."""
        if isinstance(event, Queued) or not self._goes_on:
            yield event
            return
        before, self._before = self._before, []
        if before and isinstance(event, Started):
            before[0] = event  # with the prompt that it goes on with
        yield from before
        match event:
            case Emitted(round=Round() as round):
                yield replace(event, round=replace(round, index=round.index + self._rounds))
            case Finished(text=""):  # stopped before it went on
                ids = tuple(token.id for token in self._state.tokens or ())
                yield replace(event, text=self._state.text, token_ids=ids)
            case Finished() | Failed():
                yield event
            case _:
                pass
