"""Measure engines in turns, repeatedly; each is alone in memory during its turn.

A repeat starts every program once, times it up to its first token, has it answer all prompts in each of
its settings, asks for its peak of memory, and ends it. Another program begins each repeat, so that a
machine that drifts slows all of them alike; what is compared is compared within a repeat.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Protocol

from engine.errors import PeerFailed

WARM_UP_TOKENS = 8
NEAR = 0.85
"""After the first repeat a variant of a method stays if it has this much of the best one's speed."""


class Method(StrEnum):
    """The method of a setting, for comparing engines; the setting's name tells the details."""

    PLAIN = "plain"
    DRAFT = "draft model"
    LOOKUP = "n-grams"
    SEVERAL = "several"


@dataclass(frozen=True, slots=True)
class Setting:
    """A way of decoding, named as its engine names it."""

    name: str
    method: Method


@dataclass(frozen=True, slots=True)
class Reply:
    """A setting's reply to a prompt. Times in seconds.

    ``prompt_s`` took in the prompt. ``decoded`` tokens took ``decode_s``: an engine that tells when its
    first token was there counts neither that token nor the time up to it. ``drafted``, ``accepted`` and
    ``rounds`` are None where the engine does not tell, as is ``draft_s``, the time of drafting.
    """

    tokens: tuple[int, ...]
    prompt_tokens: int
    prompt_s: float
    decoded: int
    decode_s: float
    drafted: int | None = None
    accepted: int | None = None
    rounds: int | None = None
    draft_s: float | None = None


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt as the target's tokens, its kind of task, and its ``text`` for people."""

    kind: str
    tokens: tuple[int, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """The input of every engine. ``context``: room for the longest prompt and its reply.

    ``hello`` is the short prompt whose first token ends the start. ``eos``: tokens that end a reply;
    without any, replies go on to ``limit``.
    """

    target: Path
    draft: Path | None
    eos: frozenset[int]
    hello: tuple[int, ...]
    context: int
    limit: int
    threads: int


class Running(Protocol):
    """A program that is loaded and ready. ``weights``: the format of the target's."""

    @property
    def weights(self) -> str: ...

    @property
    def settings(self) -> Sequence[Setting]: ...

    def answer(self, setting: Setting, prompt: Sequence[int], limit: int) -> Reply:
        """Continue ``prompt`` greedily from an empty cache, without statistics of earlier replies.

        Raises PeerFailed.
        """

    def step_times(self) -> Mapping[int, float]:
        """Return the seconds of the target's step by rows; empty if the engine does not report them."""

    def reading(self) -> Reading | None:
        """Return what a step reads, and how fast memory is read; None if it is not told."""

    def peak_bytes(self) -> int | None:
        """Return the peak memory so far, mapped files included; None if it is not known."""

    def close(self) -> None:
        """End it; may be called twice."""


class Program(Protocol):
    """An engine, in one or several settings, that can be started. ``name`` is unique."""

    @property
    def engine(self) -> str: ...

    @property
    def name(self) -> str: ...

    def start(self, case: Case, log: Path) -> Running:
        """Start it; return when it is ready. Raises PeerFailed, and then leaves nothing running."""


@dataclass(frozen=True, slots=True)
class Record:
    """One reply. ``prompt`` is the prompt's index."""

    repeat: int
    engine: str
    weights: str
    setting: Setting
    prompt: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Reading:
    """``step_bytes``: the weights that a step reads. ``gb_s``: what a probe read in the same process."""

    step_bytes: int
    gb_s: float


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a program: seconds to its first token, and its peak memory."""

    repeat: int
    engine: str
    weights: str
    settings: tuple[Setting, ...]
    ready_s: float
    peak_bytes: int | None
    steps: Mapping[int, float] = field(default_factory=dict)
    reading: Reading | None = None


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """An engine, or a setting of it, that is not measured: why, and how to get it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """All measurements. ``kinds``: that of each prompt."""

    kinds: tuple[str, ...]
    records: tuple[Record, ...]
    starts: tuple[Start, ...]
    absent: tuple[NotMeasured, ...]


def run(
    line_up: Sequence[Program | NotMeasured],
    prompts: Sequence[EncodedPrompt],
    case: Case,
    repeats: int,
    logs: Path,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_turn: Callable[[Sequence[Record] | NotMeasured], None] = lambda turn: None,
    seconds: float = inf,
) -> Result:
    """Measure. A program that fails becomes an absence, and its earlier answers do not count.

    Call ``on_turn`` with the records of each turn, or with the failure, as soon as it is over. Start no
    turn that would probably end more than ``seconds`` after the beginning, but each engine's first.
    Ctrl-C ends the run with whole turns only; before the first of them it is raised again.

    From the second repeat on, variants of a method that were far from the best of their engine sit out,
    and all but the best where time is short. A repeat that would not end in time does not begin: else
    one engine would be measured more often than another.
    """
    until, taken = perf_counter() + seconds, _TurnTimes()
    left = [program for program in line_up if not isinstance(program, NotMeasured)]
    failed: dict[str, str] = {}
    records: dict[str, list[Record]] = {program.name: [] for program in left}
    starts: dict[str, list[Start]] = {program.name: [] for program in left}
    total, done = repeats * len(left), 0
    ended = "Time ran out before the first round. Give more with --minutes."
    try:
        for repeat in range(repeats):
            if repeat and not taken.fits(left, until):
                left = _worth_repeating(left, records, near=1.0)
                if not taken.fits(left, until):
                    break
            turned = repeat % max(len(left), 1)
            for program in (*left[turned:], *left[:turned]):
                on_progress(done, total)
                done += 1
                began = perf_counter()
                if not repeat and began + taken.expected(program) > until:
                    continue
                try:
                    with contextlib.closing(_started(program, case, logs)) as started:
                        answered, start = started.turn(repeat, prompts, case)
                    records[program.name] += answered
                    starts[program.name].append(start)
                    on_turn(answered)
                except PeerFailed as error:
                    failed[program.name] = str(error)
                    on_turn(NotMeasured(program.name, str(error)))
                taken.note(program, perf_counter() - began)
            left = [program for program in left if program.name not in failed]
            if repeat == 0:
                left = _worth_repeating(left, records)
                total = done + (repeats - 1) * len(left)
    except KeyboardInterrupt:
        if not any(starts.values()):
            raise
        ended = "The run was stopped before its first round was over."
    unheard = [name for name in starts if not starts[name] and name not in failed]
    failed |= dict.fromkeys(unheard, ended)
    on_progress(total, total)
    counted = [name for name in records if name not in failed]
    missing = [one for one in line_up if isinstance(one, NotMeasured)]
    return Result(
        tuple(prompt.kind for prompt in prompts),
        tuple(record for name in counted for record in records[name]),
        tuple(start for name in counted for start in starts[name]),
        (*missing, *(NotMeasured(name, reason) for name, reason in failed.items())),
    )


class _TurnTimes:
    """Durations of past turns, which predict the next one's."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], float] = {}

    def note(self, program: Program, seconds: float) -> None:
        self._of[program.engine, program.name] = seconds

    def fits(self, programs: Sequence[Program], until: float) -> bool:
        """Return whether a turn of each would probably end in time."""
        return perf_counter() + sum(map(self.expected, programs)) <= until

    def expected(self, program: Program) -> float:
        """Return the time of its last run; before that the longest of its engine, whose first
        run always fits."""
        kin = [time for (engine, _), time in self._of.items() if engine == program.engine]
        return self._of.get((program.engine, program.name), max(kin, default=-inf))


def speed(replies: Sequence[Reply]) -> float:
    """Return the tokens per second of several replies as one; 0 if nothing was decoded."""
    seconds = sum(reply.decode_s for reply in replies)
    return sum(reply.decoded for reply in replies) / seconds if seconds else 0.0


@dataclass(frozen=True, slots=True)
class _Started:
    """A program that produced its first token after ``ready_s``."""

    engine: str
    running: Running
    ready_s: float

    def turn(
        self, repeat: int, prompts: Sequence[EncodedPrompt], case: Case
    ) -> tuple[list[Record], Start]:
        running, settings = self.running, tuple(self.running.settings)
        for setting in settings:
            running.answer(setting, case.hello, WARM_UP_TOKENS)
        records = []
        for place, prompt in enumerate(prompts):
            turned = (repeat + place) % len(settings)
            for setting in (*settings[turned:], *settings[:turned]):
                reply = running.answer(setting, prompt.tokens, case.limit)
                records.append(Record(repeat, self.engine, running.weights, setting, place, reply))
        # Last, for what is measured beyond the replies must not count as theirs.
        peak = running.peak_bytes()
        start = Start(
            repeat, self.engine, running.weights, settings, self.ready_s, peak,
            running.step_times(), running.reading(),
        )  # fmt: skip
        return records, start

    def close(self) -> None:
        self.running.close()


def _started(program: Program, case: Case, logs: Path) -> _Started:
    began = perf_counter()
    log = logs / (re.sub(r"[^\w.]+", "-", program.name) + ".log")  # a name that any system takes
    running = program.start(case, log)
    try:
        running.answer(running.settings[0], case.hello, 1)
    except BaseException:
        running.close()
        raise
    return _Started(program.engine, running, perf_counter() - began)


def _worth_repeating(
    programs: Sequence[Program], records: Mapping[str, Sequence[Record]], near: float = NEAR
) -> list[Program]:
    """Return the programs with a setting that is among the best of its engine, weights and method: that
    has ``near`` of the best one's speed."""
    speeds: dict[tuple[str, str, Method], dict[str, float]] = {}
    for program in programs:
        for setting in dict.fromkeys(record.setting for record in records[program.name]):
            mine = [record for record in records[program.name] if record.setting == setting]
            group = speeds.setdefault((program.engine, mine[0].weights, setting.method), {})
            reached = speed([record.reply for record in mine])
            group[program.name] = max(reached, group.get(program.name, 0.0))
    stay = {
        name
        for group in speeds.values()
        for name, reached in group.items()
        if reached >= near * max(group.values())
    }
    return [program for program in programs if program.name in stay]
