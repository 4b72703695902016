"""Events folded into what the pages show."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.ui.rounds import view
from engine import trace
from engine.events import (
    Budget,
    Decision,
    Emitted,
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
    Tree,
)
from engine.reply import ReplyState

TIMING = Timing(0.01, 0.02, 0.04)


def turn(tree: Tree, accepted: tuple[int, ...], emitted: int | None = None) -> Round:
    whole = len(accepted) + 1
    origin = Origin.BONUS if len(accepted) == len(tree) else Origin.CORRECTION
    none = (None,) * len(tree)
    return Round(
        0, "draft", Budget(4, 4), tree, accepted, 9, origin, none, none, 0.5, TIMING,
        whole if emitted is None else emitted,
    )  # fmt: skip


def emitted(words: list[str], accepted: int, next_text: str) -> Emitted:
    the_round = turn(Tree.chain(range(len(words))), tuple(range(accepted)))
    tokens, start = [], 0
    for i in range(accepted):
        tokens.append(Token(i, words[i], start, Origin.DRAFT, 0.5))
        start += len(words[i])
    tokens.append(Token(9, next_text, start, the_round.origin, 0.5))
    text = "".join(token.text for token in tokens)
    return Emitted(
        text=text,
        tokens=tuple(tokens),
        round=replace(the_round, p=(0.25,) * len(words), q=(0.75,) * len(words)),
        drafted=tuple(words),
        next_text=next_text,
    )


def test_what_stands_behind_the_first_rejection_was_not_judged():
    assert view.fates(turn(Tree.chain([1, 2, 3, 4]), (0, 1))) == ("a", "a", "r", "u")


def test_in_a_tree_the_siblings_of_the_accepted_path_were_rejected():
    tree = Tree((1, 2, 3, 4, 5), (-1, -1, 0, 0, 3))
    assert view.fates(turn(tree, (0, 2))) == ("a", "r", "a", "r", "u")


def test_accepted_tokens_behind_the_end_of_the_reply_are_told_apart():
    assert view.fates(turn(Tree.chain([1, 2, 3]), (0, 1, 2), emitted=1)) == ("a", "x", "x")


def test_a_round_carries_chips_marks_and_text():
    shown = view.show(emitted([" a", " b", " c"], 1, " d"))
    assert shown == {
        "t": "round",
        "i": 0,
        "d": [[" a", "a", 0.25, 0.75], [" b", "r", 0.25, 0.75], [" c", "u", 0.25, 0.75]],
        "n": [" d", "c", 0.5, True],
        "k": "a2 c2",
        "o": "Draft model",
        "s": " a d",
        "g": 4,
        "c": [0.01, 0.02, 0.04],
    }


def test_a_round_that_drafted_a_tree_tells_the_parents():
    tree = Tree((1, 2, 3), (-1, -1, 0))
    shown = view.show(Emitted(text=" d", round=turn(tree, ()), drafted=(" x",) * 3, next_text=" d"))
    assert shown["b"] == (-1, -1, 0)
    assert "b" not in view.show(emitted([" a", " b"], 1, " d"))


def test_a_round_tells_the_target_s_likeliest_and_a_decision_with_its_depth():
    event = emitted([" a"], 0, " b")
    decision = Decision(3, "it pays", 0.5, 0.7)
    told = replace(
        event,
        top_texts=(" b", " a"),
        round=replace(
            event.round, top_tokens=((9, 0.41), (0, 0.26)), budget=Budget(4, 4, decision)
        ),
    )
    shown = view.show(told)
    assert shown["l"] == [[" b", 0.41], [" a", 0.26]]
    assert shown["w"] == ["it pays", 3]
    assert not {"l", "w"} & view.show(event).keys()
    reply = ReplyState()
    reply.add(told)
    totals = view.totals(reply)
    assert (totals["needed"], totals["expected"]) == (0.5, 0.7)
    assert totals == view.stored_totals(json.loads(json.dumps(view.numbers(reply.statistics))))


def test_marks_count_as_javascript_does_and_leave_out_tokens_without_text():
    tokens = [
        Token(1, "😀", 0, Origin.DRAFT),
        Token(2, "", 1, Origin.DRAFT),
        Token(3, "é", 1, Origin.BONUS),
        Token(4, "漢字", 2),
    ]
    assert view.marks(tokens) == "a2 b1 n2"


@given(st.text())
def test_utf16_length_is_that_of_the_encoding(text):
    assert view.utf16_length(text) == len(text.encode("utf-16-le", "surrogatepass")) // 2


def test_every_event_can_be_shown_as_json():
    events = [
        Queued(1),
        Started("m", "draft", "greedy", (1, 2, 3)),
        Prefilled(3, 1, 0.1),
        emitted(["a"], 1, "b"),
        Finished(FinishReason.STOP, "", "ab", (0, 9)),
        Failed("why"),
    ]
    kinds = [json.loads(json.dumps(view.show(event)))["t"] for event in events]
    assert kinds == ["queued", "started", "prefilled", "round", "finished", "failed"]


def test_an_engine_that_tells_text_alone_is_shown_without_marks_and_lanes():
    assert view.show(Emitted(text="Hi")) == {"t": "text", "k": "", "s": "Hi"}
    reply = ReplyState()
    for event in (Started("m", "-", "-", None, None), Emitted(text="Hi")):
        reply.add(event)
        json.dumps(view.show(event))
    assert view.status(reply) == "running"
    assert view.totals(reply)["tokens_per_s"] is None
    reply.add(Finished(FinishReason.STOP, "!", "Hi!", None))
    assert (reply.text, view.status(reply), reply.tokens, reply.token_ids) == (
        "Hi!",
        "done",
        None,
        None,
    )


def test_a_failure_is_stored_as_one():
    reply = ReplyState()
    reply.add(Failed("out of memory"))
    assert (view.status(reply), reply.error) == ("failed", "out of memory")


def test_a_kept_trace_gives_the_same_lanes_and_totals():
    events = [emitted(["a", "b"], 1, "c"), emitted(["d"], 1, "e"), Emitted(text="f")]
    shown, totals = view.rounds([trace.to_line(event) for event in events])
    assert shown == [view.show(event) for event in events[:2]]
    assert totals["accepted"] == 2
