"""From one Foretoken to another: everything that its engine tells comes over the wire as it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.runtime import Runtime, create_runtime
from app.web.switch import Serving
from engine import trace
from engine.api import LoadRequest
from engine.errors import ContextExceeded, ModelError, OutOfMemory
from engine.events import (
    Emitted,
    Event,
    Failed,
    Finished,
    FinishReason,
    Prefilled,
    Round,
    Timing,
)
from engine.remote.engine import RemoteEngine
from engine.remote.errors import ServerError
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.values.grammar import Grammar, GrammarKind
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.remote.conftest import Connect
from tests.support.fake_engine import FakeEngine
from tests.support.model_server import Played, sse
from tests.support.serving import Served, fake_runtime, served

PROMPT = (Message("user", "Tell me about the sea."),)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Pip, really computed, behind a key."""
    runtime: Runtime = create_runtime(tmp_path_factory.mktemp("data"), LoadRequest(target="pip"))
    runtime.engine.load(LoadRequest(target="pip"))
    with served(runtime, key="secret") as found:
        yield found


@pytest.fixture(scope="module")
def engine(server: Served) -> Iterator[RemoteEngine]:
    with closing(RemoteEngine(key_of=lambda address: "secret")) as found:
        found.load(LoadRequest(target=f"{server.url}/v1"))
        yield found


def timeless(events: list[Event]) -> list[Event]:
    """Without what a clock says, which no two runs share; a controller that measures is not used here."""
    return [_timeless(event) for event in events]


def _timeless(event: Event) -> Event:
    match event:
        case Prefilled():
            return replace(event, seconds=0.0)
        case Emitted(round=Round() as turn):
            return replace(event, round=replace(turn, timing=Timing(0.0, 0.0, 0.0)))
        case _:
            return event


FIXED = Speculation(proposer="draft", depth=4)
REQUESTS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"sampling": Sampling(temperature=0.8, top_k=40, top_p=0.9, seed=7)},
    "block": {
        "sampling": Sampling(temperature=0.8, seed=7),
        "speculation": Speculation(proposer="draft", depth=4, acceptance=AcceptanceRule.BLOCK),
    },
    "n-grams with options": {
        "speculation": Speculation(
            proposer="ngram", depth=3, options={"prompt_lookup_min": 1, "prompt_lookup_max": 3}
        )
    },
    "predicted": {"predicted": "The sea is a large body of water."},
    "biased, top_logprobs": {"logit_bias": ((5, -100.0),), "top_logprobs": 2},
    "grammar": {"grammar": Grammar(GrammarKind.REGEX, "(yes|no), (red|blue)")},
    "text": {"messages": (), "prompt": "Once upon a time"},
    "tokens, stop": {"messages": (), "token_ids": (5, 6, 7), "stop": ("e",)},
    "plain": {"speculation": Speculation(proposer="none")},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_its_events_are_those_of_its_own_engine(
    server: Served, engine: RemoteEngine, name: str
) -> None:
    seeded = {"messages": PROMPT, "speculation": FIXED, "sampling": Sampling(seed=7)}
    fields: dict[str, Any] = {**seeded, **REQUESTS[name]}
    request = Request(**fields, max_tokens=24, reuse_cache=False)
    own = timeless(list(server.runtime.engine.generate(request)))
    far = timeless(list(engine.generate(request)))
    assert far == own
    assert isinstance(far[-1], Finished) and len(far) > 3
    if name != "plain":
        assert ReplyState.of(far).statistics.drafted > 0


def test_it_is_what_the_server_has_loaded(server: Served, engine: RemoteEngine) -> None:
    there, here = server.runtime.engine.loaded, engine.loaded
    assert there is not None and here is not None
    assert here.capabilities == there.capabilities
    assert (here.context, here.vocabulary, here.parameters) == (
        there.context,
        there.vocabulary,
        there.parameters,
    )
    assert here.name == f"{there.name} on 127.0.0.1:{server.port}"
    assert (here.target_name, here.draft_name) == (there.target_name, there.draft_name)
    assert here.server.startswith("Foretoken ")


def test_tokens_that_do_not_fit_are_refused_here_and_text_there(engine: RemoteEngine) -> None:
    assert engine.loaded is not None
    with pytest.raises(ContextExceeded):
        engine.generate(Request(token_ids=(1,) * engine.loaded.context, speculation=FIXED))
    words = Message("user", "sea " * 2 * engine.loaded.context)
    *_, last = engine.generate(Request(messages=(words,), speculation=FIXED))
    assert isinstance(last, Failed) and "the context holds" in last.message


def test_a_reply_that_is_cancelled_here_is_ended_there(
    server: Served, engine: RemoteEngine
) -> None:
    request = Request(messages=PROMPT, speculation=FIXED, ignore_eos=True, max_tokens=900)
    generation = engine.generate(request)
    begun = threading.Event()
    generation.listen(lambda event: begun.set() if isinstance(event, Emitted) else None)
    assert begun.wait(60)
    generation.cancel()
    *_, last = generation
    assert isinstance(last, Finished) and last.reason is FinishReason.CANCELLED
    assert last.token_ids and last.text
    # It waits behind what was cancelled, and would behind 900 tokens.
    *_, finished = engine.generate(replace(request, max_tokens=2, ignore_eos=False))
    assert isinstance(finished, Finished)


def test_a_model_that_is_not_in_its_memory_is_loaded_there(tmp_path: Path) -> None:
    """It was told that the versions differ: what a model can is listed of the loaded one alone."""
    there = FakeEngine()
    runtime = fake_runtime(tmp_path, there)
    runtime.serving = Serving(True)
    with served(runtime) as found, closing(RemoteEngine()) as engine:
        with pytest.raises(ModelError, match="Choose one with"):
            engine.load(LoadRequest(target=found.url))
        for name in ("pip", "pip-draft"):
            loaded = engine.load(LoadRequest(target=f"{found.url}#{name}"))
            assert there.loaded is not None and there.loaded.target_id == loaded.target_name == name
            assert loaded.capabilities == there.loaded.capabilities
        there.load(LoadRequest(target="pip"))  # by somebody else
        *_, last = engine.generate(
            Request(messages=PROMPT, speculation=Speculation(proposer="none"))
        )
        assert isinstance(last, Finished) and there.loaded.target_id == "pip-draft"
        there.load(LoadRequest(target="pip"))
        there.load_error = OutOfMemory("No room.")
        with pytest.raises(ServerError, match="No room"):
            engine.load(LoadRequest(target=f"{found.url}#pip-draft"))


def test_a_server_of_another_version_says_so(connect: Connect) -> None:
    model = {"id": "pip", "owned_by": "foretoken", "loaded": True, "capabilities": {"new": 1}}
    with pytest.raises(Exception, match="Update both to the same version"):
        connect(Played(models=[model]))


BAD_TEXT = {**trace.to_json(Emitted(text="")), "text": ["a"]}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"v": 99, "type": "started"}, "newer version of Foretoken"),
        (BAD_TEXT, "not an event of a trace: it has an invalid value"),
    ],
)
def test_events_that_are_none_are_told(
    server: Served, connect: Connect, event: dict[str, Any], told: str
) -> None:
    """A text that was none ended the thread that publishes, so the reply and ``unload`` never ended."""
    with server.client(headers={"Authorization": "Bearer secret"}) as client:
        entry = client.get("/v1/models").json()
    played = Played(models=entry["data"], stream=sse({"choices": [], "event": event}))
    engine = connect(played)
    *before, last = engine.generate(Request(messages=PROMPT, speculation=FIXED))
    assert not before and isinstance(last, Failed) and told in last.message
    engine.unload()
    assert engine.loaded is None
