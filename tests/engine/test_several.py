"""Several pairs in memory: which one goes, and that their replies do not wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.api import Loaded, LoadRequest, Watcher
from engine.errors import OutOfMemory
from engine.events import Emitted, Event, Finished
from engine.loading.catalog import Catalog
from engine.local.engine import LocalEngine
from engine.request import Request, Speculation
from engine.switching import SwitchingEngine
from tests.support.checkpoints import write_random
from tests.support.engines import hold_local
from tests.support.loading import request_for


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = []
    for seed in range(3):
        folder = tmp_path_factory.mktemp("models") / f"model-{seed}"
        write_random(folder, seed=seed)
        made.append(folder)
    return made


@pytest.fixture
def engine() -> Iterator[SwitchingEngine]:
    made = SwitchingEngine(lambda: Catalog((), ()), most=2)
    yield made
    made.close()


def ask(words: int = 12) -> Request:
    return Request(
        token_ids=tuple(range(40, 60)),
        max_tokens=words,
        ignore_eos=True,
        speculation=Speculation(proposer="ngram"),
    )


def reply(engine: SwitchingEngine) -> tuple[int, ...]:
    last = list(engine.generate(ask()))[-1]
    assert isinstance(last, Finished) and last.token_ids is not None
    return last.token_ids


def names(engine: SwitchingEngine) -> list[str]:
    return [pair.target_name for pair in engine.resident]


def test_the_least_recently_used_pair_goes_first(
    engine: SwitchingEngine, folders: list[Path]
) -> None:
    first, second, third = map(request_for, folders)
    loaded = engine.load(first)
    own = reply(engine)
    engine.load(second)
    other = reply(engine)
    assert names(engine) == ["model-1", "model-0"] and own != other
    assert engine.load(first) is loaded  # nothing was read again
    assert engine.loaded is loaded and reply(engine) == own
    engine.load(third)
    assert names(engine) == ["model-2", "model-0"]
    again = engine.load(second)
    assert names(engine) == ["model-1", "model-2"] and reply(engine) == other
    assert (
        engine.load(second) is not again
    )  # the loaded pair is read again, as its files may differ
    assert len(names(engine)) == 2
    engine.unload()
    assert names(engine) == ["model-2"] and engine.loaded is None


def test_a_reply_goes_on_while_another_pair_answers(
    engine: SwitchingEngine, folders: list[Path]
) -> None:
    engine.load(request_for(folders[0]))
    alone = reply(engine)
    held, go_on = threading.Event(), threading.Event()

    def hold(event: Event) -> None:
        if isinstance(event, Emitted):
            held.set()
            go_on.wait(60)

    with hold_local(engine.local):  # a text before ``listen`` would be heard in this thread
        running = engine.generate(ask())
        running.listen(hold)
    assert held.wait(60)
    engine.load(request_for(folders[1]))
    reply(engine)  # a whole one, beside the other
    assert engine.busy and not running.ended
    engine.load(request_for(folders[2]))  # in place of the idle one
    assert names(engine) == ["model-2", "model-0"] and not running.ended
    go_on.set()
    last = list(running)[-1]
    assert isinstance(last, Finished) and last.token_ids == alone
    assert engine.loaded and engine.of(engine.loaded) is engine.local


def test_without_room_for_both_the_older_pair_is_freed(
    engine: SwitchingEngine, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.load(request_for(folders[0]))
    real, tried = LocalEngine.load, []

    def small(self: LocalEngine, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        tried.append(names(engine))
        if engine.resident:
            raise OutOfMemory("There is no room. Close something.")
        return real(self, request, watcher)

    monkeypatch.setattr(LocalEngine, "load", small)
    engine.load(request_for(folders[1]))
    assert tried == [["model-0"], []] and names(engine) == ["model-1"]
    monkeypatch.setattr(
        LocalEngine, "load", lambda *_: (_ for _ in ()).throw(OutOfMemory("No room."))
    )
    with pytest.raises(OutOfMemory):
        engine.load(request_for(folders[2]))


def test_one_pair_at_a_time_is_replaced_as_ever(folders: list[Path]) -> None:
    one = SwitchingEngine(lambda: Catalog((), ()))
    try:
        for folder in folders[:2]:
            one.load(request_for(folder))
            assert names(one) == [folder.name]
    finally:
        one.close()
