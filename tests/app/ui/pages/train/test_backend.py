"""What the Train page asks for, without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.paths import catalog_file
from app.runtime import Runtime
from app.storage.store import Store
from app.training.options import TrainingOptions
from app.training.runs import Trainings
from app.ui import words
from app.ui.controls.pickers import Pickers
from app.ui.pages.train.backend import POINTS, TrainBackend, thinned
from engine.errors import ForetokenError
from engine.loading.catalog import open_catalog
from engine.loading.request import LoadRequest
from engine.train.heads import kinds
from tests.app.ui.runs import write_log, write_run
from tests.support.folders import write_model
from tests.support.recital import reciting_engine


@pytest.fixture
def backend(tmp_path: Path) -> TrainBackend:
    runtime = Runtime(
        reciting_engine(), open_catalog(catalog_file()), tmp_path, tmp_path / "models"
    )
    return TrainBackend(runtime, Trainings(tmp_path), Pickers(runtime))


def test_every_kind_has_its_sentence() -> None:
    assert set(kinds.names()) <= set(words.KINDS)


def test_the_form_offers_what_is_on_disk_and_counts_different_questions(
    backend: TrainBackend, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    for question in ("One?", "Two?", "One?"):
        _, reply = store.begin_turn(store.new_chat("x"), question, keep=None)
        store.save_reply(reply, text="Yes.", marks="", status="done")
    _, reply = store.begin_turn(store.new_chat("x"), "Two?", keep=None)  # being answered now
    choices = backend.training_choices()
    assert {"id": "pip", "name": "Pip"} in choices["targets"]
    assert "llama-3.2-1b" not in [target["id"] for target in choices["targets"]]
    assert choices["questions"] == 2
    assert [kind["id"] for kind in choices["kinds"]] == list(kinds.names())
    found = next(m for chat in store.chats() for m in store.messages(chat.id) if m.id == reply)
    assert found.status == "running", "counting must not mark a reply as interrupted"
    store.close()


def test_without_a_run_none_is_shown(backend: TrainBackend) -> None:
    assert backend.training() == {"run": None}


def test_a_run_is_shown_in_minutes_with_what_was_logged(
    backend: TrainBackend, tmp_path: Path
) -> None:
    folder = write_run(tmp_path, running=True, phase="learning", share=0.5, seconds_left=240)
    write_log(folder, 50)
    run = backend.training()["run"]
    assert (run["state"], run["phase"], run["left"]) == ("running", "learning", "4 min 00 s")
    assert len(run["loss"]) == 50
    assert run["loss"][-1] == [1.25, 3.0]
    assert run["length"] == [[1.25, 1.73]]
    assert run["positions"] == [0.5, 0.23]


def test_a_done_run_names_its_pair_though_another_process_entered_it(
    backend: TrainBackend, tmp_path: Path
) -> None:
    drafter = write_model(tmp_path / "drafter")
    (tmp_path / "model_catalog.yaml").write_text(
        f"models:\n  - {{id: mine, name: Mine, path: {drafter}, licence: mit}}\n"
        "pairs:\n  - {id: pip-mine, name: Pip + mine, target: mine}\n"
    )
    write_run(tmp_path, phase="done", folder=str(drafter), pair="pip-mine")
    run = backend.training()["run"]
    assert (run["state"], run["pair"], run["drafter"]) == ("done", "Pip + mine", str(drafter))
    assert backend.open_trained()["run"] == run


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"minutes": "soon"}, "number of minutes"),
        ({"minutes": "-1"}, "training time"),
        ({"prompts": "  "}, "path of a prompt file"),
        ({"prompts": "chats"}, "0 different prompts"),
        ({"prompts": "/no/such/file"}, "cannot be read"),
        ({"prompts": "~nobody/file"}, "cannot be read"),
        ({"minutes": "nan"}, "training time"),
        ({"minutes": "inf"}, "training time"),
    ],
)
def test_a_mistake_in_the_form_is_refused_in_words(
    backend: TrainBackend, form: dict[str, str], told: str
) -> None:
    asked = {"target": "pip", "kind": "medusa", "prompts": "pip", "minutes": "5", **form}
    with pytest.raises(ForetokenError, match=told):
        backend.train(asked)
    assert backend.training()["run"] is None


def test_a_drafter_is_trained_as_the_app_was_started(
    backend: TrainBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--device cpu --no-native`` once held for the chat alone."""
    started: list[TrainingOptions] = []
    monkeypatch.setattr(Trainings, "start", lambda _, options: started.append(options))
    how: dict[str, Any] = {"device": "cpu", "native": False, "threads": 1}
    backend._runtime.first = LoadRequest(target="", **how)
    backend.train({"target": "pip", "kind": "medusa", "prompts": "pip", "minutes": "5"})
    assert started == [TrainingOptions("pip", "medusa", "pip", 5.0, **how, draft="pip-draft")]


def test_the_draft_that_is_loaded_helps_to_record_its_target_alone(
    backend: TrainBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[TrainingOptions] = []
    monkeypatch.setattr(Trainings, "start", lambda _, options: started.append(options))
    monkeypatch.setattr(Pickers, "shown", lambda _: ("/m/big.gguf", "/m/small.gguf"))
    asked = {"kind": "eagle3", "prompts": "general", "minutes": "60"}
    for target in ("/m/big.gguf", "pip"):
        backend.train({**asked, "target": target})
    assert [options.pair for options in started] == ["/m/big.gguf::/m/small.gguf", "pip"]


def test_a_long_curve_is_thinned_to_its_ends() -> None:
    points = [(float(at), 0.0) for at in range(5000)]
    kept = thinned(points)
    assert len(kept) == POINTS
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert thinned(points[:10]) == points[:10]
