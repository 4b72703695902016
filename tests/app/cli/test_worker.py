"""``foretoken worker``, as far as nothing of Dynamo's is needed; the rest is in tests/app/worker."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.cli.loading import Status
from engine.loading.progress import LoadProgress, Stage
from tests.app.cli.conftest import Foretoken


def test_whose_worker_has_to_be_said(foretoken: Foretoken) -> None:
    result = foretoken("worker")
    assert result.status == 2
    assert "--dynamo" in result.err


def test_without_dynamo_it_is_said_how_to_get_it(
    foretoken: Foretoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("app.cli.worker.open_inventory")
    monkeypatch.setitem(sys.modules, "dynamo", None)
    monkeypatch.delitem(sys.modules, "app.worker.dynamo", raising=False)
    result = foretoken("worker", "--dynamo")
    assert result.status == 2
    assert "-m pip install ai-dynamo" in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--depth", 99), "depth is 99; it must be 1 to 15"),
        (("--controller", "lucky"), "it must be one of auto, fixed, off"),
        (("--proposer", "oracle"), "choose one of none, draft, ngram"),
        (("--pair", "smollm2-360m", "--proposer", "eagle3"), "needs a head of kind eagle3"),
        (("--pair", "http://127.0.0.1:9"), "is a server, and this needs a model on this machine"),
    ],
)
def test_mistakes_are_told_before_anything_is_fetched(
    foretoken: Foretoken,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[object, ...],
    message: str,
) -> None:
    """A model of gigabytes was fetched, and then it had no draft."""
    monkeypatch.delattr("app.cli.worker.open_inventory")
    result = foretoken("worker", "--dynamo", *words)
    assert result.status == 2
    assert message in result.err
    assert result.out == ""


def test_what_is_done_is_said_where_there_is_no_terminal_too(
    foretoken: Foretoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was silent for minutes while it compiled, as containers run it."""
    built: list[Path | None] = [None]

    def build() -> Path:
        built[0] = Path("native.so")
        return built[0]

    monkeypatch.setattr("engine.backends.native.build.built", lambda: built[0])
    monkeypatch.setattr("engine.backends.native.build.build", build)
    served: list[object] = []
    dynamo = SimpleNamespace(
        read_options=list,
        ServedModel=lambda *given: given,
        serve=lambda *given: served.append(given),
    )
    monkeypatch.setattr("app.cli.worker._dynamo", lambda: dynamo)
    result = foretoken("worker", "--dynamo", "--device", "cpu")
    assert result.status == 0 and len(served) == 1
    said = result.err.splitlines()
    assert said[0].startswith("Compiling the kernels")
    assert any(line.startswith("Loading: reading the target's weights") for line in said)


def test_a_log_has_one_line_for_a_step_however_often_it_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for log, lines in ((True, 2), (False, 0)):
        with Status(log=log) as status:
            for stage in (Stage.TARGET, Stage.TARGET, Stage.DRAFT, Stage.DRAFT):
                status.on_loading(LoadProgress(stage, 1, 2))
        assert len(capsys.readouterr().err.splitlines()) == lines
