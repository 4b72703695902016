"""Ollama's ``pull`` and ``keep_alive``: models that come and go."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from app.server.ollama.pull import Pull
from app.server.ollama.schemas import OllamaBody
from app.web.switch import Serving
from engine.loading.inventory import ModelSpec
from tests.app.server.test_on_demand import models, opened
from tests.support.fake_engine import FakeEngine
from tests.support.folders import model_files
from tests.support.hub_server import HostedRepository, HubServer, use_hub
from tests.support.serving import fake_runtime


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    files = model_files(vocabulary=512, hidden=32)
    files |= {"modules.json": b"[]", "1_Pooling/config.json": b'{"pooling_mode_lasttoken": true}'}
    hosted = {"owner/tiny": HostedRepository(files)}
    with HubServer(hosted) as running:
        use_hub(running, tmp_path, monkeypatch)
        yield running


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with opened(tmp_path, Serving(True)) as http:
        yield http


def test_a_model_is_pulled_with_progress_and_can_be_asked(
    client: httpx.Client, hub: HubServer
) -> None:
    answer = client.post("/api/pull", json={"model": "hf.co/owner/tiny"})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[0] == {"status": "pulling manifest"} and lines[-1] == {"status": "success"}
    assert all("error" not in line for line in lines)
    assert all(line["completed"] <= line["total"] for line in lines if "total" in line)
    end = time.monotonic() + 30
    while "owner-tiny" not in models(client):
        assert time.monotonic() < end, models(client)
    body = {
        "model": "hf.co/owner/tiny",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": False,
    }
    answer = client.post("/api/chat", json=body)
    assert answer.json().get("done"), answer.text
    folder = client.runtime.models  # type: ignore[attr-defined]
    (pooling,) = folder.rglob("1_Pooling/config.json")  # what makes it a model for embeddings
    assert b"lasttoken" in pooling.read_bytes()
    again = client.post("/api/pull", json={"model": "hf.co/owner/tiny:latest", "stream": False})
    assert again.json() == {"status": "success"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("llama9", "hf.co/OWNER/NAME:TYPE"),
        ("hf.co/owner/nothing", "owner/nothing"),
        ("hf.co/owner/tiny:Q8_0", "no Q8_0"),
    ],
)
def test_what_is_not_there_is_a_404(
    client: httpx.Client, hub: HubServer, name: str, said: str
) -> None:
    answer = client.post("/api/pull", json={"model": name})
    assert answer.status_code == 404 and said in answer.json()["error"]


def test_without_a_network_a_pull_is_no_404_and_tells_how_to_get_this_type(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It advised to fetch safetensors."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    answer = client.post("/api/pull", json={"model": "hf.co/owner/tiny:Q4_K_M"})
    assert answer.status_code == 503 and '--include "*Q4_K_M*.gguf"' in answer.json()["error"]


def test_a_client_that_leaves_pauses_its_download(client: httpx.Client, hub: HubServer) -> None:
    repository = HostedRepository(model_files(vocabulary=512, hidden=256), pause_s=0.05)
    hub.repositories["owner/slow"] = repository
    downloads = client.runtime.downloads  # type: ignore[attr-defined]
    with client.stream("POST", "/api/pull", json={"model": "owner/slow"}) as answer:
        for line in answer.iter_lines():
            if "completed" in line:
                break
    end = time.monotonic() + 20
    while downloads.working:
        assert time.monotonic() < end
        time.sleep(0.02)
    (left,) = downloads.all().values()
    assert str(left.state) == "paused"


def test_who_leaves_pauses_no_download_that_others_want(hub: HubServer, tmp_path: Path) -> None:
    """One client that left paused what a page had started, or another client waited for."""
    hub.repositories["owner/tiny"].pause_s = 0.5
    spec, held = ModelSpec(id="tiny", name="Tiny", repository="owner/tiny"), Counter[str]()
    with closing(fake_runtime(tmp_path, FakeEngine())) as runtime:
        downloads = runtime.downloads
        key = downloads.start(spec)  # by a page
        Pull(runtime, (spec,), held).close()
        assert downloads.goes_on(key)
        downloads.pause(key)
        while downloads.working:
            time.sleep(0.01)
        first, second = (Pull(runtime, (spec,), held) for _ in range(2))
        first.close()
        assert downloads.goes_on(key)
        second.close()
        assert not downloads.goes_on(key) and not held


def test_a_server_whose_models_people_chose_downloads_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, Serving(False)) as http:
        answer = http.post("/api/pull", json={"model": "hf.co/owner/tiny"})
        assert answer.status_code == 400 and "--load-on-demand" in answer.json()["error"]
    assert http.is_closed


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("5m", 300), ("1h30m", 5400), ("0", 0), ("0s", 0), ("-1m", -1), (-1, -1), (7, 7),
        ("1.5s", 1.5), ("250ms", 0.25), (None, None),
    ],
)  # fmt: skip
def test_durations_are_read_as_go_writes_them(
    given: str | float | None, seconds: float | None
) -> None:
    assert OllamaBody(keep_alive=given).kept_s == seconds


def test_a_model_stays_as_long_as_the_last_request_said(client: httpx.Client) -> None:
    models(client)
    engine = client.engine  # type: ignore[attr-defined]
    body = {"model": "stories260k", "messages": [{"role": "user", "content": "Hello"}]}
    assert client.post("/api/chat", json={**body, "keep_alive": "5m"}).status_code == 200
    (running,) = client.get("/api/ps").json()["models"]
    left = datetime.fromisoformat(running["expires_at"]).timestamp() - time.time()
    assert 200 < left <= 300
    assert client.post("/api/chat", json={**body, "keep_alive": "300ms"}).status_code == 200
    end = time.monotonic() + 20
    while engine.loaded is not None:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert client.post("/api/chat", json={**body, "keep_alive": "300ms"}).status_code == 200
    assert client.post("/api/generate", json={"model": "stories260k", "keep_alive": -1}).json()
    time.sleep(1)
    assert engine.loaded.id == "stories260k"
