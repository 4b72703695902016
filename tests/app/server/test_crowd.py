"""Many clients at once on a real socket: each gets its own reply, or is told when to come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.server.request_queue import MAX_WAITING, Pace
from engine.api import Generation
from engine.events import Finished, FinishReason
from engine.request import Request
from tests.app.server.conftest import Server
from tests.app.server.test_queue import CHAT, client, has_started, until

ROOM = 4


@pytest.fixture
def server(crowded: Server) -> Iterator[Server]:
    assert crowded.idle()
    crowded.recorder.clear()
    yield crowded
    crowded.recorder.release()
    assert crowded.idle()


def body(number: int, **others: Any) -> dict[str, Any]:
    asked = {"role": "user", "content": f"Tell me tale number {number} of a fox."}
    return {
        "messages": [asked],
        "max_tokens": 24,
        "temperature": 1,
        "seed": number,
        "ignore_eos": True,
        **others,
    }


async def streamed(http: httpx.AsyncClient, asked: dict[str, Any]) -> tuple[dict[int, str], int]:
    """The choices' texts, and how many of them had begun when the first was through."""
    texts: dict[int, str] = {}
    ended: dict[int, str] = {}
    begun = 0
    async with http.stream("POST", CHAT, json={**asked, "stream": True}) as reply:
        assert reply.status_code == 200
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                (choice,) = json.loads(line[6:])["choices"]
                index = choice["index"]
                assert index not in ended
                texts[index] = texts.get(index, "") + (choice["delta"].get("content") or "")
                if choice["finish_reason"]:
                    begun = begun or len(texts)
                    ended[index] = texts[index]
    assert line == "" or line == "data: [DONE]"
    return ended, begun


def test_eight_clients_get_what_each_would_get_alone(server: Server) -> None:
    async def crowd() -> None:
        async with client(server) as http:
            together = await asyncio.gather(*(streamed(http, body(at)) for at in range(8)))
            for at, (texts, _) in enumerate(together):
                alone = (await http.post(CHAT, json=body(at))).json()
                assert texts[0] == alone["choices"][0]["message"]["content"]

    asyncio.run(crowd())
    assert len(server.recorder.traces) == 16


def test_a_prediction_that_leaves_its_schema_holds_nobody_up(server: Server) -> None:
    """Forced tokens followed it, more than a pass has rows: the engine tried that pass for ever."""
    forced = "the keeper walked down to the sea and looked for his little boat until the night came"
    properties = {"a": {"type": "string"}, "b": {"const": forced}}
    schema = {"type": "object", "properties": properties, "required": ["a", "b"]}
    asked = body(1, ignore_eos=False, max_tokens=60, structured_outputs={"json": schema})
    content = '{"a": "once upon a time there was", "c": 1}'

    def told(**drafting: Any) -> str:
        reply = httpx.post(f"{server.url}{CHAT}", json=asked | drafting, timeout=30).json()
        return str(reply["choices"][0]["message"]["content"])

    prediction = {"type": "content", "content": content}
    assert told(prediction=prediction, controller="auto") == told(proposer="none")


def test_choices_are_written_side_by_side(server: Server) -> None:
    async def choose() -> None:
        server.recorder.hold()  # or one may end before the last is asked for
        async with client(server) as http:
            writing = asyncio.create_task(streamed(http, body(1, n=4)))
            await until(lambda: len(server.recorder.traces) == 4)
            server.recorder.release()
            texts, begun = await writing
            assert sorted(texts) == [0, 1, 2, 3] and begun == 4
            for index, text in texts.items():
                alone = (await http.post(CHAT, json=body(1, seed=1 + index))).json()
                assert text == alone["choices"][0]["message"]["content"]

    asyncio.run(choose())


def test_a_place_is_held_by_each_choice_and_by_nobody_who_is_through(server: Server) -> None:
    async def fill() -> None:
        server.recorder.hold()
        async with client(server) as http:
            asked = body(1, n=8, max_tokens=2)
            count = (ROOM + MAX_WAITING) // 8
            waiting = []
            for present in range(count):
                waiting.append(asyncio.create_task(http.post(CHAT, json=asked)))
                await until(lambda n=present: len(server.recorder.traces) == 8 * (n + 1))
            left = ROOM + MAX_WAITING - 8 * count
            refused = await http.post(CHAT, json=body(2, n=left + 1))
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            # It told that some were waiting, or none, which was not why.
            told = f"asks for {left + 1} replies, but with those already running or waiting"
            assert f"{told} at most {left} more are accepted" in refused.json()["error"]["message"]
            waiting.append(asyncio.create_task(http.post(CHAT, json=body(2, n=left))))
            await until(lambda: len(server.recorder.traces) == ROOM + MAX_WAITING)
            full = (await http.post(CHAT, json=body(3))).json()["error"]["message"]
            assert full.startswith(f"{MAX_WAITING} replies are already waiting.")
            server.recorder.release()
            replies = await asyncio.gather(*waiting)
            assert {reply.status_code for reply in replies} == {200}

    asyncio.run(fill())


def test_who_leaves_makes_room_while_others_go_on(server: Server) -> None:
    async def leave() -> None:
        async with client(server) as http:
            long = body(1, max_tokens=300)
            going = [asyncio.create_task(http.post(CHAT, json=long)) for _ in range(ROOM)]
            await until(lambda: all(has_started(server, at) for at in range(ROOM)))
            short = asyncio.create_task(http.post(CHAT, json=body(5)))
            await until(lambda: len(server.recorder.traces) == ROOM + 1)
            going[0].cancel()
            assert (await short).status_code == 200
            for each in going[1:]:
                each.cancel()
            await asyncio.gather(*going, return_exceptions=True)
        await until(lambda: not server.runtime.engine.busy)

    asyncio.run(leave())


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_when_to_come_back_follows_from_how_fast_replies_end() -> None:
    clock = Clock()
    pace = Pace(clock)

    def begun() -> Generation:
        generation = Generation(Request(prompt="Hello"), lambda generation: None)
        pace.watch(generation)
        return generation

    def end(generation: Generation, reason: FinishReason = FinishReason.LENGTH) -> None:
        generation.publish(Finished(reason, "", "", ()))

    running = [begun() for _ in range(8)]
    for generation in running[:4]:
        clock.now += 5.0
        end(generation)
    assert pace.until(1) == 5
    assert pace.until(3) == 15
    clock.now += 2.0
    assert pace.until(3) == 13
    clock.now += 18.0  # for twenty seconds nothing ended
    assert pace.until(2) == 20
    end(running[4], FinishReason.CANCELLED)  # says nothing about how long replies take
    for generation in running[5:]:
        end(generation)
    clock.now += 1000.0  # nobody was there
    begun()
    assert pace.until(1) < 10
