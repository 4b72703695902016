"""The app over an engine elsewhere: the command line, our own API as a gateway, and switching back."""

from __future__ import annotations

import io
import json
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cli import cli
from app.inventory import open_inventory
from app.runtime import Runtime
from engine.api import LoadRequest
from engine.errors import ForetokenError, GenerationFailed
from engine.loading.catalog import Catalog
from engine.machine.secrets import server_key
from engine.remote.engine import RemoteEngine, look_at
from engine.switching import SwitchingEngine
from engine.values.address import Address
from tests.support.model_server import Played, playing, said, sse
from tests.support.processes import free_port, running
from tests.support.recital import reciting_engine
from tests.support.serving import Served, fake_runtime, served

TIMINGS = {
    "prompt_n": 5, "prompt_ms": 10.0, "predicted_n": 3, "predicted_ms": 30.0,
    "draft_n": 8, "draft_n_accepted": 3,
}  # fmt: skip
LLAMA = Played(
    models=({"id": "qwen", "owned_by": "llamacpp"},),
    stream=sse(*said("Hello", " there"), {"choices": [], "timings": TIMINGS}),
)


@pytest.fixture(scope="module")
def llama() -> Iterator[Played]:
    with playing(LLAMA) as played:
        yield played


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setenv("FORETOKEN_SERVER_KEYS", str(tmp_path / "keys"))
    return tmp_path


def run(*words: str) -> None:
    """A command as it is typed."""
    cli(list(words), standalone_mode=False)


def test_chat_answers_through_a_server(
    llama: Played, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("chat", "Hi", "--pair", llama.url, "--json", "--data-dir", str(home))
    out, statistics = capsys.readouterr()
    assert "Hello there" in out and "3 of 8 drafted (38\xa0%)" in statistics
    told = json.loads(out.splitlines()[-1])
    assert (told["text"], told["token_ids"], told["completion_tokens"]) == ("Hello there", None, 3)
    assert told["tokens_per_s"] == pytest.approx(100.0)
    # What it does not tell was nought.
    assert (told["rounds"], told["drafted"], told["shared"]) == (None, 8, False)


def test_a_reply_that_fails_ends_the_command(llama: Played, home: Path) -> None:
    refused = {"error": {"message": "the context is full"}}
    llama.refusals.append((400, {}, refused))
    with pytest.raises(GenerationFailed, match="the context is full"):
        run("chat", "Hi", "--pair", llama.url, "--data-dir", str(home))


def test_connect_keeps_a_server_by_a_name_that_chat_takes(
    llama: Played, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("models", "connect", llama.url, "--json", "--data-dir", str(home))
    kept = json.loads(capsys.readouterr().out.splitlines()[-1])["kept"]
    run("chat", "Hi", "--pair", kept, "--data-dir", str(home))
    assert "Hello there" in capsys.readouterr().out
    run("models", "list", "--data-dir", str(home))
    assert llama.url in capsys.readouterr().out
    run("models", "forget-server", kept, "--data-dir", str(home))
    assert "Forgot qwen on" in capsys.readouterr().out


def test_connect_keeps_nothing_of_a_model_that_is_listed_and_cannot_be_connected_to(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It joined the catalog, where each chat with it failed, and its key took the place of another."""
    entry = {"id": "large", "owned_by": "foretoken", "loaded": False}
    refusals: list[Any] = [(400, {}, {"error": "no memory"})]
    monkeypatch.setattr(sys, "stdin", io.StringIO("typed\n"))
    with playing(Played(models=[entry], refusals=refusals)) as played:
        server_key(Address.parse(played.url)).store("earlier")
        with pytest.raises(ForetokenError, match="no memory"):
            run("models", "connect", f"{played.url}#large", "--key", "--data-dir", str(home))
        assert open_inventory(home).catalog.servers == ()
        assert server_key(Address.parse(played.url)).get()[0] == "earlier"


def test_a_server_is_raced_against_another(
    llama: Played, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("race", "Hi", "--pair", llama.url, "--base-pair", f"{llama.url}#qwen")
    run(*words, "--pairs", "2", "--json", "--data-dir", str(home))
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["same_words"] and not told["promises_words"] and len(told["pairs"]) == 2
    place = llama.url.removeprefix("http://")
    assert told["base"] == f"qwen on {place} (Server default)"


@pytest.fixture
def gateway(llama: Played, home: Path) -> Iterator[Served]:
    engine = RemoteEngine()
    runtime: Runtime = fake_runtime(home, engine)  # type: ignore[arg-type]
    engine.load(LoadRequest(target=llama.url))
    with served(runtime) as found:
        yield found


def test_our_api_hands_on_and_keeps_the_figures(gateway: Served) -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
    with gateway.client() as client:
        whole = client.post("/v1/chat/completions", json=body).json()
        lines = client.post("/v1/chat/completions", json={**body, "stream": True}).text
        page = client.get("/metrics").text
        (model,) = client.get("/v1/models").json()["data"]
    assert whole["choices"][0]["message"]["content"] == "Hello there"
    assert whole["usage"]["completion_tokens"] == 3
    assert whole["timings"]["draft_n_accepted"] == 3
    drafting = whole["metrics"]["speculative_decoding"]
    assert (drafting["num_draft_tokens"], drafting["num_spec_steps"]) == (8, None)
    assert drafting["draft_acceptance_rate"] == pytest.approx(3 / 8)
    assert '"content":"Hello"' in lines and lines.rstrip().endswith("data: [DONE]")
    counted = [line for line in page.splitlines() if line.startswith("vllm:spec_decode")]
    assert any("num_accepted_tokens_total" in line and line.endswith(" 6.0") for line in counted)
    assert any(
        "generation_tokens_total" in line and line.endswith(" 6.0") for line in page.splitlines()
    )
    assert model["max_model_len"] is None and model["proposers"] == ["server"]


def test_one_request_asks_for_its_events_and_others_see_none(tmp_path: Path) -> None:
    runtime = fake_runtime(tmp_path, reciting_engine())
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
    with served(runtime) as server, server.client() as client:
        plain = client.post("/v1/chat/completions", json=body).text
        told = client.post("/v1/chat/completions", json={**body, "return_events": True}).text
        for wrong in ({"stream": False}, {"n": 2}):
            answer = client.post(
                "/v1/chat/completions", json={**body, "return_events": True, **wrong}
            )
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] == "return_events"
    assert '"event"' not in plain
    kinds = [
        json.loads(line[6:])["event"]["type"]
        for line in told.splitlines()
        if line.startswith("data: {") and '"event"' in line
    ]
    assert kinds[:2] == ["started", "prefilled"] and kinds[-1] == "finished"


def test_from_this_machine_to_a_server_and_back(llama: Played) -> None:
    from app.paths import catalog_file
    from engine.loading.catalog import load_catalog

    catalog: Catalog = load_catalog(catalog_file())
    with closing(SwitchingEngine(lambda: catalog)) as engine:
        here = engine.load(LoadRequest(target="pip"))
        far = engine.load(LoadRequest(target=llama.url))
        assert engine.loaded == far and engine.local.loaded is None and far.server
        again = engine.load(LoadRequest(target="pip"))
        assert engine.loaded == again and again.name == here.name and not again.server
        engine.unload()
        assert engine.loaded is None


def test_the_server_may_be_gone_when_the_app_starts(home: Path) -> None:
    engine = RemoteEngine()
    runtime: Runtime = fake_runtime(home, engine)  # type: ignore[arg-type]
    runtime.loader.start(LoadRequest(target="http://127.0.0.1:9")).join(60)
    assert "Nothing answers at http://127.0.0.1:9" in runtime.loader.status.message
    with served(runtime) as found:
        answer = httpx.get(f"{found.url}/health", timeout=60)
    assert answer.status_code == 503 and "Nothing answers" in answer.json()["error"]["message"]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_app_is_not_connected_to_itself(llama: Played, home: Path, name: str) -> None:
    """It was, and each request then went round until 30 nested errors came back."""
    engine = RemoteEngine()
    runtime: Runtime = fake_runtime(home, engine)  # type: ignore[arg-type]
    engine.load(LoadRequest(target=llama.url))
    with served(runtime, itself=True) as found:
        address = f"http://{name}:{found.port}"
        with pytest.raises(ForetokenError, match=f"{name}:{found.port} leads back to this"):
            engine.load(LoadRequest(target=address))
        with pytest.raises(ForetokenError, match="leads back to this"):
            look_at(Address.parse(address), None)
        assert engine.loaded is not None and engine.loaded.server.startswith("llama")


@pytest.mark.slow
def test_a_circle_of_two_is_refused_and_one_that_came_about_ends_with_one_error(
    llama: Played, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = RemoteEngine()
    runtime: Runtime = fake_runtime(home, engine)  # type: ignore[arg-type]
    engine.load(LoadRequest(target=llama.url))
    with served(runtime, itself=True) as first:
        place = str(free_port())
        words = ("serve", "--pair", first.url, "--port", place, "--data-dir", str(home / "second"))
        with running([sys.executable, "-m", "app", *words], home / "log") as other:
            second = f"http://127.0.0.1:{place}"
            other.until(lambda: urllib.request.urlopen(f"{second}/health").status)
            with pytest.raises(ForetokenError, match=f"127.0.0.1:{place} leads back to this"):
                engine.load(LoadRequest(target=second))

            # Had both connected at the same time, neither would have seen it.
            monkeypatch.setattr("engine.remote.capabilities.INSTANCE", "")
            engine.load(LoadRequest(target=second))
            body = {"messages": [{"role": "user", "content": "Hi"}]}
            for stream in (False, True):
                asked = {**body, "stream": stream}
                answer = httpx.post(f"{first.url}/v1/chat/completions", json=asked, timeout=30)
                assert answer.text.count("leads back to this Foretoken") == 1
                assert len(answer.text) < 600
