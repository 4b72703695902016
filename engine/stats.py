"""The only place where acceptance, rates and speed are defined: a fold over events.

Definitions follow vLLM and llama.cpp, so that figures can be compared:

    acceptance rate          accepted / drafted (those behind the end of a reply are drafted only)
    mean acceptance length   1 + accepted / rounds          tokens per target pass
    per-position rate        rounds that accepted draft position i / all rounds
    tokens per second        emitted tokens / seconds in rounds, over the whole reply, and between them
                             where the draft reads a long prompt there
    time to first token      from taking the request up to the end of the first round
    plain tokens per second  as many rounds that draft nothing as the reply has tokens, by the time they
                             would have taken: each as the controller measured it at that moment, and
                             none longer than the round that was there, which read the weights too

An engine elsewhere may show no rounds. Then the figures of rounds are what it counted in the end, else
zero or None. Speed is by its own clock where it tells that; else it comes from the events' time
stamps, if they have any: the tokens after the first event, over the time after it. Where tokens are
only counted in the end, the first event is taken to bring one of them, as in vLLM's own benchmark (its
time per output token leaves out the first).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from itertools import zip_longest

from engine.events import Counted, Decision, Emitted, Event, Finished, Prefilled, Round, Started

FEWEST_ROUNDS = 8
"""With fewer rounds a reply's speed-up is chance."""

_SUMMED = (
    "prompt_tokens", "reused_tokens", "completion_tokens", "untimed_tokens", "rounds", "drafted",
    "accepted", "prefill_s", "late_prefill_s", "decode_s", "draft_s", "verify_s",
)  # fmt: skip
"""Figures that add up over several replies."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """One reply's figures; rates are None where their denominator is zero. Times in seconds.

    Counts are of what the engine reported: 0 tokens where it reported text alone.
    """

    prompt_tokens: int = 0
    reused_tokens: int = 0
    completion_tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    time_to_first_token_s: float | None = None
    accepted_at: tuple[int, ...] = ()
    """``accepted_at[i]``: rounds that accepted at least i + 1 drafted tokens."""
    decision: Decision | None = None
    """The controller's last word; None where it decides nothing."""
    untimed_tokens: int = 0
    """Of ``completion_tokens``, those that came before time was measured."""
    plain_s: float | None = None
    """Seconds of a round that drafts nothing, the mean over the tokens; None where nobody measured."""
    reported_acceptance_length: float | None = None
    """The mean, from an engine that tells it and no rounds."""
    late_prefill_s: float = 0.0
    """Of ``decode_s``, what the draft read a long prompt in, between rounds."""
    shared: bool = False
    """Whether drafted and accepted are of more replies than this one; see ``Counted``."""

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def mean_acceptance_length(self) -> float | None:
        return 1 + self.accepted / self.rounds if self.rounds else self.reported_acceptance_length

    @property
    def tokens_per_s(self) -> float | None:
        timed = self.completion_tokens - self.untimed_tokens
        return timed / self.decode_s if timed and self.decode_s else None

    @property
    def plain_tokens_per_s(self) -> float | None:
        return 1 / self.plain_s if self.plain_s else None

    @property
    def speedup(self) -> float | None:
        """Return the speed-up over plain decoding; None if either speed is unknown."""
        now, plain = self.tokens_per_s, self.plain_tokens_per_s
        return now / plain if now and plain else None

    @property
    def telling_speedup(self) -> float | None:
        """Return the speed-up where it is one of drafts, and of enough rounds not to be chance."""
        return self.speedup if self.drafted and self.rounds >= FEWEST_ROUNDS else None

    @property
    def per_position(self) -> tuple[float, ...]:
        return tuple(count / self.rounds for count in self.accepted_at) if self.rounds else ()

    def __add__(self, other: Statistics) -> Statistics:
        """Combine several replies: counts and times add up, rates follow from them."""
        counts = zip_longest(self.accepted_at, other.accepted_at, fillvalue=0)
        first = self.time_to_first_token_s
        mean = other.reported_acceptance_length or self.reported_acceptance_length
        return Statistics(
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMMED},
            time_to_first_token_s=other.time_to_first_token_s if first is None else first,
            accepted_at=tuple(map(sum, counts)),
            decision=other.decision or self.decision,
            plain_s=_mean(
                (self.plain_s, self.completion_tokens), (other.plain_s, other.completion_tokens)
            ),
            reported_acceptance_length=mean,
            shared=self.shared or other.shared,
        )


def _mean(*measured: tuple[float | None, int]) -> float | None:
    """Return the mean of values, each weighted by its tokens; None if there are none."""
    known = [(value, tokens) for value, tokens in measured if value is not None and tokens]
    total = sum(tokens for _, tokens in known)
    return sum(value * tokens for value, tokens in known) / total if total else None


class Tally:
    """Folds events into statistics; may be read at any moment."""

    def __init__(self) -> None:
        self._prompt = self._reused = self._emitted = self._rounds = 0
        self._drafted = self._accepted = 0
        self._prefill = self._decode = self._draft = self._verify = self._late = 0.0
        self._first: float | None = None
        self._untimed = 0
        self._lengths: Counter[int] = Counter()
        self._decision: Decision | None = None
        self._plain: float | None = None  # as last told
        self._plainly_s, self._plainly_tokens = 0.0, 0
        self._counted: Counted | None = None

    @property
    def decode_s(self) -> float:
        """Return the seconds in rounds so far, and between them in the draft's prefill."""
        return self._decode

    def add(self, event: Event) -> None:
        """Count one event of one reply."""
        match event:
            case Started():
                self._prompt = len(event.prompt_tokens or ())
            case Prefilled():
                if self._first is None:
                    self._reused, self._prefill = event.reused, event.seconds
                else:
                    self._decode += event.seconds - self._prefill - self._late
                    self._late = event.seconds - self._prefill
            case Emitted(round=None):
                self._unseen(event)
            case Emitted(round=Round() as round):
                self._round(round)
            case Finished():
                self._counted = event.counted
                if event.token_ids and not self._emitted:  # known only in the end
                    self._emitted = self._untimed = len(event.token_ids)
            case _:
                pass

    def _unseen(self, event: Emitted) -> None:
        """Count tokens, and perhaps their time, of an engine that shows no rounds."""
        count = len(event.tokens or ())
        self._emitted += count
        if event.at is None or self._first is None:
            self._untimed += count
        if event.at is not None:
            self._first = event.at if self._first is None else self._first
            self._decode = event.at - self._first

    def _round(self, round: Round) -> None:
        self._rounds += 1
        self._emitted += round.emitted
        self._drafted += len(round.tree)
        self._accepted += round.accepted
        self._lengths[round.accepted] += 1
        self._decode += round.timing.total_s
        self._draft += round.timing.draft_s
        self._verify += round.timing.verify_s
        self._decision = round.budget.decision or self._decision
        self._plain = round.budget.plain_s or self._plain
        if self._plain is not None:
            self._plainly(round, self._plain)
        if self._first is None:
            self._first = self._prefill + round.timing.total_s

    def _plainly(self, round: Round, told_s: float) -> None:
        """Return how long plain decoding would have taken for the round's tokens. A machine's
        pace drifts: a time measured at another moment may exceed the whole round's, and is then
        no estimate."""
        took_s = round.timing.total_s
        self._plainly_s += round.emitted * (min(told_s, took_s) if round.tree else took_s)
        self._plainly_tokens += round.emitted

    def statistics(self) -> Statistics:
        """Return the statistics so far."""
        found = self._own()
        return found if self._counted is None else _completed(found, self._counted)

    def _own(self) -> Statistics:
        """Return the statistics that the events show."""
        deepest = max(self._lengths, default=0)
        return Statistics(
            prompt_tokens=self._prompt,
            reused_tokens=self._reused,
            completion_tokens=self._emitted,
            rounds=self._rounds,
            drafted=self._drafted,
            accepted=self._accepted,
            prefill_s=self._prefill,
            late_prefill_s=self._late,
            decode_s=self._decode,
            draft_s=self._draft,
            verify_s=self._verify,
            time_to_first_token_s=self._first,
            accepted_at=tuple(
                sum(count for length, count in self._lengths.items() if length > position)
                for position in range(deepest)
            ),
            decision=self._decision,
            untimed_tokens=self._untimed,
            plain_s=self._plainly_s / self._plainly_tokens if self._plainly_tokens else None,
        )


def _completed(own: Statistics, counted: Counted) -> Statistics:
    """Return the figures of the events, completed by counts where the events show nothing."""
    known = {
        each.name: value
        for each in fields(Counted)
        if each.name not in ("acceptance_length", "shared", "decode_s")
        and (value := getattr(counted, each.name))
        and not getattr(own, each.name)
    }
    if "completion_tokens" in known:
        timed = counted.decode_s is not None
        known |= {"decode_s": counted.decode_s} if timed else {"untimed_tokens": 1}
    drafts = not own.rounds
    return replace(
        own,
        **known,
        reported_acceptance_length=counted.acceptance_length if drafts else None,
        shared=counted.shared and drafts,
    )


def times(ratio: float, digits: int = 1) -> str:
    """Format a speed-up: 1.6x. Tables of measurements show two ``digits``."""
    return f"{ratio:.{0 if ratio >= 10 else digits}f}x"


def percent(share: float, digits: int = 0) -> str:
    """Format a share from 0 to 1 as the pages do: 83 %, with a space at which no line breaks."""
    return f"{100 * share:.{digits}f}\u00a0%"
