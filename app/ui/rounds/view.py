"""The form of a reply that the pages' scripts read: a projection of the engine's events.

Pure: no Gradio, no database, no clock. Live replies, kept ones and races are all told in this form; keys
are short because one object goes out for every round.

    queued     ahead
    started    model, proposer, acceptance, prompt (tokens; null: unknown)
    prefilled  tokens, reused, seconds
    round      i, d: [[text, fate, p, q], ...], n: [text, origin, p, emitted], k: marks, s: text,
               g: how far it might draft, c: seconds of [drafting, verifying, all of it],
               l: the target's likeliest in the place of n, [[text, p], ...], where told,
               o: who drafted, where anything was drafted,
               w: what the controller decided, [why, depth], where it changed its mind,
               b: the parent of each of d (-1: the text), where they are not a single chain
    text       k: marks, s: text; from an engine that shows no rounds
    finished   reason, tail
    failed     message
    calls      at, limit, calls: what became of the calls of tools, each time one changes
    next       run, message: the reply to the results began

A fate is ``a`` accepted, ``x`` accepted behind the end of the reply, ``r`` rejected, ``u`` unseen
(behind a rejected one). Marks are the lengths and origins of the emitted tokens, ``a4 a3 c5``: ``a``
drafted, ``c`` correction, ``b`` bonus, ``n`` not told. They leave out no token that has text, so each
begins where the lengths before it end. Lengths are in UTF-16 units, as JavaScript counts; events count
characters, and this is where the one becomes the other.

The store has ``marks``, ``status`` and ``numbers``: a change of these is one of ``VERSION`` in
``app/storage/schema.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from app.ui.endpoints import View, shorten
from engine import trace
from engine.events import (
    Emitted,
    Event,
    Failed,
    Finished,
    FinishReason,
    Origin,
    Prefilled,
    Queued,
    Round,
    Started,
    Token,
)
from engine.reply import ReplyState
from engine.stats import Statistics
from engine.thoughts import Thoughts
from engine.values.method_titles import method_title

MARKS = {Origin.DRAFT: "a", Origin.CORRECTION: "c", Origin.BONUS: "b", None: "n"}
STATUS = {
    FinishReason.STOP: "done",
    FinishReason.LENGTH: "length",
    FinishReason.CANCELLED: "cancelled",
}


def show(event: Event) -> View:
    """Return one event as the page reads it."""
    match event:
        case Queued(ahead):
            return {"t": "queued", "ahead": ahead}
        case Started(model, proposer, acceptance, prompt):
            return {
                "t": "started",
                "model": model,
                "proposer": proposer,
                "acceptance": acceptance,
                "prompt": None if prompt is None else len(prompt),
            }
        case Prefilled(tokens, reused, seconds):
            return {"t": "prefilled", "tokens": tokens, "reused": reused, "seconds": seconds}
        case Emitted():
            if event.round is not None:
                return show_round(event, event.round)
            return {"t": "text", "k": marks(event.tokens or ()), "s": event.text}
        case Finished(reason, tail):
            return {"t": "finished", "reason": str(reason), "tail": tail}
        case Failed(message):
            return {"t": "failed", "message": message}


def show_round(event: Emitted, turn: Round) -> View:
    """Return one round, with the text it added."""
    whole = turn.emitted == len(turn.tokens)
    decision, timing = turn.budget.decision, turn.timing
    return {
        "t": "round",
        "i": turn.index,
        "d": [
            [text, fate, shorten(p), shorten(q)]
            for text, fate, p, q in zip(event.drafted, fates(turn), turn.p, turn.q, strict=True)
        ],
        "n": [event.next_text, MARKS[turn.origin], shorten(turn.next_p), whole],
        "k": marks(event.tokens or ()),
        "s": event.text,
        "g": turn.budget.depth,
        "c": [shorten(timing.draft_s), shorten(timing.verify_s), shorten(timing.total_s)],
        **({"l": top_tokens(event, turn)} if event.top_texts else {}),
        **({"o": method_title(turn.proposer)} if event.drafted else {}),
        **({"w": [decision.why, decision.depth]} if decision else {}),
        **({} if turn.tree.is_chain else {"b": turn.tree.parents}),
    }


def top_tokens(event: Emitted, turn: Round) -> list[list[Any]]:
    """Return the target's top tokens by their texts."""
    pairs = zip(event.top_texts, turn.top_tokens, strict=True)
    return [[text, shorten(p)] for text, (_, p) in pairs]


def fates(turn: Round) -> tuple[str, ...]:
    """Return the fate of each drafted node."""
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


def marks(tokens: Iterable[Token]) -> str:
    """Return the origin marks of emitted tokens, without tokens that have no text."""
    lengths = ((MARKS[token.origin], utf16_length(token.text)) for token in tokens)
    return " ".join(f"{origin}{length}" for origin, length in lengths if length)


def utf16_length(text: str) -> int:
    """Return the length as JavaScript counts it."""
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)


def numbers(statistics: Statistics) -> View:
    """Return the statistics as JSON, with the engine's own names."""
    return {
        **dataclasses.asdict(statistics),
        "tokens_per_s": statistics.tokens_per_s,
        "acceptance_rate": statistics.acceptance_rate,
        "mean_acceptance_length": statistics.mean_acceptance_length,
        "per_position": statistics.per_position,
        "plain_tokens_per_s": statistics.plain_tokens_per_s,
        "speedup": statistics.speedup,
    }


def predicted(reply: ReplyState) -> View | None:
    """Return how many tokens were drafted from a predicted reply, and accepted; None if none was."""
    if not reply.predicted_drafted:
        return None
    return {"drafted": reply.predicted_drafted, "accepted": reply.predicted_accepted}


TOTALS = (
    "rounds", "drafted", "accepted", "prompt_tokens", "completion_tokens", "tokens_per_s",
    "plain_tokens_per_s", "speedup", "acceptance_rate", "mean_acceptance_length",
    "time_to_first_token_s", "late_prefill_s", "shared",
)  # fmt: skip


def thought(
    text: str, where: Thoughts, seconds: float | None, tokens: int | None = None
) -> View | None:
    """Return where a reply's thought stands in ``text`` and where its answer begins; None without a
    thought.

    Both ends are None while the model still thinks. ``tokens``: how many it has, if that is known.
    """
    if where.begin == where.end and where.closed:
        return None
    places = (where.end, where.start) if where.closed else (None, None)
    begin, end, answer = (
        None if each is None else utf16_length(text[:each]) for each in (where.begin, *places)
    )
    return {
        "from": begin,
        "to": end,
        "answer": answer,
        "seconds": shorten(seconds),
        "tokens": tokens,
    }


def thought_of(reply: ReplyState) -> View | None:
    """Return the same of a reply that is written."""
    return thought(reply.text, reply.thoughts, reply.thought_s, reply.thought_tokens or None)


def stored_thought(reply: ReplyState) -> View | None:
    """Return what is stored of a thought beside the text that holds it; None without one."""
    seconds, tokens = reply.thought_s, reply.thought_tokens or None
    return (
        None
        if seconds is None
        else {"opened": reply.thinking, "seconds": seconds, "tokens": tokens}
    )


def totals(reply: ReplyState) -> View:
    """Return the statistics that the page shows while a reply grows.

    Beside the figures: ``predicted``; ``needed``, the acceptance from which drafting pays, and
    ``expected``, that of the next drafts, as the controller last said (see ``Decision``).
    """
    statistics = reply.statistics
    named = {name: getattr(statistics, name) for name in TOTALS}
    said = statistics.decision
    decision = None if said is None else {"needed": said.needed, "expected": said.expected}
    return stored_totals({**named, "decision": decision, "predicted": predicted(reply)})


def stored_totals(statistics: View) -> View:
    """Return the same of stored ``numbers``."""
    shown = {
        name: shorten(value) if isinstance(value := statistics.get(name), float) else value
        for name in TOTALS
    }
    decision = statistics.get("decision") or {}
    said = {"needed": decision.get("needed"), "expected": decision.get("expected")}
    kept = {name: statistics.get(name) for name in ("predicted", "turn")}
    kept |= {"full": bool(statistics.get("full"))}
    return {**shown, **said, **kept}


TURN = (
    "rounds", "drafted", "accepted", "completion_tokens", "decode_s", "tokens_per_s", "speedup",
    "acceptance_rate",
)  # fmt: skip


def turn_totals(statistics: Statistics) -> View:
    """Return the figures of a turn of several replies, which called tools."""
    return {name: getattr(statistics, name) for name in TURN}


def statistics_of(stored: View) -> Statistics:
    """Return a reply's statistics from its stored ``numbers``."""
    known = {each.name for each in dataclasses.fields(Statistics)} - {"decision", "accepted_at"}
    values = {name: value for name, value in stored.items() if name in known}
    return Statistics(**values, accepted_at=tuple(stored.get("accepted_at") or ()))


def status(reply: ReplyState) -> str:
    """Return a reply's stored status; see ``app.storage.store``."""
    if reply.error is not None:
        return "failed"
    return "running" if reply.reason is None else STATUS[reply.reason]


def rounds(lines: Sequence[str]) -> tuple[list[View], View]:
    """Return a stored trace as rounds and totals."""
    reply, lanes = ReplyState(), []
    for event in trace.read(lines):
        reply.add(event)
        if isinstance(event, Emitted) and event.round is not None:
            lanes.append(show(event))
    return lanes, totals(reply)
