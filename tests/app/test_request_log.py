"""The log of what asks the API."""

from __future__ import annotations

import asyncio
import threading

from starlette.types import Message, Receive, Scope, Send

from app.web.request_log import KEPT, LONGEST_ERROR, Logged, RequestLog, Stage
from engine.api import Generation
from engine.events import Emitted, Failed, Finished, FinishReason, Queued, Started
from engine.request import Request
from engine.stats import Tally
from engine.values.messages import Message as Said


def generation() -> Generation:
    request = Request(messages=(Said("user", "Hi"),))
    return Generation(request, lambda it: it.publish(Finished(FinishReason.CANCELLED, "", "", ())))


def test_a_request_is_told_from_its_arrival_to_its_end() -> None:
    log, first, second = RequestLog(), generation(), generation()
    entry = log.begin("127.0.0.1", "curl/8", "/v1/chat/completions")
    (asked,) = log.since(0).requests
    assert (asked.stage, asked.model, asked.agent) == (Stage.ARRIVED, "", "curl/8")
    for each in (first, second):
        each.publish(Queued(1))
        entry.follow(each, "pip")
    assert log.since(asked.version).requests[0].stage is Stage.WAITING
    events = [
        Started("pip", "draft", "greedy", (1, 2, 3)),
        Emitted(text="Hello"),
        Finished(FinishReason.LENGTH, "", "Hello", (7, 8)),
    ]
    tally = Tally()
    for event in events:
        first.publish(event)
        tally.add(event)
    (asked,) = log.since(0).requests
    assert (asked.stage, asked.method) == (Stage.WAITING, "draft")
    assert asked.statistics == tally.statistics()
    second.publish(Failed("It broke."))
    entry.end()
    changes = log.since(asked.version)
    (asked,) = changes.requests
    assert (asked.stage, asked.message) == (Stage.FAILED, "It broke.")
    assert log.since(changes.version).requests == ()
    assert log.since(changes.version + 1).requests == (asked,)  # asked by a page of an app before


def test_of_a_long_refusal_a_part_is_kept() -> None:
    """One chunk of 60 MB was kept whole: a hundred of them filled the memory."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 10 * LONGEST_ERROR})

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        pass

    log = RequestLog()
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
    asyncio.run(Logged(refuse, log)(scope, receive, send))
    (asked,) = log.since(0).requests
    assert asked.stage is Stage.REFUSED and len(asked.message) < LONGEST_ERROR


def test_cancelling_ends_replies_that_are_there_and_those_that_come() -> None:
    log, first, second = RequestLog(), generation(), generation()
    entry = log.begin("::1", "", "/api/chat")
    entry.follow(first, "pip")
    assert log.cancel(entry.number)
    entry.follow(second, "pip")
    assert first.cancelled
    assert second.cancelled
    assert log.since(0).requests[0].stage is Stage.CANCELLED
    assert not log.cancel(17)


def test_of_many_the_oldest_that_are_over_are_forgotten() -> None:
    log = RequestLog()
    running = log.begin("a", "", "/v1/x")
    running.follow(generation(), "pip")
    for _ in range(KEPT + 20):
        log.begin("a", "", "/v1/x").end()
    numbers = log.since(0).numbers
    assert len(numbers) == KEPT
    assert numbers[0] == running.number
    assert numbers[-1] == KEPT + 21


def test_who_waits_for_a_change_is_told_of_it() -> None:
    log = RequestLog()

    async def wait() -> int:
        timer = threading.Timer(0.05, lambda: log.begin("a", "", "/v1/x"))
        timer.start()
        found = await log.watchers.until(lambda: log.since(0), lambda it: it.version != 0, 60)
        timer.join()
        return len(found.requests)

    assert asyncio.run(wait()) == 1
    assert log.watchers._all == []
