"""Many clients at once, of which some leave: nothing is lost, nothing crossed, and nothing kept.

What each reply must be is known beforehand: by any proposer, in any company, its words are those it has
alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.runtime import create_runtime
from engine.api import LoadRequest
from tests.support.serving import Served, served
from tools.load.crowd import Crowd, asks

LEAVE_S = 0.2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runtime = create_runtime(tmp_path_factory.mktemp("data"), LoadRequest(target="pip"))
    runtime.engine.load(LoadRequest(target="pip"))
    with served(runtime) as running:
        yield running


def free(server: Served) -> bool:
    """Whether nothing runs, waits or is held, in the end."""
    end = time.monotonic() + 60
    engine, queue = server.runtime.engine, server.app.state.queue
    while (engine.busy or queue.tickets) and time.monotonic() < end:
        time.sleep(0.01)
    return not engine.busy and not queue.tickets


def proposers(server: Served) -> tuple[str, ...]:
    loaded = server.runtime.engine.loaded
    assert loaded is not None
    return loaded.capabilities.names


def test_clients_who_come_and_go_get_their_own_words(server: Served) -> None:
    crowd = Crowd(server.url, proposers(server), clients=24, leave_s=LEAVE_S, rounds=5)
    known = crowd.learn(asks(12, longest=24, preface=60))
    assert all(ask.text for ask in known)
    tally = crowd.run(known)
    assert not tally.wrong
    assert tally.answered + tally.left == 24 * 5
    assert tally.answered > 24 and tally.left
    mixed = [
        replace(one, text=other.text)
        for one, other in zip(known, known[1:] + known[:1], strict=True)
    ]
    assert replace(crowd, clients=1).run(mixed).crossed  # what is looked for would be found
    assert free(server)


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_sixty_four_clients_for_ten_minutes(server: Served) -> None:
    """FORETOKEN_LOAD_S sets how long. Memory after the first minute stays within a tenth. ``tools.load``
    tells the figures, of any pair."""
    seconds = float(os.environ.get("FORETOKEN_LOAD_S", "600"))
    crowd = Crowd(server.url, proposers(server), clients=64, leave_s=LEAVE_S, seconds=seconds)
    tally = crowd.run(crowd.learn(asks(12, longest=120, preface=60)))
    assert not tally.wrong
    assert tally.answered > 64 and free(server)
    settled = tally.settled(seconds / 10)
    assert max(settled) <= 1.1 * settled[0]
