"""Feeds: everything once, from any index, as soon as there is something."""

from __future__ import annotations

import json
import threading
import time

from app.ui.components import dumps
from app.ui.feed import Feed, since
from tests.app.ui.conftest import awaited


async def read(feed: Feed) -> list[dict]:
    """All events, asked for as the page does."""
    events: list[dict] = []
    while True:
        packet = await since(feed, len(events))
        events += packet["events"]
        if packet["done"]:
            return events


def test_a_packet_holds_what_came_since():
    feed = Feed()
    feed.append({"n": 0})
    feed.append({"n": 1}, {"rounds": 1})
    assert feed.packet(1) == {"events": [{"n": 1}], "stats": {"rounds": 1}, "done": False}


def test_following_gives_each_event_once_and_in_order():
    feed = Feed()

    def fill() -> None:
        for n in range(100):
            feed.append({"n": n})
            time.sleep(0.001)
        feed.close()

    threading.Thread(target=fill).start()
    assert [event["n"] for event in awaited(read(feed))] == list(range(100))


def test_a_late_reader_gets_everything_at_once():
    feed = Feed()
    feed.append({"n": 0})
    feed.close()
    assert awaited(read(feed)) == [{"n": 0}]


def test_a_question_waits_for_something_to_tell():
    feed = Feed()
    threading.Timer(0.2, feed.append, [{"n": 0}]).start()
    started = time.monotonic()
    packet = awaited(since(feed, 0))
    assert packet["events"] == [{"n": 0}]
    assert time.monotonic() - started > 0.1


def test_no_tag_can_begin_in_what_passes_through_a_component():
    assert "<" not in dumps({"text": "<script>"})
    assert json.loads(dumps({"text": "<script>"})) == {"text": "<script>"}
