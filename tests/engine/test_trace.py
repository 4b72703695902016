"""Traces: every event survives the way to a line of JSON and back; anything else is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import trace
from engine.errors import InvalidRequest
from engine.events import (
    Budget,
    Counted,
    Decision,
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
    Timing,
    Token,
    TopLogprob,
    Tree,
)

counts = st.integers(0, 10**6)
seconds = st.floats(0, 1e6)
chances = st.none() | st.floats(0, 1)
origins = st.sampled_from(Origin)
ids = st.lists(counts, max_size=4).map(tuple)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    size = draw(st.integers(0, 5))
    parents = tuple(draw(st.integers(-1, node - 1)) for node in range(size))
    return Tree(tuple(draw(counts) for _ in range(size)), parents)


decisions = st.builds(Decision, depth=counts, why=st.text(), needed=chances, expected=chances)
rounds = st.builds(
    Round,
    index=counts,
    proposer=st.text(max_size=5),
    budget=st.builds(
        Budget,
        depth=counts,
        nodes=counts,
        decision=st.none() | decisions,
        plain_s=st.none() | seconds,
    ),
    tree=trees(),
    accepted_path=ids,
    next_token=counts,
    origin=origins,
    p=st.lists(chances, max_size=4).map(tuple),
    q=st.lists(chances, max_size=4).map(tuple),
    next_p=chances,
    timing=st.builds(Timing, draft_s=seconds, verify_s=seconds, total_s=seconds),
    emitted=counts,
    top_tokens=st.lists(st.tuples(counts, st.floats(0, 1)), max_size=3).map(tuple),
)
tokens = st.builds(
    Token,
    id=counts,
    text=st.text(),
    start=counts,
    origin=st.none() | origins,
    p=chances,
    top_logprobs=st.lists(
        st.builds(TopLogprob, id=counts, text=st.text(), p=st.floats(0, 1)), max_size=2
    ).map(tuple),
)
counted = st.builds(
    Counted,
    prompt_tokens=st.none() | counts,
    accepted_at=ids,
    acceptance_length=st.none() | seconds,
    shared=st.booleans(),
)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Queued, ahead=counts),
    st.builds(Started, prompt_tokens=st.none() | ids, seed=st.none() | counts),
    st.builds(Prefilled, tokens=counts, reused=counts, seconds=seconds),
    st.builds(
        Emitted,
        text=st.text(),
        tokens=st.none() | st.lists(tokens, max_size=3).map(tuple),
        round=st.none() | rounds,
        drafted=st.lists(st.text(), max_size=3).map(tuple),
        next_text=st.text(),
        top_texts=st.lists(st.text(), max_size=3).map(tuple),
        at=st.none() | seconds,
    ),
    st.builds(
        Finished,
        reason=st.sampled_from(FinishReason),
        token_ids=st.none() | ids,
        counted=st.none() | counted,
        stop_string=st.none() | st.text(min_size=1, max_size=5),
    ),
    st.builds(Failed, wait_s=st.none() | st.floats(0.1, 99)),
)


@settings(max_examples=150, deadline=None)
@given(kept=st.lists(events, max_size=4))
def test_events_survive_the_way_to_json_lines_and_back(kept: list[Event]) -> None:
    lines = [trace.to_line(event) for event in kept]
    assert not any("\n" in line for line in lines)
    assert list(trace.read(lines)) == kept


def test_every_event_says_its_type() -> None:
    assert trace.to_json(Queued(2)) == {"v": 4, "type": "queued", "ahead": 2}
    assert trace.to_json(Failed("no")) == {"v": 4, "type": "failed", "message": "no"}


@pytest.mark.parametrize(
    "value",
    [
        {"v": 4},
        {"v": 4, "type": "round"},
        {"v": 4, "type": "queued"},
        {"v": 4, "type": "queued", "ahead": 1, "behind": 2},
        {"v": 4, "type": "finished", "reason": "bored", "tail": "", "text": "", "token_ids": []},
        {"v": 4, "type": "emitted", "round": {}},
        {"v": 4, "type": "emitted", "text": "", "tokens": [], "drafted": [], "round": None},
        {"v": 0, "type": "queued", "ahead": 1},
        {"v": "two", "type": "queued", "ahead": 1},
        {"v": 4, "type": "started", "prompt_tokens": 5},
        {"v": 4, "type": "queued", "ahead": True},
        {"v": 4, "type": "failed", "message": ["a"]},
        {"v": 4, "type": "prefilled", "tokens": 1, "reused": 0, "seconds": "1"},
        {"v": 4, "type": "prefilled", "tokens": 1, "reused": 0, "seconds": float("nan")},
        {"v": 4, "type": "prefilled", "tokens": 1, "reused": 0, "seconds": float("inf")},
        {"v": 4, "type": "prefilled", "tokens": 10**99, "reused": 0, "seconds": 1},
        {"v": 4, "type": "finished", "reason": "stop", "tail": "", "text": "", "token_ids": ["a"]},
        [1, 2],
        "queued",
        None,
    ],
    ids=str,
)
def test_what_is_no_event_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="not an event of a trace") as caught:
        trace.from_json(value)
    assert caught.value.field == "trace"


def test_a_line_that_is_no_json_is_refused_with_its_number() -> None:
    lines = [json.dumps(trace.to_json(Queued(1))), "", '{"type": "que']
    with pytest.raises(InvalidRequest, match="Line 3"):
        list(trace.read(lines))


def test_other_versions_are_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidRequest, match="Update Foretoken"):
        trace.from_json({"v": trace.VERSION + 1, "type": "queued", "ahead": 1})
    for older in ({"v": 3}, {}):  # the first form named no version
        with pytest.raises(InvalidRequest, match="an older version"):
            trace.from_json({**older, "type": "queued", "ahead": 1})
