"""What a model is given of a chat."""

from __future__ import annotations

from app.storage.history import TextFile, history, with_files
from engine.values.messages import Message


def test_a_question_that_was_never_answered_leaves_the_history() -> None:
    pairs = [("user", "a"), ("assistant", ""), ("user", "b"), ("assistant", "B"), ("user", "c")]
    turns = history([Message(*pair) for pair in pairs], " Be kind. ")
    assert [(t.role, t.content) for t in turns] == [
        ("system", "Be kind."),
        ("user", "b"),
        ("assistant", "B"),
        ("user", "c"),
    ]


def test_a_question_whose_reply_was_deleted_leaves_the_history() -> None:
    pairs = [("user", "a"), ("user", "b"), ("assistant", "B"), ("user", "c")]
    turns = history([Message(*pair) for pair in pairs])
    assert [t.content for t in turns] == ["b", "B", "c"]


def test_files_stand_before_the_message_in_fences_longer_than_their_own() -> None:
    files = (TextFile("a.md", "```py\nx\n````\n"), TextFile("b.txt", "two\n"))
    whole = "a.md\n`````\n```py\nx\n````\n`````\n\nb.txt\n```\ntwo\n```"
    assert with_files("Compare.", files) == f"{whole}\n\nCompare."
    assert with_files(" ", files) == whole
    assert with_files("Hi", ()) == "Hi"
