"""The app as it is served: real processes, real sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import httpx
import psutil
import pytest

from app import cli, main
from app.loading import LoadState, LoadStatus
from app.main import Settings
from app.settings.preferences import PreferencesFile
from app.training.runs import State, Trainings
from app.web.listen import Listener, listen
from app.web.switch import ApiSwitch
from engine.api import Loaded, LoadRequest, Watcher
from engine.errors import OutOfMemory
from tests.support.checkpoints import write_random
from tests.support.commands import command
from tests.support.fake_engine import FakeEngine
from tests.support.fixtures import pair
from tests.support.folders import write_model
from tests.support.serving import fake_runtime

__all__ = ["pair"]  # a fixture
pytestmark = pytest.mark.slow

PATIENCE_S = 120.0
"""For an answer of an app that is still importing what its model needs."""


@contextmanager
def running(*words: str, data: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """``foretoken WORDS`` with its address, and what it printed up to there."""
    argv = [sys.executable, "-m", "app", *words, "--port", "0", "--data-dir", str(data)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        printed, address = "", ""
        assert process.stdout is not None
        for line in process.stdout:
            printed += line
            if "Foretoken is at " in line:
                address = line.split("Foretoken is at ")[1].split()[0]
                break
        assert address, printed
        yield process, address, printed
    finally:
        process.kill()
        process.communicate()


def ended_by_ctrl_c(process: subprocess.Popen[str]) -> None:
    """Sends it. Raises AssertionError where the end is not clean."""
    if os.name == "nt":  # there is no such signal for one process
        return
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert rest.strip().endswith("Stopped.")
    assert "Traceback" not in rest


def test_serve_answers_the_api_with_its_key_to_listed_websites_until_ctrl_c(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    origin = "https://friend.example"
    file = tmp_path / "key"
    file.write_text("secret\n")
    file.chmod(0o600)
    words = ("serve", "--pair", str(pair[0]), "--api-key-file", str(file), "--allow-origin", origin)
    with running(*words, data=tmp_path) as (process, address, printed):
        assert "key" not in printed
        http = httpx.Client(base_url=address, timeout=PATIENCE_S)
        assert http.get("/").headers["content-type"].startswith("text/plain")  # no pages
        assert process.stdout is not None and "Ollama's" in process.stdout.readline()
        assert http.get("/v1/models").status_code == 401
        key = {"authorization": "Bearer secret"}
        assert http.get("/v1/models", headers=key).status_code == 200

        asked = {"origin": origin, "access-control-request-method": "POST"}
        preflight = http.options("/v1/chat/completions", headers=asked)
        assert preflight.headers["access-control-allow-origin"] == origin
        foreign = {**asked, "origin": "https://evil.example"}
        preflight = http.options("/v1/chat/completions", headers=foreign)
        assert "access-control-allow-origin" not in preflight.headers
        http.close()
        check_it_rests(process)
        ended_by_ctrl_c(process)


def test_a_page_whose_pair_is_not_on_disk_is_there_and_the_api_is_off_until_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page whose pair is loaded is what ``test_app_in_browser.py`` has."""
    monkeypatch.setenv("FORETOKEN_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    words = ("ui", "--no-browser", "--pair", "smollm2-360m")
    with running(*words, data=tmp_path) as (process, address, _):
        assert process.stdout is not None
        printed = ""
        while "hf download" not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        http = httpx.Client(base_url=address, timeout=PATIENCE_S)
        page = http.get("/")
        assert page.status_code == 200
        assert page.headers["x-content-type-options"] == "nosniff"
        api = http.get("/v1/models")
        assert api.status_code == 404
        assert api.json()["error"]["code"] == "api_off"
        foreign = http.post("/gradio_api/queue/join", headers={"origin": "https://evil.example"})
        assert foreign.status_code == 403
        http.close()
        check_it_rests(process)
        ended_by_ctrl_c(process)


def check_it_rests(process: subprocess.Popen[str]) -> None:
    """Gradio's queue and uvicorn's loop woke up 1,000 and 10 times a second. What comes after the start,
    such as the search for models, is not idle yet, so one quiet second in two minutes is enough."""
    if sys.platform != "linux":  # counts what /proc says
        return
    end, counted = time.monotonic() + 120, [wakeups(process.pid)]
    while time.monotonic() < end and (len(counted) < 2 or counted[-1] - counted[-2] > 5):
        time.sleep(1)
        counted.append(wakeups(process.pid))
    assert counted[-1] - counted[-2] <= 5, counted


def wakeups(pid: int) -> int:
    """How often the process's threads and children gave up the processor to wait."""
    process, count = psutil.Process(pid), 0
    for each in (process, *process.children(recursive=True)):
        for status in Path(f"/proc/{each.pid}/task").glob("*/status"):
            with suppress(OSError):  # a thread that has ended
                count += int(status.read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return count


def test_a_training_ends_with_the_app(tmp_path: Path) -> None:
    """On Ctrl-C too, though it runs in a session of its own."""
    tiny, data = tmp_path / "tiny", tmp_path / "data"
    write_random(tiny)
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(f'{{"prompt": "Door {n}?"}}\n' for n in range(8)))
    order = {"target": str(tiny), "kind": "medusa", "prompts": str(file), "minutes": "30"}
    with running("ui", "--no-browser", "--pair", str(tiny), data=data) as (process, address, _):
        parts = httpx.get(f"{address}/config", timeout=PATIENCE_S).json()["components"]
        part = next(each["id"] for each in parts if each["props"].get("elem_id") == "train-view")
        asked = {"component_id": part, "fn_name": "train", "session_hash": "test", "data": order}
        answer = httpx.post(
            f"{address}/gradio_api/component_server", json=asked, timeout=PATIENCE_S
        )
        assert "refused" not in answer.json()
        current = json.loads((data / "training" / "current.json").read_text())
        training = psutil.Process(current["process"][0])
        try:
            assert training.is_running()
            ended_by_ctrl_c(process)
            training.wait(60)
            status = Trainings(data).status()
            assert status is not None
            assert status.state is State.STOPPED
        finally:
            if training.is_running():
                training.kill()


def test_a_broken_folder_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")

    def never(*_: object) -> None:
        raise AssertionError("it started")

    monkeypatch.setattr(main, "run_server", never)
    foretoken = command(cli.main, tmp_path / "data", monkeypatch, capsys)
    done = foretoken("ui", "--no-browser", "--pair", broken, "--port", 0)
    assert done.status == 2
    assert str(broken) in done.err


@pytest.mark.parametrize("words", [("serve",), ("ui", "--no-browser")])
def test_a_port_that_is_named_and_taken_is_an_error_that_says_who_has_it(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It moved to the next port, and clients of the old one went on talking to a stranger."""
    foretoken = command(cli.main, tmp_path / "data", monkeypatch, capsys)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = foretoken(*words, "--port", port)
    assert (done.status, done.out) == (2, "")
    assert f"Port {port} is used by {psutil.Process().name()} (process {os.getpid()})" in done.err


def test_without_a_named_port_the_next_one_is_taken_and_it_is_said_who_has_the_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listener = listen("127.0.0.1", port)
        with listener.socket:
            main.announce_start(listener)
    printed = capsys.readouterr().out
    assert f"Port {port} is used by" in printed and f"(process {os.getpid()})" in printed
    assert f"using {listener.port}" in printed


@pytest.mark.parametrize(
    ("words", "variable", "key", "said"),
    [
        (("--api-key", "typed"), None, "typed", "can see --api-key"),
        ((), "of-variable", "of-variable", ""),
        (("--api-key-file", "{key}"), None, "of-file", ""),
        (("--api-key-file", "{key}"), "of-variable", "of-file", ""),
        (("--api-key-file", "{open}"), None, "of-open", "chmod 600"),
        (("--api-key-file", "{key}", "--api-key", "typed"), None, None, "not both"),
        (("--api-key-file", "{empty}"), None, None, "does not hold a key"),
        (("--api-key-file", "{missing}"), None, None, "cannot be read"),
        (("--api-key-file", "/dev/zero"), None, None, "does not hold a key"),
    ],
)
def test_a_key_is_given_out_of_sight_or_it_is_said_that_others_see_it(
    words: tuple[str, ...],
    variable: str | None,
    key: str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text, mode in (
        ("key", "of-file\n", 0o600),
        ("open", "of-open", 0o644),
        ("empty", " ", 0o600),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    places = {name: str(tmp_path / name) for name in ("key", "open", "empty", "missing")}
    if variable is not None:
        monkeypatch.setenv("FORETOKEN_API_KEY", variable)
    asked: list[Settings] = []

    def serve(settings: Settings) -> NoReturn:
        asked.append(settings)
        raise SystemExit(0)

    monkeypatch.setattr(main, "serve", serve)
    foretoken = command(cli.main, tmp_path / "data", monkeypatch, capsys)
    done = foretoken("serve", *(word.format(**places) for word in words))
    assert [settings.api_key for settings in asked] == ([] if key is None else [key])
    assert (done.status == 0) == (key is not None)
    assert said in done.err and bool(said) == bool(done.err)


@pytest.mark.parametrize(
    ("settings", "opened"),
    [(Settings(), True), (Settings(browser=False), False), (Settings(pages=False), False)],
)
def test_the_browser_opens_when_the_address_answers(
    settings: Settings, opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr("webbrowser.open", calls.append)
    asked: list[object] = []

    def start(load: LoadRequest, note: str) -> threading.Thread:
        asked.append(load)
        loading = threading.Thread(target=lambda: None)
        loading.start()
        return loading

    looked = threading.Event()
    runtime = SimpleNamespace(
        loader=SimpleNamespace(start=start, status=LoadStatus()),
        found=SimpleNamespace(scan_once=looked.set),
    )
    listener = listen("127.0.0.1", 0)
    with listener.socket:
        main.when_up(runtime, listener, settings)  # type: ignore[arg-type]
        for thread in main.threading.enumerate():
            if thread.name == "browser":
                thread.join(timeout=60)
    assert calls == ([listener.url] if opened else [])
    assert asked == [LoadRequest(target="pip")]
    assert looked.wait(5 if settings.pages else 0) == settings.pages


def test_where_the_last_pair_fails_pip_is_loaded_and_it_is_said_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = FakeEngine()
    runtime = fake_runtime(tmp_path, engine)
    PreferencesFile(tmp_path).remember(LoadRequest(target=str(write_model(tmp_path / "mine"))))
    engine.load_error, failed = OutOfMemory("No room."), engine.load

    def once(request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        if request.target == "pip":
            engine.load_error = None
        return failed(request, watcher)

    engine.load = once  # type: ignore[method-assign]
    settings = main.first_load(tmp_path, Settings(browser=False))
    assert settings.load.target == str(tmp_path / "mine")
    listener = listen("127.0.0.1", 0)
    with listener.socket:
        main.when_up(runtime, listener, settings)
        for thread in threading.enumerate():
            if thread.name == "look for models":
                thread.join(60)
    status = runtime.loader.status
    assert (status.state, status.target_id) == (LoadState.READY, "pip")
    assert status.note == "mine could not be loaded, so pip is used. No room."
    assert status.note in capsys.readouterr().out
    runtime.close()


def test_a_second_app_on_one_data_folder_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with main.using(tmp_path, Settings()) as first:
        assert first
        assert not capsys.readouterr().out
        with main.using(tmp_path, Settings()) as second:
            assert not second
            assert f"Another Foretoken is using {tmp_path}" in capsys.readouterr().out
    with main.using(tmp_path, Settings()) as later:
        assert later
        assert not capsys.readouterr().out


def test_listening_to_the_network_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listener, "urls_elsewhere", ("http://192.168.1.5:7860",))
    listener = listen("0.0.0.0", 0)
    with listener.socket:
        main.announce_ready(listener, Settings(host="0.0.0.0"), "a-key-made-up")
    printed = capsys.readouterr().out
    assert "On other devices of your network: http://192.168.1.5:7860\n" in printed
    assert "everyone on the network" in printed
    assert "The key for this run is a-key-made-up" in printed


def test_pages_beyond_this_machine_have_a_key_whoever_starts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With or without --api-key; they were open to everybody once."""
    keys: list[str | None] = []

    def prepared(_: Path, switch: ApiSwitch, *given: object) -> NoReturn:
        keys.append(switch.api_key)
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "prepare", prepared)
    for host, key in (("0.0.0.0", None), ("0.0.0.0", "own"), ("127.0.0.1", None)):
        with pytest.raises(KeyboardInterrupt):
            main.serve(Settings(host=host, port=0, api_key=key, data_dir=tmp_path, browser=False))
    made_up, own, none = keys
    assert made_up is not None
    assert len(made_up) > 20
    assert (own, none) == ("own", None)
