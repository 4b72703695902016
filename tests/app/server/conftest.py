"""The real API on a real socket with the real engine, on Pip and on small models beside the repository.

The engine runs unchanged; its generations also write down their events, and a test can make it
wait between two of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from openai import OpenAI

from app.main import Settings, create_app
from app.runtime import Runtime, create_runtime
from app.web.listen import listen
from app.web.switch import ApiSwitch
from engine.api import Generation, LoadRequest
from engine.events import Emitted, Event
from engine.kernels.native.library import Library
from engine.request import Request
from engine.tool_calls.styles import HERMES
from tests.support.fake_engine import CAPABILITIES, FakeEngine, Script
from tests.support.loading import request_for
from tests.support.places import PIP, beside
from tests.support.serving import Served, fake_runtime, served


class Recorder:
    """What the engine did since ``clear``, one list of events a generation, in order."""

    def __init__(self) -> None:
        self.traces: list[list[Event]] = []
        self.replies: list[Generation] = []
        self._go_on = threading.Event()
        self._go_on.set()

    def clear(self) -> None:
        self.traces.clear()
        self.replies.clear()
        self._go_on.set()

    def hold(self) -> None:
        """The engine waits when it next has emitted something, until ``release``."""
        self._go_on.clear()

    def release(self) -> None:
        self._go_on.set()

    def kind(self) -> type[Generation]:
        """``Generation``, observed."""
        recorder = self

        class Observed(Generation):
            def __init__(self, *given: Any) -> None:
                super().__init__(*given)
                self.trace: list[Event] = []
                recorder.replies.append(self)
                recorder.traces.append(self.trace)

            def publish(self, event: Event) -> None:
                self.trace.append(event)
                super().publish(event)
                if isinstance(event, Emitted):
                    assert recorder._go_on.wait(60)

        return Observed


@dataclass(frozen=True)
class Server:
    """A running API."""

    url: str
    runtime: Runtime
    switch: ApiSwitch
    recorder: Recorder

    @property
    def model(self) -> str:
        loaded = self.runtime.engine.loaded
        assert loaded is not None
        return loaded.id

    def direct(self, request: Request) -> list[Event]:
        """The engine's own events for a request."""
        return list(self.runtime.engine.generate(request))

    def idle(self, within_s: float = 20) -> bool:
        """Whether the engine gets free in time."""
        end = time.monotonic() + within_s
        while self.runtime.engine.busy and time.monotonic() < end:
            time.sleep(0.005)
        return not self.runtime.engine.busy


@pytest.fixture(scope="session")
def anthropic() -> Any:
    """Its package, which takes two seconds to import: only where a test asks for it."""
    import anthropic

    return anthropic


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts servers on free ports; all are stopped in the end."""
    running: list[tuple[uvicorn.Server, threading.Thread, Runtime]] = []
    recorder = Recorder()
    patch = pytest.MonkeyPatch()
    patch.setattr("engine.scheduler.Generation", recorder.kind())

    def starting(
        target: Path | None = None,
        draft: Path | None = None,
        *,
        on: bool = True,
        key: str | None = None,
        origins: tuple[str, ...] = (),
        parallel: int = 1,
    ) -> Server:
        runtime = create_runtime(tmp_path_factory.mktemp("data"), LoadRequest(target="pip"))
        if target is not None:
            runtime.engine.load(request_for(target, draft, parallel=parallel))
        switch = ApiSwitch(on, api_key=key, origins=origins, pages=False)
        settings = Settings(pages=False, api=on, api_key=key)
        listener = listen("127.0.0.1", 0)
        config = uvicorn.Config(
            create_app(runtime, switch, settings), log_level="warning", ws="none"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener.socket]})
        thread.start()
        running.append((server, thread, runtime))
        while not server.started:
            time.sleep(0.01)
        return Server(listener.url, runtime, switch, recorder)

    yield starting
    recorder.release()
    for server, thread, runtime in running:
        server.should_exit = True
        thread.join(20)
        runtime.close()
    patch.undo()


@pytest.fixture(scope="session")
def paired(start: Callable[..., Server]) -> Server:
    """Pip with its draft."""
    return start(PIP / "target", PIP / "draft")


@pytest.fixture(scope="session")
def alone(start: Callable[..., Server]) -> Server:
    """Pip's target; no draft."""
    return start(PIP / "target")


@pytest.fixture(scope="session")
def crowded(start: Callable[..., Server], library: Library) -> Server:
    """Pip's target and draft, four requests at once."""
    return start(PIP / "target", PIP / "draft", parallel=4)


@pytest.fixture(scope="session")
def stories_server(start: Callable[..., Server]) -> Server:
    """A Llama whose vocabulary has single bytes; no chat template, no draft."""
    return start(beside("stories260K"))


@pytest.fixture(scope="session")
def foreign(start: Callable[..., Server]) -> Server:
    """A model of another architecture, with a chat template; no draft."""
    return start(beside("tiny-chat-gptneo"))


@pytest.fixture(scope="session")
def empty(start: Callable[..., Server]) -> Server:
    """No model is loaded."""
    return start()


class _Caller(FakeEngine):
    """Says something, then calls twice, with ``before`` and ``behind`` each call's object."""

    def __init__(self, before: str, behind: str) -> None:
        capabilities = replace(CAPABILITIES, calls=HERMES, grammars=True)
        text = "Let me look.\n" + "\n".join(
            f'{before}{{"name": "get_weather", "arguments": {{"city": "{city}"}}}}{behind}'
            for city in ("Rome", "Oslo")
        )
        script = Script([text[at : at + 3] for at in range(0, len(text), 3)])
        super().__init__(lambda _: script, capabilities=capabilities)


@pytest.fixture(
    scope="session",
    params=[("<tool_call>\n", "\n</tool_call>"), ("{", "}"), ("{", "")],
    ids=["marked", "doubled", "doubled, closed once"],
)
def caller(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """One that says "Let me look." and asks for the weather in Rome and in Oslo, whatever is said: as
    Qwen2.5's template has it, and with the doubled braces that Qwen2.5-Coder copies from its own."""
    runtime = fake_runtime(tmp_path_factory.mktemp("data"), _Caller(*request.param))
    runtime.engine.load(LoadRequest(target="pip"))
    with served(runtime) as running:
        yield running


@pytest.fixture
def server(paired: Server) -> Iterator[Server]:
    """The pair's server, free and with an empty record; free again afterwards."""
    assert paired.idle()
    paired.recorder.clear()
    yield paired
    paired.recorder.release()
    assert paired.idle()


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    """For what the openai package would not send."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client
