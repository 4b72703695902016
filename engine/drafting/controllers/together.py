"""Who drafts how far while several requests share their passes: what adds most tokens a second to all.

    tokens/s = (requests + sum E[accepted]) / (T_verify(requests + sum drafted) + sum T_draft)

A pass has 16 rows for everybody, and drafts are made one after the other, while all others wait for them.
So with a few requests drafting pays, and with many mostly not: then all rows go to pending tokens, which
always stand. Times and acceptance are measured as they are for one request alone (see ``auto.py``), and
taken up again where somebody is alone once more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, repeat
from operator import mul

from engine.decoding.controller import Controller, budget_to
from engine.decoding.prefix import PREFILL_PART
from engine.drafting.controllers.auto import least
from engine.drafting.controllers.experience import Drafter, Experience
from engine.events import Budget, Decision, Round
from engine.request import MAX_ROWS

_GAIN = 1.05
"""How many times as many tokens a second all have to get for anybody to draft: what is paused while
passes are shared is hardly tried again, so noise must not decide."""
_KEPT = 0.5
"""Of the speed that replies have while nobody's prompt is read, what they keep beside one that is."""
_LEAST_READ = 8
"""Rows of a prompt that a pass reads at least, whatever is kept: each pass streams all weights, so with
fewer a prompt would take many times as long."""
_DECIDE_EVERY = 8
"""Passes after which it is decided anew, where nobody came or went."""
_NEXT = 0.8
"""How often the token behind a likely one stands, as in ``auto.py``."""
_LIKELIEST = 0.9
_LEAST_LEFT = 16
"""Rounds that a reply is taken to go on for at least, when its proposer has a prompt to read first."""
_TRIED = 2
"""Tokens that a proposer drafts at most while nobody knows what that takes."""
_INSTANT = 1e-9
"""Seconds that something takes at least, where nobody has measured it yet."""


class Together:
    """The requests that run at once on one target."""

    def __init__(self, experience: Experience) -> None:
        """``experience``: of which the times of passes are read, and learnt into."""
        self.experience = experience
        self.changes = 0  # in who runs
        self.running = 0
        self.gain = 1.0  # of the last decision, over drafting nothing
        self._members: list[Beside] = []
        self._depths: dict[Beside, int] = {}
        self._speed, self._rows = 0.0, 1
        self._passes = 0
        self._due = True

    @contextmanager
    def joined(self) -> Iterator[None]:
        """While a request runs."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    def _change(self, by: int) -> None:
        self.running += by
        self.changes += 1
        self._due = True

    def passed(self, rows: int, seconds: float) -> None:
        """A pass for several has verified so many rows."""
        self.experience.pace.observe([(self.experience.verify, rows, seconds)])
        self._passes += 1
        if self._passes % _DECIDE_EVERY == 0:
            self._due = True

    def prompt_rows(self, verified: int, most: int) -> int:
        """How many rows of a prompt are read in a pass that verifies ``verified``, and has ``most``: as
        many as leave what is verified its share of the time, by what verifying takes."""
        verify = self.experience.verify
        if not verify.known:
            return min(_LEAST_READ, most - verified)
        seconds = verify.table(most)
        fitting = bisect_right(seconds, seconds[verified] / _KEPT) - 1
        return min(max(fitting - verified, _LEAST_READ), most - verified)

    def reconsider(self) -> None:
        """Decide anew: something is known that was not."""
        self._due = True

    def add(self, member: Beside) -> None:
        """It decodes from now on, until ``remove``."""
        self._members.append(member)
        self._due = True

    def remove(self, member: Beside) -> None:
        """It has ended."""
        self._members.remove(member)
        self._depths.pop(member, None)
        self._due = True

    @property
    def reader(self) -> Beside | None:
        """Whose proposer reads next: that of one at a time, for all others wait for what it reads."""
        return next((member for member in self._members if member.unread), None)

    def needed(self, member: Beside) -> float | None:
        """The acceptance, alike for each token that it drafts, from which it pays for all that it drafts;
        None if there is none."""
        verify, views = self.experience.verify.table(MAX_ROWS), member.view(1.0)
        count = min(max(self.running, 1), MAX_ROWS)

        def pays(rate: float) -> bool:
            """Whether some depth does."""
            return any(
                (count + tokens) * verify[count]
                > _GAIN * count * (verify[count + view.rows] + view.seconds)
                for view, tokens in zip(views[1:], accumulate(_powers(rate)), strict=False)
                if count + view.rows <= MAX_ROWS
            )

        return least(pays) if pays(1.0) else None

    def depth(self, member: Beside) -> int:
        """How far it is to draft next."""
        if self._due:
            self._due = False
            self._decide()
        return self._depths.get(member, 0)

    @property
    def speed(self) -> float:
        """Tokens a second that all get together, as far as drafts are decided on; at the usual pace."""
        return self._speed

    def row_s(self) -> float:
        """Seconds that one more row takes beside those that are verified."""
        verify = self.experience.verify.table(MAX_ROWS)
        rows = min(max(self._rows, 1), MAX_ROWS - 1)
        return verify[rows + 1] - verify[rows]

    def _decide(self) -> None:
        """Token for token, whichever brings most for its time, as long as that is more than all bring
        now; and nothing, if all of it together brings little."""
        verify = self.experience.verify.table(MAX_ROWS)
        count = max(len(self._members), self.running)
        rows = min(count + sum(member.rows - 1 for member in self._members), MAX_ROWS)
        tokens, seconds = float(count), verify[rows]
        plain = tokens / seconds if seconds else 0.0
        views = {member: member.view() for member in self._trying()}
        depths = dict.fromkeys(self._members, 0)
        while plain and (found := _next_draft(views, depths, verify, rows)) is not None:
            if found.tokens <= found.seconds * tokens / seconds:
                break
            depths[found.member] = found.depth
            rows, tokens, seconds = (
                rows + found.rows,
                tokens + found.tokens,
                seconds + found.seconds,
            )
        speed = tokens / seconds if plain else 0.0
        self.gain = speed / plain if plain else 1.0
        if self.gain <= _GAIN:
            depths, self.gain, speed = dict.fromkeys(self._members, 0), 1.0, plain
        self._depths, self._speed, self._rows = depths, speed, rows

    def _trying(self) -> Iterator[Beside]:
        """Yield who may draft. Of a proposer whose times nobody knows one does, until they are known."""
        unknown: set[Drafter] = set()
        for member in self._members:
            drafter = member.experience.drafter
            if member.may_draft and drafter not in unknown:
                yield member
                if not drafter.drafts.known:
                    unknown.add(drafter)


class _View:
    """What a draft of some depth brings to its request, and takes."""

    __slots__ = ("rows", "seconds", "tokens")

    def __init__(self, tokens: float, rows: int, seconds: float) -> None:
        self.tokens, self.rows, self.seconds = tokens, rows, seconds


class Beside:
    """A request's own controller where it is alone; ``Together``'s decisions where it is not."""

    def __init__(
        self,
        inner: Controller,
        experience: Experience,
        together: Together,
        deepest: int,
        *,
        measures: bool,
        may_draft: bool,
    ) -> None:
        """``measures``: whether it is decided for; else ``inner`` decides always, as the request says.

        ``may_draft``: whether it drafts beside others. ``experience`` is that of its proposer.
        """
        self.inner, self.experience, self._together = inner, experience, together
        self.deepest, self.measures, self.may_draft = deepest, measures, measures and may_draft
        self.rows = 1 if measures else 1 + deepest
        self._alone = together.running < 2  # in this round
        self._seen = together.changes
        self._warm, self._idle = False, 0
        self._said: tuple[int, int] | None = None  # how many were told of, and how far it drafted
        self._own: Decision | None = None  # the inner's last
        # Beside others the proposer reads the prompt once it is to draft: often it never is.
        self.reads_at_once = not measures or together.running < 2
        self._read, self._to_draft = self.reads_at_once, False
        self._unread = self._rounds = 0  # tokens of the prompt, and rounds so far

    @property
    def wants_reading(self) -> bool:
        """Whether the proposer is to read a part of what it lacks of the text, before it may draft."""
        return self._together.reader is self

    @property
    def unread(self) -> bool:
        """Whether it is to draft, and does not yet since its proposer has to read."""
        return self._to_draft and not self._read

    def begin(self, prompt: int) -> None:
        """The prompt has so many tokens, which the proposer may have to read yet."""
        self._unread = 0 if self._read else prompt

    def read(self, seconds: float, *, finished: bool) -> None:
        """The proposer has read a part of the prompt in so many seconds, the last one if ``finished``."""
        part = min(self._unread, PREFILL_PART)
        if part:
            self.experience.drafter.has_read(part, seconds / self.experience.pace.value)
        self._unread -= part
        self._read = finished

    @property
    def reading_s(self) -> float:
        """Seconds that all wait for what its proposer has to read, spread over the rounds that follow.

        A reply is taken to go on for as long as it has gone on: then reading for nothing costs no more
        than drafting has left out before.
        """
        left = max(self._rounds, _LEAST_LEFT)
        return self.experience.drafter.reading_s(self._unread) / left

    def budget(self) -> Budget:
        together = self._together
        self._seen = together.changes
        if not self.measures:
            return self.inner.budget()
        if together.running < 2:
            return self._budget_alone()
        if self._alone:
            self._warm = self._alone = False
        depth = together.depth(self)
        if depth and not self._read:
            self._to_draft = True
            return Budget(0, 0)
        verify = self.experience.verify
        plain = verify(min(together.running, MAX_ROWS)) * self.experience.pace.value
        return budget_to(depth, self._news(depth), *self._floors(depth), plain or None)

    def observe(self, round: Round) -> None:
        self._rounds += 1
        undisturbed = self._alone and self._seen == self._together.changes
        if undisturbed or not self.measures:
            self.inner.observe(round)
        else:
            self._learn(round)
            self.inner.sit_out()

    def sit_out(self) -> None:
        self._warm = False
        self.inner.sit_out()

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """While its rounds take part in passes."""
        self._together.add(self)
        try:
            yield
        finally:
            self._together.remove(self)

    def view(self, stands: float | None = None) -> list[_View]:
        """By depth, 0 first. ``stands``: how often each token does, where that is not what was seen."""
        drafter = self.experience.drafter
        deepest = self.deepest if drafter.drafts.known else min(self.deepest, _TRIED)
        rates = drafter.stands() if stands is None else repeat(stands)
        chances = map(mul, drafter.goes_on(), rates)
        alive = list(accumulate(chances, mul))[:deepest]
        seconds = drafter.drafts.table(deepest)
        tokens = [0.0, *accumulate(alive)]
        return [
            _View(tokens[depth], drafter.nodes(depth), seconds[depth])
            for depth in range(deepest + 1)
        ]

    def _budget_alone(self) -> Budget:
        if not self._read:
            self._to_draft = True
            return Budget(0, 0)
        if not self._alone:
            self._alone, self._said = True, None
            self.inner.sit_out()  # what others took was none of its time
            budget = self.inner.budget()
            return budget if budget.decision else replace(budget, decision=self._own)
        budget = self.inner.budget()
        self._own = budget.decision or self._own
        return budget

    def _learn(self, round: Round) -> None:
        drafter, drafted = self.experience.drafter, round.tree.depth
        if not round.budget.depth:
            self._idle, self._warm = self._idle + 1, False
            return
        drafter.learn(round, self._idle)
        if self._warm:  # else it first read what it had missed
            if not drafter.drafts.known:
                self._together.reconsider()
            drafter.drafts.learn(drafted, round.timing.draft_s / self.experience.pace.value)
        self._idle, self._warm = 0, True

    def _floors(self, depth: int) -> tuple[float, float]:
        """As in ``auto.py``: how likely a draft must be to be worth its time, which is everybody's."""
        drafter, together = self.experience.drafter, self._together
        if depth < 2 or not (drafter.stops_early and drafter.calibration.known):
            return 0.0, 0.0
        row = together.row_s()
        token = row + drafter.drafts(depth) / depth
        chances = (together.speed * token / _NEXT, together.speed * row)
        floor, row_floor = (drafter.calibration.said_of(min(one, _LIKELIEST)) for one in chances)
        return floor, row_floor

    def _news(self, depth: int) -> Decision | None:
        """What is decided, where that is another thing than was said last."""
        running = self._together.running
        if self._said == (running, depth):
            return None
        self._said = running, depth
        if depth:
            tokens = "1 token a round" if depth == 1 else f"up to {depth} tokens a round"
            why = (
                f"beside {running - 1} more: drafting {tokens}, "
                f"{self._together.gain:.2f} times as many tokens for all together"
            )
        else:
            why = f"beside {running - 1} more: drafting paused, for the rows of all bring more"
        expected = next(iter(self.experience.drafter.stands()))
        return Decision(depth, why, self._together.needed(self), expected)


@dataclass(frozen=True, slots=True)
class _More:
    """A deeper draft of one request: what it brings, and takes, more than the one it has."""

    member: Beside
    depth: int
    tokens: float
    rows: int
    seconds: float


def _next_draft(
    views: Mapping[Beside, list[_View]],
    depths: Mapping[Beside, int],
    verify: list[float],
    rows: int,
) -> _More | None:
    """The one with most tokens for its time; None where a pass with ``rows`` has room for none."""
    found, most = None, 0.0
    for member, view in views.items():
        had = view[depths[member]]
        for depth in range(depths[member] + 1, len(view)):
            new = view[depth]
            more = new.rows - had.rows
            if rows + more > MAX_ROWS:
                break
            took = verify[rows + more] - verify[rows] + new.seconds - had.seconds
            took += 0.0 if depths[member] else member.reading_s
            brings = new.tokens - had.tokens
            if brings / max(took, _INSTANT) > most:
                most = brings / max(took, _INSTANT)
                found = _More(member, depth, brings, more, took)
    return found


def _powers(rate: float) -> Iterator[float]:
    return accumulate(repeat(rate), mul)
