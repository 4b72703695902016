"""A real llama-server with a real model, where both are installed: what it is taken for, says and
counts."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from app.web.listen import listen
from engine.api import LoadRequest
from engine.bench.real.peers.llama_cpp import SERVER as PROGRAM
from engine.bench.real.peers.llama_cpp import VARIABLE, find
from engine.events import Failed, Finished, FinishReason
from engine.remote.engine import RemoteEngine
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.values.messages import Message
from engine.values.sampling import Sampling
from tests.support.places import real_models

STORY = (Message("user", "Count from one to twenty in words, separated by commas."),)
SERVER = Speculation(proposer="server")
CONTEXT = 512

pytestmark = [pytest.mark.peer, pytest.mark.slow]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = os.environ.get(VARIABLE)
    program = folder and find(Path(folder), PROGRAM)
    if not program:
        pytest.skip(f"{VARIABLE} names no folder with llama-server")
    listener = listen("127.0.0.1", 0)
    listener.socket.close()
    words = [
        str(program),
        *("--model", str(real_models()[0]), "--host", "127.0.0.1", "--port", str(listener.port)),
        *("--ctx-size", str(CONTEXT), "--parallel", "1", "--threads", "2"),
        *("--spec-type", "ngram-simple"),
    ]
    log = (tmp_path_factory.mktemp("llama") / "log").open("w")
    with log, subprocess.Popen(words, stdout=log, stderr=log) as server:
        try:
            found = f"http://127.0.0.1:{listener.port}"
            end = time.monotonic() + 120
            while not _healthy(found):
                assert server.poll() is None and time.monotonic() < end, "it did not start"
                time.sleep(0.1)
            yield found
        finally:
            server.terminate()


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def engine(url: str) -> Iterator[RemoteEngine]:
    with closing(RemoteEngine()) as found:
        found.load(LoadRequest(target=url))
        yield found


def test_it_answers_and_counts_its_drafts(engine: RemoteEngine) -> None:
    loaded = engine.loaded
    assert loaded is not None
    assert loaded.server.startswith("llama-server ")
    assert (loaded.context, loaded.vocabulary) == (CONTEXT, 151936)
    request = Request(messages=STORY, speculation=SERVER, max_tokens=16)
    reply = ReplyState.of(engine.generate(request))
    assert "two, three" in reply.text.lower() and reply.reason is FinishReason.LENGTH
    statistics = reply.statistics
    assert statistics.completion_tokens == 16 and statistics.prompt_tokens > 10
    assert statistics.tokens_per_s and statistics.tokens_per_s > 0
    assert statistics.prefill_s > 0
    assert statistics.accepted <= statistics.drafted


def test_it_stops_draws_and_is_cancelled_as_asked(engine: RemoteEngine) -> None:
    stops = Request(messages=STORY, speculation=SERVER, stop=(",",), max_tokens=16)
    stopped = ReplyState.of(engine.generate(stops))
    assert stopped.reason is FinishReason.STOP and "," not in stopped.text
    assert stopped.statistics.completion_tokens < 16
    sampling = Sampling(temperature=1.0, top_k=20, min_p=0.05, repetition_penalty=1.1, seed=5)
    drawn = Request(messages=STORY, speculation=SERVER, sampling=sampling, max_tokens=8)
    said = ReplyState.of(engine.generate(drawn))
    assert said.text and said.reason is FinishReason.LENGTH
    raw = Request(prompt="one, two, three, four,", speculation=SERVER, max_tokens=6)
    assert "five" in ReplyState.of(engine.generate(raw)).text
    long = engine.generate(Request(messages=STORY, speculation=SERVER, ignore_eos=True))
    long.cancel()
    last = list(long)[-1]
    assert isinstance(last, Finished) and last.reason is FinishReason.CANCELLED


def test_what_is_too_long_is_told_in_its_words(engine: RemoteEngine) -> None:
    words = (Message("user", "word " * 2 * CONTEXT),)
    last = list(engine.generate(Request(messages=words, speculation=SERVER)))[-1]
    assert isinstance(last, Failed) and "context" in last.message
