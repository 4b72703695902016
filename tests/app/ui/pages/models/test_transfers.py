"""What the Models page says of the disk, and what it opens, without a browser."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from app.storage.store import Store
from app.training.runs import Trainings
from app.ui.controls.pickers import Pickers
from app.ui.controls.settings import Settings
from app.ui.pages.models.backend import ModelsBackend
from app.ui.pages.models.transfers import TransfersBackend
from app.ui.pages.race.backend import RaceBackend
from app.ui.pages.train.backend import TrainBackend
from app.ui.rounds.measurements import Measurements
from engine.errors import InvalidRequest
from tests.app.ui.runs import write_run
from tests.support.folders import write_model
from tests.support.recital import reciting_engine
from tests.support.serving import fake_runtime


@pytest.mark.parametrize("use", ["training", "race"])
def test_a_model_that_a_training_or_a_race_uses_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    model = write_model(tmp_path / "models" / "owner--whole")
    with closing(reciting_engine()) as engine, closing(Store(tmp_path)) as store:
        runtime, measurements = fake_runtime(tmp_path, engine), Measurements()
        TrainBackend(runtime, Trainings(tmp_path), Pickers(runtime))
        RaceBackend(runtime, store, measurements, Settings)
        disk = TransfersBackend(runtime)
        assert [each["in_use"] for each in disk.disk()["kept"]] == [False]
        if use == "race":
            monkeypatch.setattr(measurements, "asked", lambda page: {"place": f" {model}"})
        else:
            write_run(tmp_path, running=True)
            current = tmp_path / "training" / "current.json"
            run = json.loads(current.read_text())
            run["order"]["target"] = str(model)
            current.write_text(json.dumps(run))
        assert [each["in_use"] for each in disk.disk()["kept"]] == [True]
        with pytest.raises(InvalidRequest, match="stop the download, training or race"):
            disk.delete({"path": str(model)})
        assert model.is_dir()


def test_the_address_of_a_file_is_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "My models"
    folder.mkdir()
    with closing(reciting_engine()) as engine:
        found = ModelsBackend(fake_runtime(tmp_path, engine)).browse({"folder": folder.as_uri()})
    assert found["path"] == str(folder)


def test_a_file_that_was_looked_up_before_a_restart_is_not_ignored(tmp_path: Path) -> None:
    with closing(reciting_engine()) as engine:
        transfers = TransfersBackend(fake_runtime(tmp_path, engine))
        with pytest.raises(InvalidRequest, match="Search for the model again"):
            transfers.download({"key": "a/b@main/c.gguf"})
