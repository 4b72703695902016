"""The report for who looks for a fault: enough to find it, and nothing private."""

from __future__ import annotations

import logging
import platform
from pathlib import Path

import pytest

from app import diagnostics
from app.web.recent_errors import MOST, RecentErrors
from engine.api import LoadRequest
from engine.loading.catalog import open_catalog
from engine.machine import processor
from tests.app.cli.conftest import Foretoken, foretoken
from tests.support.fake_engine import FakeEngine
from tests.support.places import ROOT

__all__ = ["foretoken"]  # a fixture


@pytest.fixture
def complaints() -> RecentErrors:
    return RecentErrors()


def logged(complaints: RecentErrors) -> logging.Logger:
    log = logging.getLogger("tests.diagnostics")
    log.handlers, log.propagate = [complaints], False
    return log


def test_it_tells_the_machine_the_pair_and_what_went_wrong(complaints: RecentErrors) -> None:
    engine = FakeEngine(
        catalog=lambda: open_catalog(ROOT / "model_catalog.yaml"), loads=LoadRequest(target="pip")
    )
    logged(complaints).warning("The disk is nearly full.")
    loaded = engine.loaded
    engine.close()
    assert loaded is not None
    text = diagnostics.report(loaded, {"data": Path("/data")}, complaints.errors)
    for fact in (
        platform.python_version(),
        processor.name(),
        f"loaded: {loaded.name}",
        "drafts by: draft; has none, draft, ngram",
        "data: /data",
        "warning tests.diagnostics: The disk is nearly full.",
    ):
        assert fact in text


def test_it_holds_neither_the_home_folder_nor_a_key(
    complaints: RecentErrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = Path("/", "home")
    home = homes / "ada"
    monkeypatch.setattr(Path, "home", lambda: home)
    log = logged(complaints)
    file, other = home / "models" / "x.gguf", homes / "grace" / "x"
    log.error("%s refused the key %s, said %s", file, "hf_secret", other)
    try:
        raise ValueError("a chat of Ada's")
    except ValueError:
        log.exception("A page's request failed")
    folders = {"data": home / "data"}
    text = diagnostics.report(None, folders, complaints.errors, secrets=("hf_secret", None))
    assert f"~/models/x.gguf refused the key (hidden), said {homes}/(user)/x" in text
    assert "data: ~/data" in text
    assert "ValueError: test_diagnostics.py:" in text
    for private in ("ada", "grace", "hf_secret", "Ada's"):
        assert private not in text


def test_the_last_complaints_are_kept_and_no_more(complaints: RecentErrors) -> None:
    log = logged(complaints)
    log.setLevel(logging.INFO)
    for number in range(2 * MOST):
        log.info("no complaint")
        log.warning("number %d", number)
    log.warning("a wrong %d")  # its arguments are missing, as a library may have it
    kept = [each.message for each in complaints.errors]
    assert len(kept) == MOST
    assert kept[-1] == "a wrong %d"
    assert kept[-2] == f"number {2 * MOST - 1}"


def test_the_terminal_shows_what_it_showed_before(
    complaints: RecentErrors, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logging writes to it only where there is no handler at all."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    complaints.listen()
    logging.getLogger("app.loading").error("The model is gone.")
    assert capsys.readouterr().err == "The model is gone.\n"
    assert [each.message for each in complaints.errors] == ["The model is gone."]


def test_the_command_prints_it_without_what_only_a_running_app_knows(
    foretoken: Foretoken, tmp_path: Path
) -> None:
    told = foretoken("diagnostics", "--data-dir", tmp_path)
    assert told.status == 0
    assert "instructions: " in told.out
    assert "loaded: nothing" in told.out
