"""Feeds: everything once, from any index, as soon as there is something."""

from __future__ import annotations

import asyncio
import threading
import time

from app.ui.rounds.feed import Feed, since
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


def test_a_question_waits_for_something_to_tell_and_is_woken_from_another_thread():
    feed = Feed()

    async def ask() -> dict:
        asked = asyncio.ensure_future(since(feed, 0, patience=60))
        await asyncio.sleep(0)  # it has looked, found nothing, and waits
        assert not asked.done()
        threading.Thread(target=feed.append, args=[{"n": 0}]).start()
        return await asked

    assert awaited(ask())["events"] == [{"n": 0}]


def test_a_question_ends_when_the_feed_is_closed_or_its_patience_is_over():
    feed = Feed()
    assert awaited(since(feed, 0, patience=0.01)) == {"events": [], "stats": None, "done": False}
    feed.close()
    assert awaited(since(feed, 0, patience=60))["done"]


def test_nobody_is_woken_any_more_whose_event_loop_is_closed():
    feed = Feed()

    async def leave() -> None:
        left = asyncio.ensure_future(since(feed, 0))
        await asyncio.sleep(0)
        assert not left.done()

    awaited(leave())
    feed.append({"n": 0})
    assert feed.watchers._all == []
