"""Feeds: everything once, from any index, batched."""

from __future__ import annotations

import asyncio
import json
import threading
import time

from app.ui.feed import Feed, dumps, follow


async def read(feed: Feed, start: int = 0) -> list[dict]:
    return [json.loads(packet) async for packet in follow(feed, start)]


def test_a_packet_holds_what_came_since():
    feed = Feed(run=3)
    feed.append({"n": 0})
    feed.append({"n": 1}, {"rounds": 1})
    packet = feed.packet(1)
    assert packet["run"] == 3
    assert (packet["from"], packet["events"]) == (1, [{"n": 1}])
    assert packet["stats"] == {"rounds": 1}
    assert not packet["done"]


def test_following_gives_each_event_once_in_order_and_batches_them():
    feed = Feed()

    def fill() -> None:
        for n in range(100):
            feed.append({"n": n})
            time.sleep(0.002)
        feed.close()

    threading.Thread(target=fill).start()
    packets = asyncio.run(read(feed))
    assert [event["n"] for packet in packets for event in packet["events"]] == list(range(100))
    assert packets[-1]["done"]
    assert len(packets) < 60


def test_a_late_reader_gets_everything_at_once():
    feed = Feed()
    feed.append({"n": 0})
    feed.close()
    (packet,) = asyncio.run(read(feed))
    assert packet["events"] == [{"n": 0}]


def test_no_tag_can_begin_in_a_packet():
    assert "<" not in dumps({"text": "<script>"})
    assert json.loads(dumps({"text": "<script>"})) == {"text": "<script>"}
