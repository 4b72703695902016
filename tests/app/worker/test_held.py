"""What a worker tells of its cache is true: a router sends chats where their beginning really is."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.worker.held import BLOCK, Change, Held, Removed, Stored, block_hashes
from engine.api import LoadRequest
from engine.events import Emitted, Prefilled
from engine.local.engine import LocalEngine
from engine.request import Request, Speculation


class Router:
    """What a KV-aware router makes of the changes: a set of blocks, each behind another."""

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}

    def hear(self, change: Change) -> None:
        if isinstance(change, Removed):
            for gone in change.hashes:
                del self.parents[gone]  # what was never stored cannot be gone
            return
        assert isinstance(change, Stored)
        assert len(change.tokens) == BLOCK * len(change.hashes)
        parent = change.parent
        for one in change.hashes:
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


@pytest.fixture(scope="module")
def engine(pair: tuple[Path, Path]) -> Iterator[LocalEngine]:
    with contextlib.closing(LocalEngine()) as made:
        made.load(LoadRequest(target=str(pair[0]), draft=str(pair[1]), native=False))
        yield made


def test_what_is_told_is_in_the_cache_whatever_was_asked_and_cancelled(engine: LocalEngine) -> None:
    chance, router = random.Random(18), Router()
    held = Held(router.hear)
    prompt = [chance.randrange(5, 200) for _ in range(40)]
    most = 0
    for asked in range(24):
        told = router.overlap(prompt[:-1])
        generation = engine.generate(
            Request(
                token_ids=tuple(prompt),
                max_tokens=chance.randrange(1, 40),
                speculation=Speculation(proposer=chance.choice(["none", "draft", "ngram"])),
                ignore_eos=True,
            )
        )
        generation.listen(held.hear)
        tokens: list[int] = []
        for event in generation:
            if isinstance(event, Prefilled):
                assert event.reused >= told
                most = max(most, told)
            if isinstance(event, Emitted):
                tokens += [token.id for token in event.tokens or ()]
                if asked % 5 == 4:
                    generation.cancel()
        whole = prompt + tokens
        # The next one goes on, goes back to somewhere in it, or begins anew.
        keep = chance.choice([len(whole), chance.randrange(len(whole)), 0])
        prompt = whole[: min(keep, 180)] + [chance.randrange(5, 200) for _ in range(20)]
    assert most >= 4 * BLOCK  # or there was nothing to see


def test_a_block_stands_for_everything_before_it() -> None:
    one = block_hashes([1] * BLOCK + [2] * BLOCK)
    other = block_hashes([3] * BLOCK + [2] * BLOCK)
    assert len({*one, *other}) == 4
    assert block_hashes([1] * (BLOCK - 1)) == []
    assert all(-(2**63) <= each < 2**63 for each in one)
