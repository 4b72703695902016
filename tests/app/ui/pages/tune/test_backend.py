"""What the tune page asks for, without a browser: progress, figures, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.paths import catalog_file
from app.runtime import Runtime
from app.settings.defaults import Defaults
from app.storage.store import Store
from app.ui.pages.tune.backend import TuneBackend
from app.ui.rounds.measurements import Measurements
from engine.api import LoadRequest
from engine.bench.prompts import ALL
from engine.errors import InvalidRequest, NotLoaded
from engine.loading.catalog import open_catalog
from engine.remote.engine import RemoteEngine
from tests.app.ui.following import followed
from tests.support.fake_engine import Script
from tests.support.model_server import Played, playing
from tests.support.recital import reciting_engine

ASKED = {"sources": ["set"], "methods": ["draft", "ngram"], "depths": [2, 4], "effort": "quick"}
SETTINGS = {("draft", "2"), ("draft", "4"), ("draft", "auto"), ("ngram", "2"), ("ngram", "4")}


class Made:
    """A backend over a fake engine, or another."""

    def __init__(self, folder: Path, engine: Any) -> None:
        self.engine, self.folder = engine, folder
        runtime = Runtime(engine, open_catalog(catalog_file()), folder, folder / "models")
        self.store, self.measurements = Store(folder), Measurements()
        self.backend = TuneBackend(runtime, self.store, self.measurements)

    def events(self, **more: Any) -> list[Any]:
        number = self.backend.start({**ASKED, **more})["number"]
        return followed(self.measurements, "tune", number)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    with closing(reciting_engine(1e-5)) as engine:
        found = Made(tmp_path, engine)
        yield found
        found.store.close()


def test_a_sweep_tells_its_progress_its_figures_and_what_is_fastest(made: Made) -> None:
    events = made.events()
    progress = [event for event in events if event["t"] == "progress"]
    assert [event["done"] for event in progress] == list(range(1, len(progress) + 1))
    assert progress[-1]["done"] == progress[-1]["total"]
    results = [event for event in events if event["t"] == "result"]
    assert len(results) == 5, "after each of four prompts, and in the end"
    kinds = results[-1]["kinds"]
    assert kinds == ["chat", "tale", "json", "rewrite", ALL]
    shown = {(row["method"], row["depth"]) for row in results[-1]["rows"]}
    assert shown == {*SETTINGS, ("ngram", "auto"), ("none", "")}
    assert results[-1]["winners"][ALL]["speedup"] > 1
    assert events[-1] == {"t": "rest", "stopped": False, "decided": True}
    confirmed = next(event for event in events if event["t"] == "confirmed")
    assert confirmed["favours"] == 1 and "(5 of 5 runs)" in confirmed["verdict"]
    won = results[-1]["winners"][ALL]
    default = (won["title"], won["depth"]) == ("Draft model", "auto")
    assert confirmed["better"] != default


def test_the_winner_of_single_shots_is_raced_before_it_is_called_faster(made: Made) -> None:
    """ "Use best, auto: 4.96x" stood there after one lucky reply."""
    given, replies = made.engine.script, []

    def script(request: Any) -> Any:
        lucky = request.speculation.proposer == "draft" and len(replies) < measured
        made.engine.seconds_a_round = 1e-5 if lucky else 1e-3
        replies.append(request)
        return given(request) if lucky else Script(list("abcdefgh"), [[]] * 8)

    made.engine.script = script
    plan = {**ASKED, "methods": ["draft"], "depths": [4]}
    measured = 10**6
    first = next(event for event in made.events(**plan) if event["t"] == "confirmed")
    assert first["favours"] == 1
    measured, replies = len(replies) - 12, []  # the race of 5 pairs, and 2 to warm up, are no luck
    events = made.events(**plan)
    assert events[-2]["t"] == "confirmed" and events[-2]["favours"] == 0
    assert events[-2]["median"] == pytest.approx(1)
    assert not events[-2]["better"] and not events[-1]["decided"]
    with pytest.raises(InvalidRequest, match="No method was confirmed"):
        made.backend.use()


def test_what_it_takes_is_forecast_by_the_speed_of_replies(made: Made) -> None:
    assert made.backend.forecast(ASKED) == {"seconds": None}, "nothing was written yet"
    made.backend.speed = lambda: 100.0
    quick, thorough = (
        made.backend.forecast({**ASKED, "effort": effort})["seconds"]
        for effort in ("quick", "thorough")
    )
    progress = [event for event in made.events() if event["t"] == "progress"]
    assert quick == 2 * progress[-1]["total"] * 64 / 100
    assert thorough > 10 * quick
    with pytest.raises(InvalidRequest, match="at least one method"):
        made.backend.forecast({**ASKED, "methods": []})


def test_what_was_fastest_is_kept_for_the_pair_as_the_command_line_keeps_it(made: Made) -> None:
    with pytest.raises(InvalidRequest, match="nothing to save"):
        made.backend.use()
    won = [event for event in made.events() if event["t"] == "result"][-1]["winners"][ALL]
    told = made.backend.use()["kept"]
    assert won["title"] in told and "(measured " in told
    kept = Defaults(made.folder).of(made.engine.loaded)
    assert kept is not None and str(kept) == told == made.backend.offer()["kept"]
    assert set(kept.kinds) == {"chat", "tale", "json", "rewrite"}
    assert kept.winner.prompts == 4
    exported = made.backend.export()
    assert set(exported) == {"facts", "results", "winners", "left_out", "divergences"}
    assert exported["winners"][ALL]["proposer"] == kept.winner.proposer
    assert exported["facts"]["pair"] == kept.pair
    assert exported["results"][0]["memory_bytes"] is None
    assert made.engine.loaded is not None
    made.engine.loaded = replace(made.engine.loaded, name="another")
    with pytest.raises(InvalidRequest, match="Another model is loaded"):
        made.backend.use()


def test_own_prompts_are_a_kind_of_their_own(made: Made) -> None:
    sets = {each["id"]: each["count"] for each in made.backend.offer()["sets"]}
    assert sets == {"chats": 0, "set": 4}
    chat = made.store.new_chat()
    _, reply = made.store.begin_turn(chat, "What is it?", keep=None)
    made.store.save_reply(reply, text="So it goes.", marks="", status="done")
    events = made.events(sources=["chats", "set"], methods=["draft"], depths=[4])
    assert events[0]["kinds"] == ["chats", "chat", "tale", "json", "rewrite", ALL]


def test_a_stopped_sweep_keeps_whole_prompts(made: Made) -> None:
    script, asked = made.engine.script, []

    def slow(request: Any) -> Any:
        asked.append(request)
        if len(asked) > 20:
            made.backend.stop()
        return script(request)

    made.engine.script = slow
    events = made.events(methods=["draft"], depths=[4])
    assert events[-1]["stopped"]
    rows = [event for event in events if event["t"] == "result"][-1]["rows"]
    assert {row["prompts"] for row in rows if row["kind"] == ALL} <= {1, 2, 3}
    with pytest.raises(InvalidRequest, match="No method was confirmed"):
        made.backend.use()
    assert made.backend.export()["results"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"sources": []}, "Choose the prompts"),
        ({"sources": ["chats"]}, "Choose the prompts"),
        ({"methods": []}, "at least one method"),
        ({"methods": ["oracle"]}, "at least one method"),
        ({"depths": [99]}, "depth is 99"),
    ],
)
def test_wrong_choices_are_told(made: Made, more: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        made.events(**more)


def test_without_a_model_there_is_nothing_to_measure(made: Made) -> None:
    made.engine.loaded = None
    assert made.backend.offer()["methods"] == []
    with pytest.raises(NotLoaded):
        made.events()


def test_a_server_that_takes_no_depth_is_not_tuned(tmp_path: Path) -> None:
    with playing(Played()) as played, closing(RemoteEngine()) as engine:
        engine.load(LoadRequest(target=played.url))
        found = Made(tmp_path, engine)
        with pytest.raises(InvalidRequest, match="decides how far it drafts"):
            found.events()
        found.store.close()


def test_another_model_ends_it_and_a_failure_is_told(made: Made) -> None:
    before, script = made.engine.loaded, made.engine.script
    assert before is not None

    def replaced(request: Any) -> Any:
        made.engine.loaded = replace(before, name="another")
        return script(request)

    made.engine.script = replaced
    assert "Another model was loaded" in made.events()[-1]["message"]
