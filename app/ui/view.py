"""Engine events folded into what the pages show. Pure: no Gradio, no database, no clock.

The page's own scripts draw these values; keys are short because one goes out for every round.

    queued     ahead
    started    model, proposer, acceptance, prompt (tokens)
    prefilled  tokens, reused, seconds
    round      i, d: [[text, fate, p, q], ...], n: [text, origin, p, emitted], k: marks, s: text,
               o: who drafted, where anything was drafted,
               w: what the controller decided and why, where it changed its mind,
               b: the parent of each of d (-1: the text), where they are not a single chain
    finished   reason, tail
    failed     message

A fate is ``a`` accepted, ``x`` accepted behind the end of the reply, ``r`` rejected, ``u`` unseen
(behind a rejected one). Marks are the lengths and origins of the emitted tokens, ``a4 a3 c5``:
``a`` drafted, ``c`` correction, ``b`` bonus, lengths in UTF-16 units, as JavaScript counts.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

from engine import trace
from engine.events import (
    Emitted,
    Event,
    Failed,
    Finished,
    FinishReason,
    Origin,
    Piece,
    Prefilled,
    Queued,
    Round,
    Started,
)
from engine.request import Message
from engine.stats import Statistics, Tally

View = dict[str, Any]

MARKS = {Origin.DRAFT: "a", Origin.CORRECTION: "c", Origin.BONUS: "b"}
STATUS = {
    FinishReason.STOP: "done",
    FinishReason.LENGTH: "length",
    FinishReason.CANCELLED: "cancelled",
}


def show(event: Event) -> View:
    """One event as the page reads it."""
    match event:
        case Queued(ahead):
            return {"t": "queued", "ahead": ahead}
        case Started(model, proposer, acceptance, prompt):
            return {
                "t": "started",
                "model": model,
                "proposer": proposer,
                "acceptance": acceptance,
                "prompt": len(prompt),
            }
        case Prefilled(tokens, reused, seconds):
            return {"t": "prefilled", "tokens": tokens, "reused": reused, "seconds": seconds}
        case Emitted():
            return show_round(event)
        case Finished(reason, tail):
            return {"t": "finished", "reason": str(reason), "tail": tail}
        case Failed(message):
            return {"t": "failed", "message": message}


def show_round(event: Emitted) -> View:
    """One lane of the rounds view, and the text it added."""
    turn = event.round
    whole = turn.emitted == len(turn.tokens)
    decision = turn.budget.decision
    return {
        "t": "round",
        "i": turn.index,
        "d": [
            [drafted.text, fate, shorten(drafted.p), shorten(drafted.q)]
            for drafted, fate in zip(event.drafted, fates(turn), strict=True)
        ],
        "n": [event.next_text, MARKS[turn.origin], shorten(turn.next_p), whole],
        "k": marks(event.pieces),
        "s": event.text,
        **({"o": turn.proposer} if event.drafted else {}),
        **({"w": decision.why} if decision else {}),
        **({} if turn.tree.is_chain else {"b": turn.tree.parents}),
    }


def fates(turn: Round) -> tuple[str, ...]:
    """What became of each drafted node."""
    kept = set(turn.accepted_path)
    emitted = set(turn.accepted_path[: turn.emitted])
    result = []
    for node, parent in enumerate(turn.tree.parents):
        if node in kept:
            result.append("a" if node in emitted else "x")
        else:
            judged = parent == -1 or parent in kept
            result.append("r" if judged else "u")
    return tuple(result)


def marks(pieces: Iterable[Piece]) -> str:
    """Origin marks of emitted tokens; tokens without text of their own are left out."""
    lengths = ((MARKS[piece.origin], utf16_length(piece.text)) for piece in pieces)
    return " ".join(f"{origin}{length}" for origin, length in lengths if length)


def utf16_length(text: str) -> int:
    """The length as JavaScript counts."""
    return len(text) + sum(character > "\uffff" for character in text)


def shorten(probability: float | None) -> float | None:
    """Six significant digits are more than the page shows."""
    return None if probability is None else float(f"{probability:.6g}")


def numbers(statistics: Statistics) -> View:
    """The statistics as JSON, with the engine's own names."""
    return {
        **dataclasses.asdict(statistics),
        "tokens_per_s": statistics.tokens_per_s,
        "acceptance_rate": statistics.acceptance_rate,
        "mean_acceptance_length": statistics.mean_acceptance_length,
        "per_position": statistics.per_position,
    }


TOTALS = (
    "rounds",
    "drafted",
    "accepted",
    "completion_tokens",
    "tokens_per_s",
    "acceptance_rate",
    "mean_acceptance_length",
    "time_to_first_token_s",
)


def totals(statistics: View) -> View:
    """The figures that the page shows while a reply grows."""
    return {
        name: shorten(value) if isinstance(value := statistics[name], float) else value
        for name in TOTALS
    }


class Reply:
    """A reply that grows event by event: its text, marks, state and statistics."""

    def __init__(self) -> None:
        self.text = ""
        self.status = "running"
        self.error: str | None = None
        self._marks: list[str] = []
        self._tally = Tally()

    def add(self, event: Event) -> View:
        """Take the next event; returns what the page is to be told of it."""
        self._tally.add(event)
        match event:
            case Emitted():
                self.text += event.text
                added = marks(event.pieces)
                if added:
                    self._marks.append(added)
            case Finished():
                self.text = event.text
                self.status = STATUS[event.reason]
            case Failed():
                self.status = "failed"
                self.error = event.message
        return show(event)

    @property
    def marks(self) -> str:
        return " ".join(self._marks)

    @property
    def statistics(self) -> View:
        return numbers(self._tally.statistics())


def rounds(lines: Sequence[str]) -> tuple[list[View], View]:
    """A kept trace (JSON lines) as lanes and totals."""
    reply = Reply()
    shown = [reply.add(trace.from_json(json.loads(line))) for line in lines]
    return [view for view in shown if view["t"] == "round"], reply.statistics


def history(messages: Iterable[tuple[str, str]], system: str = "") -> tuple[Message, ...]:
    """The turns the model is given, from (role, text) pairs.

    A question whose reply never came to a word is left out: templates want roles to alternate.
    """
    turns: list[Message] = []
    for role, text in messages:
        if role == "assistant" and not text.strip():
            if turns and turns[-1].role == "user":
                turns.pop()
            continue
        turns.append(Message(role, text))
    if system.strip():
        turns.insert(0, Message("system", system.strip()))
    return tuple(turns)


@dataclasses.dataclass(frozen=True, slots=True)
class Runner:
    """What one side of a race did."""

    token_ids: tuple[int, ...]
    token_texts: tuple[str, ...]
    tokens_per_s: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """How a race ended. ``first_difference`` is (position, plain's token, the other's)."""

    speedup: float | None
    identical: bool
    first_difference: tuple[int, str, str] | None
    expected_identical: bool


def judge(plain: Runner, speculative: Runner, *, expected_identical: bool) -> Verdict:
    """Compare two runs of the same prompt."""
    speedup = None
    if plain.tokens_per_s and speculative.tokens_per_s:
        speedup = speculative.tokens_per_s / plain.tokens_per_s
    return Verdict(
        speedup,
        plain.token_ids == speculative.token_ids,
        first_difference(plain, speculative),
        expected_identical,
    )


def first_difference(one: Runner, other: Runner) -> tuple[int, str, str] | None:
    """Position and both tokens where two runs part; a run that ended has no token there."""
    if one.token_ids == other.token_ids:
        return None
    shared = min(len(one.token_ids), len(other.token_ids))
    position = next((i for i in range(shared) if one.token_ids[i] != other.token_ids[i]), shared)
    return position, _token(one, position), _token(other, position)


def _token(runner: Runner, position: int) -> str:
    return runner.token_texts[position] if position < len(runner.token_texts) else "(end)"
