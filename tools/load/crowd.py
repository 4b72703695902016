"""Clients of an OpenAI endpoint who come, ask, read or leave: what became of all they asked for.

What each reply must be is asked for beforehand, alone and without drafts. Needs nothing of the server but
``/v1/chat/completions``.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psutil

CHAT = "/v1/chat/completions"
SILENCE_S = 600.0
"""After so long without a word a reply is lost."""
LONGEST_WAIT_S = 30.0
"""Of a client that is told when to come back."""
TASKS = ("Tell me a tale of {}.", "Write a Python class for {}.", "List ten facts of {} as JSON.")
SUBJECTS = ("a fox", "two bears", "the moon", "a ship", "an old king", "the last apple")
_PREFACE = "The harbour was quiet, and the lamp on the quay burned until the morning came. "


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, and ``text``, its answer of ``tokens`` tokens that comes of it alone."""

    content: str
    max_tokens: int
    temperature: float
    seed: int
    text: str = ""
    tokens: int = 0

    def body(self, proposer: str | None, stream: bool) -> dict[str, Any]:
        """``proposer``: who drafts; None says nothing of that, for other servers."""
        drafts = {} if proposer is None else {"speculation": {"proposer": proposer}}
        return {
            "messages": [{"role": "user", "content": self.content}],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "stream": stream,
            **drafts,
        }


def asks(count: int, longest: int, preface: int) -> list[Ask]:
    """Of different lengths: up to ``longest`` tokens of a reply, and every third question behind about
    ``preface`` words. Every other one at temperature 0.9."""
    before = _PREFACE * (preface // len(_PREFACE.split()))
    found = []
    for at in range(count):
        asked = TASKS[at % len(TASKS)].format(SUBJECTS[at % len(SUBJECTS)])
        content = f"({at}) {before if at % 3 == 2 else ''}{asked}"
        found.append(Ask(content, 1 + at * longest // count, 0.9 * (at % 2), at))
    return found


@dataclass(slots=True)
class Tally:
    """What became of the requests. ``answered``, and ``tokens``: replies with the words that they have
    alone; ``crossed``: has the words of another question; ``changed``: other
    words than it has alone, be it the beginning of who left; ``lost``: had no end, or an error. Seconds
    to the first token count from the request on (``first_s``), and from the first try on, where some
    were refused (``tried_s``)."""

    answered: int = 0
    left: int = 0
    refused: int = 0
    tokens: int = 0
    crossed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    tried_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    memory: list[tuple[float, int]] = field(default_factory=list)
    """Bytes that the server's process holds, by seconds since the beginning."""

    @property
    def wrong(self) -> list[str]:
        """All that must not be."""
        return [*self.crossed, *self.changed, *self.lost]

    def settled(self, after_s: float) -> list[int]:
        """Bytes held from then on, at least once."""
        return [held for at, held in self.memory if at >= after_s] or [self.memory[-1][1]]


class Trouble(Exception):
    """What a reply cannot be."""


@dataclass(slots=True)
class _Reply:
    """As far as it came. ``retry_s``: it was refused for so long."""

    text: str = ""
    first_s: float | None = None
    retry_s: float | None = None


@dataclass(frozen=True, slots=True)
class Crowd:
    """``proposers``: who drafts, one of them for each request; () says nothing of that. Who leaves, three
    of ten, does so within ``leave_s`` seconds. The crowd comes and goes for ``seconds``, or each client
    asks ``rounds`` times."""

    url: str
    proposers: Sequence[str]
    clients: int
    leave_s: float
    seconds: float = math.inf
    rounds: float = math.inf

    def learn(self, asked: Sequence[Ask]) -> list[Ask]:
        """The same with their answers. Raises Trouble for one that does not come."""
        plain = "none" if self.proposers else None

        async def one(http: httpx2.AsyncClient, ask: Ask) -> Ask:
            reply = await http.post(CHAT, json=ask.body(plain, False))
            if reply.status_code != 200:
                raise Trouble(f"{reply.status_code}: {reply.text}")
            found = reply.json()
            text = found["choices"][0]["message"]["content"] or ""
            tokens = found["usage"]["completion_tokens"]
            return Ask(ask.content, ask.max_tokens, ask.temperature, ask.seed, text, tokens)

        async def all_of_them() -> list[Ask]:
            async with self._http() as http:
                return [await one(http, ask) for ask in asked]

        return asyncio.run(all_of_them())

    def run(self, known: Sequence[Ask], process: int | None = None) -> Tally:
        """``known``: what is asked, with its answers; ``process``: the server's, whose memory is told."""
        tally, began = Tally(), time.monotonic()

        def going() -> bool:
            return time.monotonic() - began < self.seconds

        async def one(http: httpx2.AsyncClient, seed: int) -> None:
            client, count = _Client(self, http, known, random.Random(seed), tally), 0
            while count < self.rounds and going():
                count += await client.ask()

        async def watch() -> None:
            server = psutil.Process(process)
            while True:
                tally.memory.append((time.monotonic() - began, server.memory_info().rss))
                await asyncio.sleep(1.0)

        async def all_of_them() -> None:
            watching = asyncio.create_task(watch())
            async with self._http() as http:
                await asyncio.gather(*(one(http, seed) for seed in range(self.clients)))
            watching.cancel()

        asyncio.run(all_of_them())
        tally.seconds = time.monotonic() - began
        return tally

    def _http(self) -> httpx2.AsyncClient:
        limits = httpx2.Limits(max_connections=None)
        # No proxy: a request to this machine must not leave it.
        return httpx2.AsyncClient(
            base_url=self.url, timeout=SILENCE_S, limits=limits, trust_env=False
        )


class _Client:
    """One who asks again and again; who is refused asks the same again."""

    def __init__(
        self,
        crowd: Crowd,
        http: httpx2.AsyncClient,
        known: Sequence[Ask],
        chance: random.Random,
        tally: Tally,
    ) -> None:
        self._crowd, self._http, self._known = crowd, http, known
        self._chance, self._tally = chance, tally
        self._refused: tuple[Ask, float] | None = None  # what, and when it was tried first

    async def ask(self) -> bool:
        """Once, through a stream or whole, to its end or not; False: it was refused."""
        draw, tally = self._chance, self._tally
        ask, tried = self._refused or (draw.choice(self._known), time.perf_counter())
        self._refused = None
        proposers = self._crowd.proposers
        body = ask.body(draw.choice(proposers) if proposers else None, draw.random() < 0.7)
        patience = draw.random() * self._crowd.leave_s if draw.random() < 0.3 else None
        began, reply = time.perf_counter(), _Reply()
        try:
            async with asyncio.timeout(patience):
                await self._read(body, reply, began)
        except TimeoutError:
            tally.left += 1
            self._judge(ask, body, reply.text, ask.text[: len(reply.text)])
        except (httpx2.HTTPError, Trouble, ValueError, LookupError) as error:
            tally.lost.append(f"{_named(ask, body)}: {error!r} behind {reply.text!r}")
        else:
            if reply.retry_s is not None:
                tally.refused += 1
                self._refused = ask, tried
                await asyncio.sleep(min(reply.retry_s, LONGEST_WAIT_S) * (0.5 + draw.random()))
                return False
            if self._judge(ask, body, reply.text, ask.text):
                tally.answered += 1
                tally.tokens += ask.tokens
        if reply.first_s is not None:
            tally.first_s.append(reply.first_s)
            tally.tried_s.append(began - tried + reply.first_s)
        return True

    def _judge(self, ask: Ask, body: dict[str, Any], text: str, own: str) -> bool:
        if text == own:
            return True
        others = (other for other in self._known if other is not ask)
        crossed = any(other.text.startswith(text) for other in others)
        told = f"{_named(ask, body)}: {text!r} and not {own!r}"
        (self._tally.crossed if crossed else self._tally.changed).append(told)
        return False

    async def _read(self, body: dict[str, Any], reply: _Reply, began: float) -> None:
        async with self._http.stream("POST", CHAT, json=body) as answer:
            if answer.status_code == 429:
                reply.retry_s = float(answer.headers.get("retry-after", "1"))
                return
            if answer.status_code != 200:
                raise Trouble(f"{answer.status_code}: {(await answer.aread()).decode()}")
            if not body["stream"]:
                found = json.loads(await answer.aread())
                reply.text = found["choices"][0]["message"]["content"] or ""
                return
            ended = False
            async with aclosing(_events(answer)) as events:
                async for event in events:
                    if event == "[DONE]":
                        ended = True
                        continue
                    for choice in json.loads(event)["choices"]:
                        text = choice["delta"].get("content") or ""
                        if text and reply.first_s is None:
                            reply.first_s = time.perf_counter() - began
                        reply.text += text
            if not ended:
                raise Trouble("no [DONE]")


def _named(ask: Ask, body: dict[str, Any]) -> str:
    whole = "a stream" if body["stream"] else "whole"
    return f"question {ask.seed}, {whole}, {body.get('speculation', 'as the server drafts')}"


async def _events(reply: httpx2.Response) -> AsyncGenerator[str, None]:
    async for line in reply.aiter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")
