"""Replies being written: everything reaches feed and store, in one thread that ends with the last."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.storage.rows import StoredCall, StoredCalls
from app.storage.store import Store
from app.ui import replies
from app.ui.endpoints import View
from app.ui.replies import LiveReplies, LiveReply
from engine import trace
from engine.api import Generation
from engine.events import Emitted, Event, Failed, Finished, FinishReason, Started
from engine.request import Request
from tests.app.test_store_damage import fill, make_room

START = Started("m", "none", "greedy", (1,))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path)
    yield found
    found.close()


def begun(store: Store, writings: LiveReplies) -> tuple[Generation, LiveReply]:
    """A reply that is told by hand."""
    chat = store.new_chat()
    _, message = store.begin_turn(chat, "Hi", keep=None)
    generation = Generation(Request(prompt="Hi"), lambda generation: None)
    return generation, writings.start(generation, chat, message)


def ended(text: str) -> Finished:
    return Finished(FinishReason.STOP, "", text, None)


def whole(writing: LiveReply) -> View:
    """What the page is told of it, once its feed is closed: shortly after it is done."""
    while not (packet := writing.feed.packet(0))["done"]:
        time.sleep(0.01)
    return packet


def kinds(writing: LiveReply) -> list[str]:
    return [event["t"] for event in writing.feed.packet(0)["events"]]


def test_many_replies_are_written_by_one_thread_that_ends_with_the_last(store: Store) -> None:
    before = set(threading.enumerate())  # another test's may still be ending
    writings = LiveReplies(store)
    growing = [begun(store, writings) for _ in range(5)]
    now = set(threading.enumerate()) - before
    threads = [thread for thread in now if thread.name == "replies"]
    assert len(threads) == 1
    for generation, _ in growing:
        generation.publish(START)
    for number, (generation, _) in enumerate(growing):
        generation.publish(Emitted(text=f"Reply {number}"))
        generation.publish(ended(f"Reply {number}"))
    for number, (_, writing) in enumerate(growing):
        assert writing.done.wait(20)
        message = store.messages(writing.chat)[-1]
        assert (message.text, message.status) == (f"Reply {number}", "done")
        told: list[Event] = list(trace.read(store.trace(writing.message)))
        assert told == [START, Emitted(text=f"Reply {number}"), ended(f"Reply {number}")]
    threads[0].join(20)
    assert not threads[0].is_alive()
    generation, writing = begun(store, writings)  # the next reply gets a new one
    generation.publish(ended(""))
    assert writing.done.wait(20)


def test_text_is_stored_though_the_next_event_is_long_in_coming(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = threading.Event()
    save = store.save_reply

    def observed(*arguments: object, **values: object) -> None:
        save(*arguments, **values)  # type: ignore[arg-type]
        if values["text"] == "Once":
            saved.set()

    monkeypatch.setattr(store, "save_reply", observed)
    monkeypatch.setattr(replies, "SAVE_PERIOD", 0.05)
    generation, writing = begun(store, LiveReplies(store))
    generation.publish(START)
    generation.publish(Emitted(text="Once"))
    assert saved.wait(20)
    assert not writing.done.is_set()
    generation.publish(ended("Once"))
    assert writing.done.wait(20)


def test_a_reply_that_cannot_be_stored_ends_in_words_and_others_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    writings = LiveReplies(store)
    lost, writing = begun(store, writings)
    other, beside = begun(store, writings)
    save = store.save_reply

    def failing(message: int, **values: object) -> None:
        if message == writing.message:
            raise OSError("disk full")
        save(message, **values)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "save_reply", failing)
    lost.publish(Emitted(text="gone"))
    lost.publish(ended("gone"))
    assert writing.done.wait(20)
    assert lost.cancelled
    assert whole(writing)["events"][-1]["t"] == "failed"
    other.publish(ended("kept"))
    assert beside.done.wait(20)
    assert kinds(beside) == ["finished"]


def test_the_first_words_are_stored_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six of seven replies whose app was killed kept none."""
    monkeypatch.setattr(replies, "SAVE_PERIOD", 3600.0)
    saved: queue.SimpleQueue[str] = queue.SimpleQueue()
    save = store.save_reply

    def observed(*arguments: object, **values: object) -> None:
        save(*arguments, **values)  # type: ignore[arg-type]
        saved.put(str(values["text"]))

    monkeypatch.setattr(store, "save_reply", observed)
    generation, writing = begun(store, LiveReplies(store))
    generation.publish(START)
    generation.publish(Emitted(text="First"))
    assert saved.get(timeout=20) == "First"
    assert store.messages(writing.chat)[-1].text == "First"
    generation.publish(Emitted(text=" second"))
    generation.publish(ended("First second"))
    assert writing.done.wait(20)
    assert saved.get(timeout=20) == "First second"  # not one write for each piece


def test_a_disk_that_is_full_in_mid_reply_ends_it_in_words_and_the_chat_goes_on(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """The chat once took no message until the app was started again."""
    writings = LiveReplies(store)
    generation, writing = begun(store, writings)
    generation.publish(START)
    fill(store)
    for _ in range(40):
        generation.publish(Emitted(text="word " * 4000))
    generation.publish(ended("word " * 160_000))
    assert writing.done.wait(20)
    assert writings.of_chat(writing.chat) is None
    assert "a reply failed: The disk is full" in caplog.text
    assert not any(record.exc_info for record in caplog.records)  # no traceback on the terminal
    told = whole(writing)
    assert "disk is full" in told["events"][-1]["message"]
    # Whoever opens the chat now once saw it running for ever, with its first words.
    shown = writings.now(store.messages(writing.chat)[-1])
    assert (shown.status, shown.error) == ("failed", told["events"][-1]["message"])
    assert len(shown.text) > len(store.messages(writing.chat)[-1].text)
    make_room(store)
    _, message = store.begin_turn(writing.chat, "And now?", keep=None)
    another = Generation(Request(prompt="Hi"), lambda generation: None)
    following = writings.start(another, writing.chat, message)
    another.publish(ended("Now it does."))
    assert following.done.wait(20)
    cut, _, last = store.messages(writing.chat)[-3:]
    assert (cut.status, last.status) == ("failed", "done")  # what could not be stored then, is now
    assert cut.text.startswith("word word")


def test_what_a_full_disk_did_not_take_is_stored_when_the_app_ends(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    writings = LiveReplies(store)
    generation, writing = begun(store, writings)
    fill(store)
    generation.publish(Emitted(text="word " * 40_000))
    generation.publish(ended("word " * 40_000))
    assert writing.done.wait(20)
    make_room(store)
    writings.close()
    assert store.messages(writing.chat)[-1].text == "word " * 40_000


def test_a_reply_that_nobody_writes_any_more_is_shown_as_interrupted(store: Store) -> None:
    writings = LiveReplies(store)
    _, reply = store.begin_turn(store.new_chat("Hi"), "Hello?", keep=None)
    left = store.messages(1)[-1]
    assert (left.id, left.status, writings.now(left).status) == (reply, "running", "interrupted")
    forked = store.messages(store.fork(1, reply, " (fork)") or 0)[-1]
    assert (forked.status, writings.now(forked).status) == ("running", "interrupted")


def test_a_reply_of_an_app_that_came_later_is_running(store: Store) -> None:
    """A page of the first app offered to continue it, and both then wrote one reply."""
    writings, later = LiveReplies(store), Store(store._file.parent, alone=False)
    call = StoredCall("1", "add", "{}", state="running")
    with closing(later):
        _, reply = later.begin_turn(later.new_chat("Hi"), "Hello?", keep=None)
        later.save_calls(reply, StoredCalls(0, (call,)))
    left = store.messages(1)[-1]
    assert writings.now(left) == left
    now = LiveReplies(store, lambda: False).now(left)  # that app was killed
    assert (now.status, now.calls) == ("interrupted", StoredCalls(0, (call.interrupted(),)))


def test_what_replies_have_is_stored_when_the_app_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "SAVE_PERIOD", 3600.0)
    monkeypatch.setattr(replies, "CLOSING_S", 0.2)
    writings = LiveReplies(store)
    generation, writing = begun(store, writings)
    generation.publish(Emitted(text="Half"))
    generation.publish(Emitted(text=" a reply"))
    writings.close()  # the engine does not answer in time
    assert generation.cancelled
    kept = store.messages(writing.chat)[-1]
    assert (kept.text, kept.status) == ("Half a reply", "running")
    generation.publish(Finished(FinishReason.CANCELLED, "", "Half a reply", None))
    assert writing.done.wait(20)


def test_a_save_that_fails_leaves_no_gap_in_the_trace(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    save, failures = store.save_reply, iter([OSError("disk full")])

    def failing_once(*arguments: object, **values: object) -> None:
        for failure in failures:
            raise failure
        save(*arguments, **values)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "save_reply", failing_once)
    monkeypatch.setattr(replies, "SAVE_PERIOD", 0.0)
    generation, writing = begun(store, LiveReplies(store))
    generation.publish(START)
    assert writing.done.wait(20)
    first, last = trace.read(store.trace(writing.message))
    assert first == START
    assert isinstance(last, Failed) and "disk full" in last.message


def test_a_reply_that_had_begun_before_is_written_from_its_first_event_on(store: Store) -> None:
    generation = Generation(Request(prompt="Hi"), lambda generation: None)
    for event in (START, Emitted(text="All"), ended("All")):
        generation.publish(event)
    chat = store.new_chat()
    _, message = store.begin_turn(chat, "Hi", keep=None)
    writing = LiveReplies(store).start(generation, chat, message)
    assert writing.done.wait(20)
    assert kinds(writing) == ["started", "text", "finished"]
