"""What a model is given of a chat."""

from __future__ import annotations

from app.storage.attachments import Attachment, with_files
from app.storage.rows import history
from engine.values.messages import Image, Message
from engine.values.tools import ToolCall


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


def test_a_question_after_results_without_a_reply_joins_the_one_before() -> None:
    """A note of ours stood there as a reply, and the model copied it."""
    asked = Message("user", "a", images=(Image(b"1"),))
    calls = Message("assistant", "", (ToolCall("1", "add", "{}"),))
    result = Message("tool", "2", tool_call_id="1")
    more = Message("user", "b", images=(Image(b"2"),))
    joined = Message("user", "a\n\nb", images=(Image(b"1"), Image(b"2", place=3)))
    assert history([asked, calls, result, Message("assistant", ""), more]) == (
        joined,
        calls,
        result,
    )
    assert history([calls, result, more]) == (more, calls, result)


def test_files_stand_before_the_message_in_fences_longer_than_their_own() -> None:
    files = (Attachment("a.md", "```py\nx\n````\n"), Attachment("b.txt", "two\n"))
    whole = "a.md\n`````\n```py\nx\n````\n`````\n\nb.txt\n```\ntwo\n```"
    assert with_files("Compare.", files) == f"{whole}\n\nCompare."
    assert with_files(" ", files) == whole
    assert with_files("Hi", ()) == "Hi"
