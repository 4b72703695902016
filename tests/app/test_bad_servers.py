"""Servers that are down, slow, busy, broken or something else, as the command line and clients of our own
API are told of them; the pages' side is in ``tests/app/ui/test_servers_in_browser.py``, all that can be
said in ``tests/engine/remote/test_errors.py``."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from app.cli import cli
from app.runtime import Runtime
from engine.api import LoadRequest
from engine.errors import ForetokenError
from engine.remote import errors
from engine.remote.engine import RemoteEngine
from tests.support.model_server import Part, Played, playing, said, sse
from tests.support.processes import free_port
from tests.support.serving import Served, fake_runtime, served

HALF = sse(*said("Half", reason=None), done=False)
BUSY = {"error": {"message": "Too many requests"}}

NOBODY: dict[str, tuple[Played | None, str, str]] = {
    "down": (None, "", "Nothing answers at"),
    "another language": (
        Played(found={"/v1/models": "<html></html>"}),
        "",
        "not speak OpenAI's protocol",
    ),
    "no models": (Played(models=()), "", "has no models"),
    "another model": (Played(), "#large", "has no model 'large'. It has: small."),
    "its key": (Played(key="right"), "", "needs a key"),
    "busy": (
        Played(found={"/v1/models": (429, {"Retry-After": "3600"}, BUSY)}),
        "",
        "Try again in 3600 s",
    ),
}
"""Servers that cannot be connected to, and what is said of each."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    if "slow" in request.node.name:  # the others have time: the machine may be slow, too
        monkeypatch.setattr("engine.remote.connection.SILENCE_S", 1.0)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setenv("FORETOKEN_SERVER_KEYS", str(tmp_path / "keys"))
    monkeypatch.delenv("FORETOKEN_SERVER_KEY", raising=False)
    return tmp_path


def chat(url: str, home: Path) -> None:
    """The command, as it is typed."""
    words = ["chat", "Hi", "--pair", url, "--data-dir", str(home)]
    cli(words, standalone_mode=False)


@pytest.mark.parametrize("name", NOBODY)
def test_one_that_cannot_be_connected_to_is_told_of(name: str, home: Path) -> None:
    played, model, told = NOBODY[name]
    with ExitStack() as stack:
        if played is None:
            url = f"http://127.0.0.1:{free_port()}"
        else:
            url = stack.enter_context(playing(played)).url
        with pytest.raises(ForetokenError, match=told):
            chat(f"{url}{model}", home)
        engine = stack.enter_context(closing(RemoteEngine()))
        runtime: Runtime = fake_runtime(home, engine)  # type: ignore[arg-type]
        runtime.loader.start(LoadRequest(target=f"{url}{model}")).join(60)
        server = stack.enter_context(served(runtime))
        with server.client() as client:
            body = {"messages": [{"role": "user", "content": "Hi"}]}
            answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 503 and told in answer.json()["error"]["message"]


Reply = tuple[Callable[[], list[Part]], list[tuple[int, dict[str, str], Any]], str, int, str | None]
REPLIES: dict[str, Reply] = {
    "slow": (lambda: [*HALF, threading.Event()], [], "sent nothing for", 500, None),
    "malformed": (
        lambda: [*HALF, b"data: {oops\n\n"],
        [],
        "does not speak OpenAI's protocol",
        500,
        None,
    ),
    "an end without an end": (lambda: HALF, [], "was lost during the reply", 500, None),
    "cut off": (lambda: [*HALF, None], [], "was lost during the reply", 500, None),
    "429": (list, [(429, {"Retry-After": "3600"}, BUSY)], "in 3600 s", 503, "3600"),
    "503": (list, [(503, {}, BUSY)] * errors.ATTEMPTS, "is unavailable", 503, "1"),
    "400": (list, [(400, {}, BUSY)], "refused the request (400): Too many requests", 400, None),
    "its key is another now": (list, [(401, {}, BUSY)], "needs a key (401", 500, None),
}
"""What it answers: a stream, and refusals before it; what is said of that, and the status and
``Retry-After`` of our API."""


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    with playing(Played()) as found:
        yield found


@pytest.fixture
def gateway(played: Played, home: Path) -> Iterator[Served]:
    with closing(RemoteEngine()) as engine:
        runtime: Runtime = fake_runtime(home, engine)  # type: ignore[arg-type]
        engine.load(LoadRequest(target=played.url))
        with served(runtime) as found:
            yield found


@pytest.mark.parametrize("name", REPLIES)
def test_one_that_breaks_off_or_refuses_is_told_of_and_what_came_is_kept(
    name: str, played: Played, gateway: Served, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream, refusals, told, status, wait = REPLIES[name]
    came = "Half" if stream is not list else ""

    def misbehave() -> None:
        played.stream, played.refusals = stream(), list(refusals)

    misbehave()
    with pytest.raises(ForetokenError) as caught:
        chat(played.url, home)
    assert told in str(caught.value) and came in capsys.readouterr().out
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    with gateway.client() as client:
        misbehave()
        whole = client.post("/v1/chat/completions", json=body)
        misbehave()
        lines = client.post("/v1/chat/completions", json={**body, "stream": True}).text
    assert (whole.status_code, whole.headers.get("Retry-After")) == (status, wait)
    assert told in whole.json()["error"]["message"]
    chunks = [json.loads(line[6:]) for line in lines.splitlines() if line.startswith("data: {")]
    deltas = [each["delta"] for chunk in chunks for each in chunk.get("choices", ())]
    assert "".join(delta.get("content") or "" for delta in deltas) == came
    assert told in chunks[-1]["error"]["message"]
