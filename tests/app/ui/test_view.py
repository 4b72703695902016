"""Events folded into what the pages show."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from app.ui import view
from app.ui.view import Runner
from engine import trace
from engine.events import (
    Budget,
    Drafted,
    Emitted,
    Failed,
    Finished,
    FinishReason,
    Origin,
    Piece,
    Prefilled,
    Queued,
    Round,
    Started,
    Timing,
    Tree,
)

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
    pieces = [Piece(i, words[i], Origin.DRAFT, 0.5) for i in range(accepted)]
    pieces.append(Piece(9, next_text, the_round.origin, 0.5))
    drafted = tuple(Drafted(i, word, i < accepted, 0.25, 0.75) for i, word in enumerate(words))
    text = "".join(piece.text for piece in pieces)
    return Emitted(the_round, tuple(pieces), drafted, next_text, text)


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
        "o": "draft",
        "s": " a d",
    }


def test_a_round_that_drafted_a_tree_tells_the_parents():
    tree = Tree((1, 2, 3), (-1, -1, 0))
    drafted = tuple(Drafted(node, " x", False, None, 0.5) for node in range(3))
    shown = view.show(Emitted(turn(tree, ()), (), drafted, " d", " d"))
    assert shown["b"] == (-1, -1, 0)
    assert "b" not in view.show(emitted([" a", " b"], 1, " d"))


def test_marks_count_as_javascript_does_and_leave_out_tokens_without_text():
    pieces = [
        Piece(1, "😀", Origin.DRAFT, None),
        Piece(2, "", Origin.DRAFT, None),
        Piece(3, "é", Origin.BONUS, None),
    ]
    assert view.marks(pieces) == "a2 b1"


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


def test_a_reply_folds_to_text_marks_state_and_statistics():
    reply = view.Reply()
    reply.add(Started("m", "draft", "greedy", (1, 2, 3)))
    reply.add(emitted(["a", "b"], 1, "c"))
    assert reply.status == "running"
    reply.add(emitted(["d"], 1, "e"))
    reply.add(Finished(FinishReason.LENGTH, "!", "acde!", (0, 9, 0, 9)))
    assert (reply.text, reply.marks, reply.status) == ("acde!", "a1 c1 a1 b1", "length")
    totals = view.totals(reply.statistics)
    assert totals["rounds"] == 2
    assert totals["drafted"] == 3
    assert totals["accepted"] == 2
    assert totals["mean_acceptance_length"] == 2
    assert totals["completion_tokens"] == 4


def test_a_failure_keeps_its_message():
    reply = view.Reply()
    reply.add(Failed("out of memory"))
    assert (reply.status, reply.error) == ("failed", "out of memory")


def test_a_kept_trace_gives_the_same_lanes_and_totals():
    events = [emitted(["a", "b"], 1, "c"), emitted(["d"], 1, "e")]
    lines = [json.dumps(trace.to_json(event)) for event in events]
    shown, statistics = view.rounds(lines)
    assert shown == [view.show(event) for event in events]
    assert statistics["accepted"] == 2


def test_a_question_that_was_never_answered_leaves_the_history():
    pairs = [("user", "a"), ("assistant", ""), ("user", "b"), ("assistant", "B"), ("user", "c")]
    turns = view.history(pairs, " Be kind. ")
    assert [(t.role, t.content) for t in turns] == [
        ("system", "Be kind."),
        ("user", "b"),
        ("assistant", "B"),
        ("user", "c"),
    ]


def test_equal_runs_have_no_first_difference():
    run = Runner((1, 2), ("a", "b"), 10.0)
    fast = Runner((1, 2), ("a", "b"), 25.0)
    verdict = view.judge(run, fast, expected_identical=True)
    assert (verdict.speedup, verdict.identical, verdict.first_difference) == (2.5, True, None)


def test_the_first_difference_names_both_tokens():
    one = Runner((1, 2, 3), ("a", "b", "c"), 10.0)
    assert view.first_difference(one, Runner((1, 4), ("a", "x"), None)) == (1, "b", "x")
    assert view.first_difference(one, Runner((1, 2), ("a", "b"), None)) == (2, "c", "(end)")


def test_a_race_without_speeds_has_no_speedup():
    run = Runner((), (), None)
    assert view.judge(run, run, expected_identical=True).speedup is None
