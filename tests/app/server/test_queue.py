"""Several clients, clients that leave, and an engine that is busy."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import httpx
import pytest

from app.server.request_queue import MAX_WAITING
from engine.events import Emitted, Finished, FinishReason, Queued

CHAT = "/v1/chat/completions"
ASK = [{"role": "user", "content": "Tell me a tale of a fox."}]
LONG = {"messages": ASK, "max_tokens": 400, "ignore_eos": True, "proposer": "none"}
SHORT = {"messages": ASK, "max_tokens": 3}


async def until(condition: Callable[[], bool], within_s: float = 20) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it did not come to pass in time"
        await asyncio.sleep(0.005)


def client(server) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=100)
    return httpx.AsyncClient(base_url=server.url, timeout=60, limits=limits)


def has_started(server, index: int = 0) -> bool:
    traces = server.recorder.traces
    return len(traces) > index and any(isinstance(e, Emitted) for e in traces[index])


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_ends_the_generation_within_a_round(server, stream: bool) -> None:
    async def leave() -> None:
        server.recorder.hold()
        async with client(server) as http:
            reply = asyncio.create_task(http.post(CHAT, json={**LONG, "stream": stream}))
            await until(lambda: has_started(server))
            reply.cancel()
            await asyncio.gather(reply, return_exceptions=True)
        await until(lambda: all(each.cancelled for each in server.recorder.replies))
        server.recorder.release()
        await until(lambda: not server.runtime.engine.busy)

    asyncio.run(leave())
    (trace,) = server.recorder.traces
    assert isinstance(trace[-1], Finished)
    assert trace[-1].reason is FinishReason.CANCELLED
    assert sum(isinstance(event, Emitted) for event in trace) <= 2


def test_leaving_the_queue_ends_a_generation_that_never_began(server) -> None:
    async def leave() -> None:
        server.recorder.hold()
        async with client(server) as http:
            first = asyncio.create_task(http.post(CHAT, json={**LONG, "max_tokens": 20}))
            await until(lambda: has_started(server))
            async with client(server) as other:
                second = asyncio.create_task(other.post(CHAT, json={**LONG, "stream": True}))
                await until(lambda: len(server.recorder.traces) == 2)
                second.cancel()
                await asyncio.gather(second, return_exceptions=True)
            # At once: the engine is still busy with the first.
            await until(lambda: isinstance(server.recorder.traces[1][-1], Finished))
            server.recorder.release()
            assert (await first).json()["usage"]["completion_tokens"] == 20
        await until(lambda: not server.runtime.engine.busy)

    asyncio.run(leave())
    waited = server.recorder.traces[1]
    assert isinstance(waited[0], Queued)
    assert not any(isinstance(event, Emitted) for event in waited)
    assert waited[-1].reason is FinishReason.CANCELLED


def test_leaving_ends_all_choices(server) -> None:
    async def leave() -> None:
        server.recorder.hold()
        async with client(server) as http:
            reply = asyncio.create_task(http.post(CHAT, json={**LONG, "n": 4}))
            await until(lambda: has_started(server))
            reply.cancel()
            await asyncio.gather(reply, return_exceptions=True)
        await until(lambda: all(each.cancelled for each in server.recorder.replies))
        server.recorder.release()
        await until(lambda: not server.runtime.engine.busy)

    asyncio.run(leave())
    assert len(server.recorder.traces) == 4
    assert all(trace[-1].reason is FinishReason.CANCELLED for trace in server.recorder.traces)


def test_who_waits_in_a_stream_is_told_how_many_are_ahead(server) -> None:
    async def wait() -> list[str]:
        server.recorder.hold()
        async with client(server) as http:
            first = asyncio.create_task(http.post(CHAT, json=SHORT))
            await until(lambda: has_started(server))
            lines = []
            async with http.stream("POST", CHAT, json={**SHORT, "stream": True}) as reply:
                async for line in reply.aiter_lines():
                    lines.append(line)
                    if line.startswith(": waiting"):
                        server.recorder.release()
            assert (await first).status_code == 200
            return lines

    lines = asyncio.run(wait())
    assert lines[0] == ": waiting, 1 ahead"
    assert lines[-2] == "data: [DONE]"


def test_the_event_loop_is_not_held_up_by_a_generation(server) -> None:
    async def look() -> None:
        server.recorder.hold()
        async with client(server) as http:
            reply = asyncio.create_task(http.post(CHAT, json=SHORT))
            await until(lambda: has_started(server))
            assert (await http.get("/v1/models")).status_code == 200
            assert not reply.done()
            server.recorder.release()
            assert (await reply).status_code == 200

    asyncio.run(look())


def test_a_full_queue_says_when_to_come_back(server) -> None:
    async def fill() -> None:
        server.recorder.hold()
        async with client(server) as http:
            waiting = []
            for present in range(MAX_WAITING + 1):
                waiting.append(asyncio.create_task(http.post(CHAT, json=SHORT)))
                await until(lambda n=present: len(server.recorder.traces) == n + 1)
            refused = await http.post(CHAT, json={**SHORT, "stream": True})
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["error"]["code"] == "queue_full"
            server.recorder.release()
            replies = await asyncio.gather(*waiting)
            assert {reply.status_code for reply in replies} == {200}
            assert (await http.post(CHAT, json=SHORT)).status_code == 200

    asyncio.run(fill())


def test_replies_of_a_crowd_do_not_mix(server) -> None:
    """Streams of different seeds at once: each reader gets its own, and only its own."""

    async def crowd() -> dict[int, str]:
        async with client(server) as http:

            async def one(seed: int) -> tuple[int, str]:
                body = {"messages": ASK, "max_tokens": 12, "temperature": 2, "seed": seed}
                text = ""
                async with http.stream("POST", CHAT, json={**body, "stream": True}) as reply:
                    async for line in reply.aiter_lines():
                        if line.startswith("data: {"):
                            choice = json.loads(line[6:])["choices"][0]
                            text += choice["delta"].get("content", "")
                alone = await http.post(CHAT, json=body)
                assert text == alone.json()["choices"][0]["message"]["content"]
                return seed, text

            return dict(await asyncio.gather(*map(one, range(6))))

    assert len(set(asyncio.run(crowd()).values())) > 1
