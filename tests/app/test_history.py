"""What a model is given of a chat."""

from __future__ import annotations

from app.history import history


def test_a_question_that_was_never_answered_leaves_the_history() -> None:
    pairs = [("user", "a"), ("assistant", ""), ("user", "b"), ("assistant", "B"), ("user", "c")]
    turns = history(pairs, " Be kind. ")
    assert [(t.role, t.content) for t in turns] == [
        ("system", "Be kind."),
        ("user", "b"),
        ("assistant", "B"),
        ("user", "c"),
    ]
