"""The engine elsewhere against another Foretoken, whose own engine is the fake."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine.api import Generation, Loaded, LoadRequest, Watcher
from engine.events import Emitted, Event
from engine.remote.engine import RemoteEngine
from engine.request import Request
from engine.scheduler import Publish
from tests.support.fake_engine import CAPABILITIES, FakeEngine, Script
from tests.support.serving import fake_runtime, served

PATIENCE = 60.0


class Far(FakeEngine):
    """A fake that stands still behind each text until ``go_on`` is set, and knows where it is served."""

    url = ""

    def __init__(self, script: Callable[[Request], Script]) -> None:
        super().__init__(script)
        self.go_on = threading.Event()
        self.go_on.set()

    def _recite(self, generation: Generation, prompt: Sequence[int], publish: Publish) -> None:
        def standing(event: Event) -> None:
            publish(event)
            if isinstance(event, Emitted):
                assert self.go_on.wait(PATIENCE)

        super()._recite(generation, prompt, standing)


@contextmanager
def far_away(data_dir: Path, script: Callable[[Request], Script]) -> Iterator[Far]:
    """A server over it."""
    far = Far(script)
    with served(fake_runtime(data_dir, far)) as server:
        far.url = server.url
        yield far
        far.go_on.set()


class ServedEngine(RemoteEngine):
    """What is loaded is loaded there, and then connected to."""

    def __init__(self, far: Far) -> None:
        super().__init__()
        self.far = far
        far.capabilities = CAPABILITIES
        far.go_on.set()

    def load(self, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        """See ``Engine.load``."""
        if self._closed:
            return super().load(LoadRequest(target=self.far.url))
        self.far.load(request)
        return super().load(LoadRequest(target=self.far.url), watcher)
