"""Many clients at once, of which some leave: nothing is lost, nothing crossed, and nothing kept.

What each reply must be is known beforehand: by any proposer, in any company, its words are those it has
alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil
import pytest

from app.runtime import create_runtime
from engine.api import LoadRequest
from engine.events import Finished
from engine.request import Message, Request, Sampling, Speculation
from tests.support.serving import Served, served

SUBJECTS = ("a fox", "two bears", "the moon", "a ship", "an old king", "the last apple")


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked for, and the text that comes of it."""

    content: str
    max_tokens: int
    temperature: float
    seed: int
    text: str

    def body(self, proposer: str, stream: bool) -> dict[str, Any]:
        return {
            "messages": [{"role": "user", "content": self.content}],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "stream": stream,
            "speculation": {"proposer": proposer},
        }


@dataclass(slots=True)
class Tally:
    """What became of the requests."""

    answered: int = 0
    left: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runtime = create_runtime(tmp_path_factory.mktemp("data"), LoadRequest(target="pip"))
    runtime.engine.load(LoadRequest(target="pip"))
    with served(runtime) as running:
        yield running


def asks(server: Served, longest: int) -> list[Ask]:
    """Of different lengths, each answered once alone and without drafts."""
    found = []
    for at, subject in enumerate(SUBJECTS * 2):
        content, tokens = f"Tell me a tale of {subject}.", 1 + at * longest // (2 * len(SUBJECTS))
        sampling = Sampling(temperature=0.9 * (at % 2), seed=at)
        request = Request(
            messages=(Message("user", content),),
            sampling=sampling,
            max_tokens=tokens,
            speculation=Speculation(proposer="none"),
        )
        *_, last = server.runtime.engine.generate(request)
        assert isinstance(last, Finished)
        found.append(Ask(content, tokens, sampling.temperature, at, last.text))
    return found


class Client:
    """One who asks again and again; ``until`` says for how long."""

    def __init__(self, http: httpx.AsyncClient, known: list[Ask], names: list[str], seed: int):
        self.http, self.known, self.names = http, known, names
        self.random = random.Random(seed)

    async def ask(self, tally: Tally) -> None:
        """Once: through a stream or whole, to its end or not."""
        draw = self.random
        asked, stream, leaves = draw.choice(self.known), draw.random() < 0.7, draw.random() < 0.3
        body = asked.body(draw.choice(self.names), stream)
        reading = asyncio.ensure_future(self._read(body, tally))
        if leaves:
            done, _ = await asyncio.wait({reading}, timeout=draw.random() * 0.2)
            if not done:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                tally.left += 1
                return
        text = await reading
        if text is None:
            tally.refused += 1
            await asyncio.sleep(0.05 + draw.random() * 0.1)
        elif text == asked.text:
            tally.answered += 1
        else:
            tally.wrong.append(f"{body}: {text!r} and not {asked.text!r}")

    async def _read(self, body: dict[str, Any], tally: Tally) -> str | None:
        """The reply's text; None where too many wait."""
        began, text = time.perf_counter(), ""
        async with self.http.stream("POST", "/v1/chat/completions", json=body) as reply:
            if reply.status_code == 429:
                return None
            if reply.status_code != 200:
                return f"{reply.status_code}: {(await reply.aread()).decode()}"
            if not body["stream"]:
                return str(json.loads(await reply.aread())["choices"][0]["message"]["content"])
            ended = False
            async with aclosing(_events(reply)) as events:
                async for event in events:
                    if event == "[DONE]":
                        ended = True
                        continue
                    (choice,) = json.loads(event)["choices"]
                    if choice["delta"].get("content") and not text:
                        tally.first_s.append(time.perf_counter() - began)
                    text += choice["delta"].get("content") or ""
            return text if ended else f"{text} (no end)"


async def _events(reply: httpx.Response) -> AsyncIterator[str]:
    async for line in reply.aiter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


def free(server: Served) -> bool:
    """Whether nothing runs, waits or is held, in the end."""
    end = time.monotonic() + 60
    engine, counter = server.runtime.engine, server.app.state.counter
    while (engine.busy or counter.tickets) and time.monotonic() < end:
        time.sleep(0.01)
    return not engine.busy and not counter.tickets


def proposers(server: Served) -> list[str]:
    loaded = server.runtime.engine.loaded
    assert loaded is not None
    return list(loaded.capabilities.names)


def test_clients_who_come_and_go_get_their_own_words(server: Served) -> None:
    known, names, tally = asks(server, 24), proposers(server), Tally()

    async def one(http: httpx.AsyncClient, seed: int) -> None:
        client = Client(http, known, names, seed)
        for _ in range(5):
            await client.ask(tally)

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as http:
            await asyncio.gather(*(one(http, seed) for seed in range(24)))

    asyncio.run(all_of_them())
    assert not tally.wrong
    assert tally.answered + tally.left + tally.refused == 24 * 5
    assert tally.answered > 24 and tally.left
    assert free(server)


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_sixty_four_clients_for_ten_minutes(server: Served, capsys: pytest.CaptureFixture) -> None:
    """FORETOKEN_LOAD_S sets how long. Memory after the first minute stays within a tenth."""
    known, names, tally = asks(server, 120), proposers(server), Tally()
    seconds = float(os.environ.get("FORETOKEN_LOAD_S", "600"))
    process, memory = psutil.Process(), list[tuple[float, int]]()
    began = time.monotonic()

    async def one(http: httpx.AsyncClient, seed: int) -> None:
        client = Client(http, known, names, seed)
        while time.monotonic() - began < seconds:
            await client.ask(tally)

    async def measure() -> None:
        while time.monotonic() - began < seconds:
            memory.append((time.monotonic() - began, process.memory_info().rss))
            await asyncio.sleep(seconds / 120)

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as http:
            await asyncio.gather(measure(), *(one(http, seed) for seed in range(64)))

    asyncio.run(all_of_them())
    settled = [taken for at, taken in memory if at >= seconds / 10]
    first = sorted(tally.first_s)
    with capsys.disabled():
        print(
            f"\n{tally.answered} answered, {tally.left} left, {tally.refused} refused; first token after "
            f"{first[len(first) // 2]:.2f} s, p95 {first[len(first) * 95 // 100]:.2f} s; memory "
            f"{settled[0] >> 20} MiB after a tenth of the time, at most {max(settled) >> 20}, "
            f"{settled[-1] >> 20} in the end"
        )
    assert not tally.wrong
    assert free(server)
    assert max(settled) <= 1.1 * settled[0]
