"""What a worker tells of its cache is true: a router sends chats where their beginning really is."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.worker.kv_events import (
    BLOCK,
    BlockRemoved,
    BlockStored,
    KvEvent,
    KvEventTracker,
    block_hashes,
)
from engine.events import Emitted, Event, Prefilled, Started
from engine.kernels.native.library import Library
from engine.local.engine import LocalEngine
from engine.request import Request
from tests.support.fixtures import library
from tests.support.loading import request_for
from tests.support.places import PIP

__all__ = ["library"]

PATIENCE = 300
"""Seconds that nothing here takes; a test that waits for longer hangs."""


class Router:
    """What a KV-aware router makes of the changes: a set of blocks, each behind another."""

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}

    def hear(self, change: KvEvent) -> None:
        if isinstance(change, BlockRemoved):
            for gone in change.hashes:
                del self.parents[gone]  # what was never stored cannot be gone
            return
        assert isinstance(change, BlockStored)
        assert len(change.tokens) == BLOCK * len(change.hashes)
        parent = change.parent
        for one in change.hashes:
            assert one not in self.parents
            assert parent is None or parent in self.parents
            self.parents[one] = parent
            parent = one

    def overlap(self, prompt: list[int]) -> int:
        """Tokens at a prompt's beginning that the worker says it has."""
        known = 0
        for one in block_hashes(prompt):
            if one not in self.parents:
                break
            known += BLOCK
        return known


ROOM = 3
NOT_COPIED = 8
"""Fewer tokens than this are computed rather than copied from another request's cache."""


@pytest.fixture(scope="module", params=[1, ROOM], ids=["one by one", "at once"])
def engine(request: pytest.FixtureRequest, library: Library) -> Iterator[LocalEngine]:
    with contextlib.closing(LocalEngine()) as made:
        made.load(request_for(PIP / "target", PIP / "draft", parallel=request.param))
        yield made


class RunningRequest:
    """A request, and what the router thought of its prompt when a cache was there for it."""

    def __init__(self, engine: LocalEngine, router: Router, prompt: list[int], limit: int) -> None:
        self.text, self.told, self.reused, self._router = list(prompt), 0, 0, router
        self.generation = engine.generate(
            Request(token_ids=tuple(prompt), max_tokens=limit, ignore_eos=True)
        )
        self.generation.listen(self._hear)

    def _hear(self, event: Event) -> None:
        match event:
            case Started():
                self.told = self._router.overlap(self.text[:-1])
            case Prefilled():
                self.reused = event.reused
            case Emitted():
                self.text += [token.id for token in event.tokens or ()]
            case _:
                pass


@contextlib.contextmanager
def stopped(engine: LocalEngine) -> Iterator[None]:
    """The engine does nothing meanwhile: what is asked begins behind this, all at once."""
    reached, go_on = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        reached.set()
        assert go_on.wait(PATIENCE)

    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(engine.measure, wait)
        assert reached.wait(PATIENCE)
        try:
            yield
        finally:
            go_on.set()
        waiting.result()


def test_what_is_told_is_in_the_caches_whatever_was_asked_and_cancelled(
    engine: LocalEngine,
) -> None:
    """A worker said of everything that it had gone, but for the last reply's text."""
    loaded = engine.loaded
    assert loaded is not None
    room, chance, router = loaded.capabilities.parallel, random.Random(18), Router()
    slack = NOT_COPIED if room > 1 else 0
    engine.follow_caches(KvEventTracker(router.hear))

    def words(count: int) -> list[int]:
        return [chance.randrange(300, 4000) for _ in range(count)]

    texts, most = [words(40)], 0
    for asking in range(10):
        with stopped(engine):
            asked = []
            for _ in range(chance.randrange(1, 2 * room + 1)):
                text = chance.choice(texts)
                # It goes on with a text, goes back to somewhere in it, or begins anew.
                keep = chance.choice([len(text), chance.randrange(len(text)), 0])
                prompt = text[: min(keep, 180)] + words(20)
                asked.append(RunningRequest(engine, router, prompt, chance.randrange(1, 40)))
        if asking % 3 == 2:
            asked[-1].generation.cancel()
        for each in asked:
            list(each.generation)
            assert each.reused + slack >= each.told or each.generation.cancelled
            most = max(most, each.told)
        texts = [*texts, *(each.text for each in asked)][-2 * room :]
    assert most >= 4 * BLOCK  # or there was nothing to see

    with stopped(engine):
        last = [RunningRequest(engine, router, words(50), 20) for _ in range(room)]
    for each in last:
        list(each.generation)
    engine.measure(lambda _: None)  # behind what the end of a reply brings with it
    for each in last:
        assert router.overlap(each.text[:-1]) == (len(each.text) - 1) // BLOCK * BLOCK
    engine.unload()
    assert not router.parents


def test_a_block_stands_for_everything_before_it() -> None:
    one = block_hashes([1] * BLOCK + [2] * BLOCK)
    other = block_hashes([3] * BLOCK + [2] * BLOCK)
    assert len({*one, *other}) == 4
    assert block_hashes([1] * (BLOCK - 1)) == []
    assert all(-(2**63) <= each < 2**63 for each in one)
