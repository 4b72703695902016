"""Measure engines in turns, repeatedly; each is alone in memory during its turn.

A repeat starts every program once, times it up to its first token, has it answer all prompts in each of
its settings, asks for its peak of memory, and ends it. Another program begins each repeat, so that a
machine that drifts slows all of them alike; what is compared is compared within a repeat.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from engine.bench.answering import turned
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

    def told(self, what: str) -> dict[str, Any]:
        """Return the "steps" (seconds of the target's step by rows) or the "reading" (the fields of
        ``Reading``); empty if the engine does not report them."""

    def peak_bytes(self) -> int | None:
        """Return the peak memory so far, mapped files included; None if it is not known."""

    def close(self) -> None:
        """End it; may be called twice."""


@dataclass(frozen=True, slots=True)
class Program:
    """An engine, in one or several settings. ``name`` is unique; ``file`` is its executable, if known.

    ``start`` takes the case and a file for the log, and returns once the engine is ready. It raises
    PeerFailed, and then leaves nothing running.
    """

    engine: str
    name: str
    start: Callable[[Case, Path], Running]
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """``step_bytes``: the weights that a step reads. ``gb_s``: what a probe read in the same process."""

    step_bytes: int
    gb_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply. ``prompt`` is the prompt's index."""

    repeat: int
    setting: Setting
    prompt: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Turn:
    """What one start of a program did: seconds to its first token, its peak memory, and its replies."""

    repeat: int
    engine: str
    weights: str
    settings: tuple[Setting, ...]
    ready_s: float
    peak_bytes: int | None
    answers: tuple[Answer, ...]
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
    turns: tuple[Turn, ...]
    absent: tuple[NotMeasured, ...]


LineUp = Sequence[Program | NotMeasured]


def run(
    line_up: LineUp,
    prompts: Sequence[EncodedPrompt],
    case: Case,
    repeats: int,
    logs: Path,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_turn: Callable[[Turn | NotMeasured], None] = lambda turn: None,
    seconds: float = inf,
) -> Result:
    """Measure. A program that fails becomes an absence, and its earlier answers do not count.

    Call ``on_turn`` with each turn, or with the failure, as soon as it is over. Start no turn
    that would probably end more than ``seconds`` after the beginning, but each engine's first.
    Ctrl-C ends the run with whole turns only; before the first of them it is raised again.

    From the second repeat on, variants of a method that were far from the best of their engine sit out,
    and all but the best where time is short. A repeat that would not end in time does not begin: else
    one engine would be measured more often than another.
    """
    until, taken = perf_counter() + seconds, dict[Program, float]()
    left = [program for program in line_up if isinstance(program, Program)]
    failed: dict[str, str] = {}
    turns: dict[str, list[Turn]] = {program.name: [] for program in left}
    total, done = repeats * len(left), 0
    ended = "Time ran out before the first round. Give more with --minutes."

    def fits(programs: Sequence[Program]) -> bool:
        """Return whether a turn of each would probably end in time."""
        return perf_counter() + sum(_expected(one, taken) for one in programs) <= until

    try:
        for repeat in range(repeats):
            if repeat and not fits(left):
                left = _worth_repeating(left, turns, near=1.0)
                if not fits(left):
                    break
            for program in turned(left, repeat):
                on_progress(done, total)
                done += 1
                if not repeat and not fits([program]):
                    continue
                began = perf_counter()
                try:
                    turn = _turn(program, repeat, prompts, case, logs)
                    turns[program.name].append(turn)
                    on_turn(turn)
                except PeerFailed as error:
                    failed[program.name] = str(error)
                    on_turn(NotMeasured(program.name, str(error)))
                taken[program] = perf_counter() - began
            left = [program for program in left if program.name not in failed]
            if repeat == 0:
                left = _worth_repeating(left, turns)
                total = done + (repeats - 1) * len(left)
    except KeyboardInterrupt:
        if not any(turns.values()):
            raise
        ended = "The run was stopped before its first round was over."
    failed |= {name: ended for name in turns if not turns[name] and name not in failed}
    on_progress(total, total)
    missing = [one for one in line_up if isinstance(one, NotMeasured)]
    return Result(
        tuple(prompt.kind for prompt in prompts),
        tuple(turn for name, of in turns.items() if name not in failed for turn in of),
        (*missing, *(NotMeasured(name, reason) for name, reason in failed.items())),
    )


def speed(replies: Iterable[Reply]) -> float:
    """Return the tokens per second of several replies as one; 0 if nothing was decoded."""
    several = list(replies)
    seconds = sum(reply.decode_s for reply in several)
    return sum(reply.decoded for reply in several) / seconds if seconds else 0.0


def _turn(
    program: Program, repeat: int, prompts: Sequence[EncodedPrompt], case: Case, logs: Path
) -> Turn:
    """Start the program, time it up to its first token, ask everything, and end it."""
    log = logs / (re.sub(r"[^\w.]+", "-", program.name) + ".log")  # a name that any system takes
    began = perf_counter()
    with contextlib.closing(program.start(case, log)) as running:
        settings = tuple(running.settings)
        running.answer(settings[0], case.hello, 1)
        ready_s = perf_counter() - began
        for setting in settings:
            running.answer(setting, case.hello, WARM_UP_TOKENS)
        answers = tuple(
            Answer(repeat, setting, at, running.answer(setting, prompt.tokens, case.limit))
            for at, prompt in enumerate(prompts)
            for setting in turned(settings, repeat + at)
        )
        # Last, for what is measured beyond the replies must not count as theirs.
        peak = running.peak_bytes()
        steps = {int(rows): float(took) for rows, took in running.told("steps").items()}
        read = running.told("reading")
        reading = Reading(**read) if read else None
        who = (repeat, program.engine, running.weights, settings)
        return Turn(*who, ready_s, peak, answers, steps, reading)


def _expected(program: Program, taken: Mapping[Program, float]) -> float:
    """Return the time of its last turn; before that the longest of its engine, whose first turn
    always fits."""
    kin = [took for other, took in taken.items() if other.engine == program.engine]
    return taken.get(program, max(kin, default=-inf))


def _worth_repeating(
    programs: Sequence[Program], turns: Mapping[str, Sequence[Turn]], near: float = NEAR
) -> list[Program]:
    """Return the programs with a setting that is among the best of its engine, weights and method: that
    has ``near`` of the best one's speed."""
    speeds: dict[tuple[str, str, Method], dict[str, float]] = {}
    for program in programs:
        # All turns of a program have the same settings and weights.
        answers = [answer for turn in turns[program.name] for answer in turn.answers]
        for setting in dict.fromkeys(answer.setting for answer in answers):
            key = program.engine, turns[program.name][0].weights, setting.method
            reached = speed(one.reply for one in answers if one.setting == setting)
            group = speeds.setdefault(key, {})
            group[program.name] = max(reached, group.get(program.name, 0.0))
    stay = {
        name
        for group in speeds.values()
        for name, reached in group.items()
        if reached >= near * max(group.values())
    }
    return [program for program in programs if program.name in stay]
