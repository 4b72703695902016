"""What the race page asks for, without a browser: two sides, one seed, and what the feed tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.storage.attachments import Attachment
from app.storage.store import Store
from app.ui.controls.settings import Settings
from app.ui.pages.race.backend import RaceBackend, settings_of, side_of
from app.ui.pages.race.session import configuration
from app.ui.rounds.measurements import Measurements
from engine.api import LoadRequest
from engine.bench.race import Side
from engine.errors import CatalogError, InvalidRequest, NotLoaded
from engine.machine import memory
from engine.request import PLAIN, Control
from engine.values.sampling import AcceptanceRule
from tests.app.ui.following import followed
from tests.support.fake_engine import FakeEngine, Script
from tests.support.fake_rounds import split
from tests.support.model_server import Played, playing, said, sse
from tests.support.recital import reciting_engine
from tests.support.serving import fake_runtime

OWN = Settings(
    temperature=0.0, system="Be short.", top_p=0.9, options={"ngram": {"remember": True}}
)
PLAIN_SIDE = {"method": PLAIN, "depth": "auto", "rule": "auto", "temperature": 0}


class Made:
    """A backend over a fake engine."""

    def __init__(self, folder: Path, engine: FakeEngine) -> None:
        self.engine = engine
        self.runtime = fake_runtime(folder, engine)
        self.store = Store(folder)
        self.measurements = Measurements()
        self.own = OWN
        self.backend = RaceBackend(self.runtime, self.store, self.measurements, lambda: self.own)

    def events(self, asked: dict[str, Any] | None = None, question: str = "start") -> list[Any]:
        """All events of a race that is started."""
        number = getattr(self.backend, question)(asked or {})["number"]
        return followed(self.measurements, "race", number)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    with closing(reciting_engine(1e-4)) as engine:
        found = Made(tmp_path, engine)
        yield found
        found.store.close()


def asked(prompt: str = "What is it?", **more: Any) -> dict[str, Any]:
    rival = side_of(OWN)
    return {
        "source": "prompt",
        "prompt": prompt,
        "sides": [PLAIN_SIDE, rival],
        "seed": None,
        "max_tokens": 64,
        **more,
    }


def test_the_chats_own_settings_against_plain_are_offered(made: Made) -> None:
    offer = made.backend.offer()
    assert offer["own"] == {"method": "draft", "depth": "auto", "rule": "auto", "temperature": 0.0}
    assert [each["name"] for each in offer["methods"]] == [PLAIN, "draft", "ngram"]
    assert (offer["chats"], offer["set"], offer["number"]) == (0, 8, None)
    made.own = replace(OWN, controller="fixed", depth=3)
    assert made.backend.offer()["own"]["depth"] == "3"
    made.engine.loaded = None
    assert made.backend.offer()["methods"] == []
    with pytest.raises(NotLoaded):
        made.backend.start(asked())


def test_a_side_is_what_was_chosen_and_else_as_the_chat_answers() -> None:
    side = {"method": "ngram", "depth": "7", "rule": "block", "temperature": "0.8"}
    made = configuration(settings_of(replace(OWN, seed=3, max_tokens=20), side))
    assert (made.speculation.proposer, made.speculation.depth) == ("ngram", 7)
    assert made.speculation.control is Control.FIXED
    assert made.speculation.acceptance is AcceptanceRule.BLOCK
    assert made.speculation.options == {"remember": True}
    assert (made.sampling.temperature, made.sampling.top_p, made.sampling.seed) == (0.8, 0.9, 3)
    assert made.max_tokens == 20
    plain = configuration(settings_of(OWN, PLAIN_SIDE)).speculation
    assert (plain.proposer, plain.control) == (PLAIN, Control.OFF)


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        ("temperature", "hot", "temperature is 'hot'"),
        ("temperature", 9, "temperature is 9"),
        ("depth", 16, "depth is 16"),
        ("depth", 2.5, "whole number"),
        ("rule", "fair", "acceptance is 'fair'"),
    ],
)
def test_wrong_values_are_told_before_anything_runs(
    made: Made, part: str, value: object, told: str
) -> None:
    wrong = asked(sides=[PLAIN_SIDE, {**side_of(OWN), part: value}])
    with pytest.raises(InvalidRequest, match=told):
        made.backend.start(wrong)
    with pytest.raises(InvalidRequest, match="is empty"):
        made.backend.start(asked("  "))
    assert made.measurements.last("race") is None


def test_a_race_tells_its_runs_pairs_standing_and_words(made: Made) -> None:
    events = made.events(asked())
    begun = events[0]
    assert begun["names"] == ("no drafting", "Draft model, auto") and begun["compared"]
    runs = [(event["pair"], event["side"]) for event in events if event["t"] == "run"]
    assert runs[:4] == [(None, "base"), (None, "rival"), (0, "base"), (0, "rival")]
    assert runs[4:6] == [(1, "rival"), (1, "base")]
    assert len([event for event in events if event["t"] == "pair"]) == 5
    assert [event["t"] for event in events[-3:]] == ["standing", "rest", "words"]
    standing, rest, words = events[-3:]
    assert (
        standing["favours"] == 1 and "as fast as no drafting (5 of 5 runs)" in standing["verdict"]
    )
    assert standing["low"] <= standing["median"] <= standing["high"]
    assert rest["complete"] and words["different"] == 0
    replies = [event for event in events if event["t"] == "started" and event["side"] == Side.RIVAL]
    assert len(replies) == 6


def test_what_a_race_measured_of_a_draft_is_known_of_that_pair_alone(made: Made) -> None:
    """The Models page said "unknown until tried" after a race of the same pair."""
    backend = made.backend
    loaded = made.engine.loaded
    assert loaded is not None and loaded.draft_id
    pair = (loaded.target_id, loaded.draft_id)
    assert backend.raced(*pair) is None
    sides = [PLAIN_SIDE, {**side_of(OWN), "method": "draft"}]
    ratio = made.events(asked(sides=sides))
    median = next(each["median"] for each in reversed(ratio) if each["t"] == "standing")
    assert backend.raced(*pair) == pytest.approx(median)
    made.events(asked(sides=sides[::-1]))
    assert backend.raced(*pair) is not None
    assert backend.raced(pair[0], "another") is None
    with pytest.raises(InvalidRequest, match="Both sides are the same"):
        backend.start(asked(sides=[PLAIN_SIDE, PLAIN_SIDE]))
    made.events(asked(sides=[PLAIN_SIDE, {**PLAIN_SIDE, "temperature": 1}]))
    assert backend.raced(*pair) is None


def test_five_more_pairs_go_on_where_it_ended(made: Made) -> None:
    with pytest.raises(InvalidRequest, match="Start a new one"):
        made.backend.more({})
    made.events(asked())
    events = made.events(question="more")
    assert len(events[0]["pairs"]) == 5
    runs = [event["pair"] for event in events if event["t"] == "run"]
    assert runs == [5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    assert "of 10 runs" in events[-3]["verdict"]


def test_the_last_prompts_are_raced_with_what_was_said_before_and_the_system_prompt(
    made: Made,
) -> None:
    chat = made.store.new_chat()
    for question in ("What is it?", "And then?"):
        _, reply = made.store.begin_turn(chat, question, keep=None)
        made.store.save_reply(reply, text="So it goes.", marks="", status="done")
    picture = Attachment("a.png", kind="image", unit="1x1", data=b"\x89PNG")
    _, reply = made.store.begin_turn(made.store.new_chat(), "", keep=None, files=[picture])
    made.store.save_reply(reply, text="A dot.", marks="", status="done")
    seen = []
    given = made.engine.generate

    def noted(request: Any) -> Any:
        seen.append(request)
        return given(request)

    made.engine.generate = noted  # type: ignore[method-assign]
    assert made.backend.offer()["chats"] == 2
    events = made.events(asked(source="chats"))
    assert events[0]["prompts"] == ["And then?", "What is it?"]
    roles = [[message.role for message in request.messages] for request in seen]
    assert ["system", "user", "assistant", "user"] in roles and ["system", "user"] in roles
    assert len({request.sampling.seed for request in seen}) == 1
    assert not any(request.reuse_cache for request in seen)


def test_the_apps_set_makes_a_pair_of_each_prompt(made: Made) -> None:
    events = made.events(asked(source="set"))
    assert len([event for event in events if event["t"] == "pair"]) == 8


def test_where_a_thought_stands_is_told_with_the_words(made: Made) -> None:
    made.engine.script = lambda request: Script(split("<think>\nHm.\n</think>\n\nBlue."))
    events = made.events(asked())
    [*_, last] = (event["thought"] for event in events if event["t"] == "finished")
    text = "<think>\nHm.\n</think>\n\nBlue."
    assert (text[last["from"] : last["to"]], text[last["answer"] :]) == ("Hm.", "Blue.")


def test_words_that_part_are_inspected(made: Made) -> None:
    words = made.events(asked("differ please"))[-1]
    assert words["different"] == 5
    assert words["divergence"]["cause"] == "bug"
    assert [one["text"] for one in words["divergence"]["candidates"]][1] == " otherwise"


def test_a_failure_is_told_and_so_is_a_pair_that_was_replaced(made: Made) -> None:
    events = made.events(asked("fail"))
    assert events[-1]["t"] == "broken" and "asked to fail" in events[-1]["message"]
    given, before = made.engine.script, made.engine.loaded
    assert before is not None

    def replaced(request: Any) -> Any:
        made.engine.loaded = replace(before, name="another")
        return given(request)

    made.engine.script = replaced
    assert "Another model was loaded" in made.events(asked())[-1]["message"]


@pytest.mark.parametrize("fails", [True, False])
def test_a_reply_of_what_replaced_the_raced_pair_is_not_counted(made: Made, fails: bool) -> None:
    """One that lacked what was raced ended it with "The proposer 'eagle3' needs a head"."""
    given, before, replies = made.engine.script, made.engine.loaded, []
    assert before is not None

    def replaced(request: Any) -> Any:
        replies.append(request)
        if len(replies) == 6:  # the second pair's last
            made.engine.loaded = replace(before, name="another")
            if fails:
                raise InvalidRequest("proposer", "The proposer 'eagle3' needs a head.")
        return given(request)

    made.engine.script = replaced
    events = made.events(asked())
    assert "Another model was loaded" in events[-1]["message"]
    assert len([event for event in events if event["t"] == "pair"]) == 1


def test_only_one_is_measured_at_a_time_and_it_can_be_stopped(made: Made) -> None:
    made.engine.seconds_a_round = 0.01
    made.backend.start(asked())
    with pytest.raises(InvalidRequest, match="Another measurement is running"):
        made.backend.start(asked())
    made.backend.stop()
    events = followed(made.measurements, "race", made.measurements.last("race"))
    assert not next(event for event in events if event["t"] == "rest")["complete"]
    made.engine.seconds_a_round = 1e-4
    assert made.events(question="more")[-2]["complete"]


@pytest.fixture
def llama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setenv("FORETOKEN_SERVER_KEYS", str(tmp_path / "keys"))
    timings = {"predicted_n": 3, "predicted_ms": 30.0, "draft_n": 8, "draft_n_accepted": 3}
    stream = sse(*said("Hello", " there"), {"choices": [], "timings": timings})
    models = ({"id": "qwen", "owned_by": "llamacpp"},)
    with playing(Played(models=models, stream=stream)) as played:
        yield played


def elsewhere(place: str, **more: Any) -> dict[str, Any]:
    return asked(place=place, sides=[{**PLAIN_SIDE, "method": ""}, side_of(OWN)], **more)


def test_a_server_is_raced_against_what_is_loaded_and_what_it_does_not_tell_is_said(
    made: Made, llama: Played
) -> None:
    """The page raced on the loaded pair alone; only the command line knew another place."""
    found = made.backend.look({"place": llama.url})
    assert [each["name"] for each in found["methods"]] == ["server"]
    assert "does not report its rounds" in found["told"]
    events = made.events(elsewhere(llama.url))
    kinds = [event["t"] for event in events]
    begun = events[kinds.index("begun")]
    assert set(kinds[: kinds.index("begun")]) == {"opening"}
    place = llama.url.removeprefix("http://")
    assert begun["names"] == (
        f"qwen on {place} (Server default)",
        "Pip (Draft model, auto)",
    )
    assert begun["compared"] and not events[-1]["promised"]
    assert found["told"] in begun["notes"]
    pairs = [event for event in events if event["t"] == "pair"]
    assert [each["base_tokens_per_s"] for each in pairs] == [pytest.approx(100)] * 5
    assert events[-1]["t"] == "words" and "as expected" in events[-1]["told"]
    again = made.events(question="more")
    runs = [event["pair"] for event in again if event["t"] == "run"]
    assert runs[:4] == [None, None, 5, 5], "it was connected to anew"
    assert "of 10 runs" in [event for event in again if event["t"] == "standing"][-1]["verdict"]


def test_another_pair_of_this_machine_is_raced_with_any_method_that_it_has(
    made: Made, pair: tuple[Path, Path]
) -> None:
    load = LoadRequest(target="pip", quantization="fp32", native=False, device="cpu")
    assert made.engine.loaded is not None
    made.engine.loaded = replace(made.engine.loaded, request=load)
    place = "::".join(map(str, pair))
    names = [each["name"] for each in made.backend.look({"place": place})["methods"]]
    assert {"", PLAIN, "ngram", "draft"} <= set(names) and "eagle3" not in names
    sides = [{**PLAIN_SIDE, "method": "draft", "depth": "2"}, side_of(OWN)]
    events = made.events(asked(place=place, sides=sides, max_tokens=8))
    begun = next(event for event in events if event["t"] == "begun")
    assert begun["names"][0].endswith("(Draft model, depth 2)")
    assert len([event for event in events if event["t"] == "pair"]) == 5
    assert any(event["t"] == "round" and event["side"] == Side.BASE for event in events)


def test_what_does_not_fit_beside_what_is_loaded_is_told_with_figures_before_it_is_opened(
    made: Made, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 10_000_000)
    told = made.backend.look({"place": str(pair[0])})["told"]
    assert "10.0 MB are free" in told and "The weights alone do not fit" in told
    events = made.events(elsewhere(str(pair[0])))
    assert "10.0 MB are free" in events[-1]["message"]


def test_a_model_that_its_server_would_have_to_load_is_only_asked_about(made: Made) -> None:
    """To choose it put what that server had loaded, which others may use, out of its memory."""
    models = [
        {"id": name, "owned_by": "foretoken", "loaded": name == "pip"} for name in ("pip", "big")
    ]
    with playing(Played(models=models)) as far:
        found = made.backend.look({"place": f"{far.url}#big"})
        assert not far.posted("/api/generate")
    assert "will load it and unload pip" in found["told"]
    assert [each["name"] for each in found["methods"]] == [""]


def test_how_a_race_was_started_is_told_while_it_runs(made: Made) -> None:
    """A page that was reloaded in the middle offered another race than the one it showed."""
    made.engine.seconds_a_round = 0.01
    made.backend.start(asked(seed=7))
    assert made.backend.offer()["asked"] == asked(seed=7)
    made.backend.stop()
    followed(made.measurements, "race", made.measurements.last("race"))
    assert made.backend.offer()["asked"] is None
    number = made.backend.more({})["number"]
    assert made.backend.offer()["asked"] == asked(seed=7)
    made.backend.stop()
    followed(made.measurements, "race", number)


def test_a_place_that_is_none_is_told_at_once_and_a_server_that_is_away_when_it_is_asked(
    made: Made,
) -> None:
    with pytest.raises(CatalogError, match="nowhere"):
        made.backend.start(elsewhere("nowhere"))
    with pytest.raises(InvalidRequest, match="a server address"):
        made.backend.start(elsewhere(" "))
    with pytest.raises(InvalidRequest, match="temperature is 9"):
        made.backend.start({**elsewhere("pip"), "sides": [{**PLAIN_SIDE, "temperature": 9}] * 2})
    events = made.events(elsewhere("http://127.0.0.1:9"))
    assert events[-1]["t"] == "broken" and "127.0.0.1:9" in events[-1]["message"]


def test_a_race_of_another_pair_does_not_go_on(made: Made) -> None:
    """Its pairs would have stood beside the new one's, under one verdict."""
    made.events(asked())
    assert made.engine.loaded is not None
    made.engine.loaded = replace(made.engine.loaded, name="another")
    with pytest.raises(InvalidRequest, match="Start a new one"):
        made.backend.more({})
