"""A trace that an earlier build wrote still reads the same (tests/data/README.md).

If it does not, the form has changed: raise ``VERSION`` in ``engine/trace.py``.
"""

from __future__ import annotations

import json
from typing import Any

from app.ui.rounds import view
from engine import trace
from engine.events import Emitted, Event, FinishReason, Origin, Started
from engine.reply import ReplyState
from tests.support.places import ROOT

TRACE = ROOT / "tests" / "data" / "trace.jsonl"
EXPECTED: dict[str, Any] = json.loads(
    (ROOT / "tests" / "data" / "trace.expected.json").read_text(encoding="utf-8")
)


def as_stored(reply: ReplyState) -> dict[str, Any]:
    """What the store keeps of a reply; through JSON, as there."""
    kept: dict[str, Any] = json.loads(
        json.dumps(
            {
                "text": reply.text,
                "marks": view.marks(reply.tokens or ()),
                "status": view.status(reply),
                "statistics": view.numbers(reply.statistics),
            }
        )
    )
    return kept


def replies() -> list[list[Event]]:
    """Return the events of each reply of the stored trace."""
    found: list[list[Event]] = []
    with TRACE.open(encoding="utf-8") as lines:
        for event in trace.read(lines):
            if isinstance(event, Started):
                found.append([])
            found[-1].append(event)
    return found


def folded(events: list[Event]) -> ReplyState:
    reply = ReplyState()
    for event in events:
        reply.add(event)
    return reply


def test_a_stored_trace_gives_the_same_text_marks_and_statistics() -> None:
    for events, (name, before) in zip(replies(), EXPECTED.items(), strict=True):
        found = as_stored(folded(events))
        assert found["statistics"].items() >= before["statistics"].items(), name
        assert found | {"statistics": None} == before | {"statistics": None}, name


def test_a_stored_trace_holds_what_it_is_kept_for() -> None:
    """Otherwise the test above would prove less than it says."""
    names = EXPECTED
    states = dict(zip(names, replies(), strict=True))
    rounds = {
        name: [e.round for e in events if isinstance(e, Emitted) and e.round]
        for name, events in states.items()
    }
    assert any(not turn.tree.is_chain for turn in rounds["tree"])
    assert any(turn.budget.decision for turn in rounds["auto"])
    assert {turn.origin for turn in rounds["stop"]} == {Origin.CORRECTION, Origin.BONUS}
    assert folded(states["stop"]).reason is FinishReason.STOP
    assert folded(states["cancelled"]).reason is FinishReason.CANCELLED


def test_tokens_of_a_stored_trace_know_their_places() -> None:
    for events in replies():
        reply = folded(events)
        assert reply.tokens
        joined = "".join(token.text for token in reply.tokens)
        assert joined.startswith(reply.text)
        for token in reply.tokens:
            assert joined[token.start : token.start + len(token.text)] == token.text


def test_a_stored_trace_written_again_is_the_same() -> None:
    for events in replies():
        assert list(trace.read(map(trace.to_line, events))) == events
