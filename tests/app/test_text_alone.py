"""An engine elsewhere may tell text and no rounds, nor even tokens: everything goes on without."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cli.text import output, replies
from app.main import Settings as AppSettings
from app.main import create_app
from app.paths import catalog_file
from app.runtime import Runtime
from app.storage.store import Store
from app.ui.controls.settings import Settings
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.race.backend import RaceBackend, side_of
from app.ui.rounds.measurements import Measurements
from app.web.switch import ApiSwitch
from engine import trace
from engine.events import Emitted, Finished, FinishReason, Origin, Started, Token
from engine.loading.catalog import open_catalog
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.values.messages import Message
from tests.app.ui.following import followed
from tests.support.fake_engine import CAPABILITIES, FakeEngine
from tests.support.recital import REPLIES, reciting_engine

TEXT = REPLIES["plain"]


@pytest.fixture(params=["tokens", "text"])
def engine(request: pytest.FixtureRequest) -> Iterator[FakeEngine]:
    """One that tells tokens and when they came, and one that tells text alone."""
    tells = replace(
        CAPABILITIES, rounds=False, probabilities=False, tokens=request.param == "tokens"
    )
    found = reciting_engine(capabilities=tells)
    yield found
    found.close()


@pytest.fixture
def tokens(request: pytest.FixtureRequest, engine: FakeEngine) -> bool:
    assert engine.loaded is not None
    return engine.loaded.capabilities.tokens


def test_the_chat_page_shows_and_keeps_it(engine: FakeEngine, tokens: bool, tmp_path: Path) -> None:
    store = Store(tmp_path)
    runtime = Runtime(engine, open_catalog(catalog_file()), tmp_path, tmp_path / "models")
    backend = ChatBackend(runtime, store)
    first = backend.reply({"action": "send", "text": "Hi", "chat": None}, Settings())
    writing = backend.live_replies.find(first["run"])
    assert writing is not None
    assert writing.done.wait(20)
    packet = writing.feed.packet(0)
    texts = [event for event in packet["events"] if event["t"] == "text"]
    assert "".join(event["s"] for event in texts) == TEXT
    assert all(bool(event["k"]) is tokens for event in texts)
    reply = store.messages(first["chat"])[-1]
    assert (reply.text, reply.status) == (TEXT, "done")
    marks = [(mark[0], int(mark[1:])) for mark in reply.marks.split()]
    assert {origin for origin, _ in marks} == ({"n"} if tokens else set())
    assert sum(length for _, length in marks) == (len(TEXT) if tokens else 0)
    shown = backend.rounds({"message": reply.id})
    assert shown["rounds"] == []
    assert packet["stats"]["rounds"] == 0
    assert (packet["stats"]["tokens_per_s"] is not None) is tokens
    kept = list(trace.read(store.trace(reply.id)))
    assert "".join(event.text for event in kept if isinstance(event, Emitted)) == TEXT
    store.close()


@pytest.mark.parametrize("prompt", ["Hi", "differ"])
def test_a_race_compares_what_it_has(
    engine: FakeEngine, tokens: bool, tmp_path: Path, prompt: str
) -> None:
    runtime = Runtime(engine, open_catalog(catalog_file()), tmp_path, tmp_path / "models")
    measurements, own = Measurements(), Settings(proposer="draft", temperature=0.0)
    with closing(Store(tmp_path)) as store:
        backend = RaceBackend(runtime, store, measurements, lambda: own)
        sides = [side_of(replace(own, proposer="none")), side_of(own)]
        asked = {"source": "prompt", "prompt": prompt, "sides": sides, "seed": None}
        number = backend.start({**asked, "max_tokens": 16})["number"]
        told = followed(measurements, "race", number)
    if not tokens:  # nor when they came
        assert told[-1]["t"] == "broken" and "cannot be timed" in told[-1]["message"]
        return
    words = next(event for event in told if event["t"] == "words")
    assert (words["different"] == 0) is (prompt == "Hi")
    standing = [event for event in told if event["t"] == "standing"][-1]
    assert standing["median"] > 0


@pytest.mark.parametrize("stream", [False, True])
def test_the_server_answers_without_what_it_is_not_told(
    engine: FakeEngine, tokens: bool, tmp_path: Path, stream: bool
) -> None:
    runtime = Runtime(engine, open_catalog(catalog_file()), tmp_path, tmp_path / "models")
    app = create_app(runtime, ApiSwitch(True), AppSettings(pages=False, api=True))
    body = {
        "model": "pip",
        "messages": [{"role": "user", "content": "Hi"}],
        "logprobs": True,
        "stream": stream,
        "stream_options": {"include_usage": True} if stream else None,
    }

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post("/v1/chat/completions", json=body)

    response = asyncio.run(ask())
    assert response.status_code == 200, response.text
    if stream:
        lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
        chunks = [json.loads(line) for line in lines]
        parts = [choice for chunk in chunks for choice in chunk["choices"]]
        assert "".join(part["delta"].get("content", "") for part in parts) == TEXT
        answer: dict[str, Any] = chunks[-1]
        logprobs = [part["logprobs"] for part in parts if part["logprobs"]]
    else:
        answer = response.json()
        assert answer["choices"][0]["message"]["content"] == TEXT
        logprobs = [each for each in [answer["choices"][0]["logprobs"]] if each]
    told = [entry["token"] for each in logprobs for entry in each["content"]]
    assert "".join(told) == (TEXT if tokens else "")
    assert answer["usage"]["completion_tokens"] == len(told)
    assert answer["metrics"]["speculative_decoding"] is None


def test_the_terminal_prints_it_and_leaves_out_what_is_not_known(
    engine: FakeEngine, tokens: bool
) -> None:
    request = Request(messages=(Message("user", "Hi"),), speculation=Speculation(proposer="draft"))
    for marks in (None, output.PLAIN):
        stream = io.StringIO()
        reply = replies.answer(engine, request, output.Printer(stream, marks).show)
        assert stream.getvalue().strip() == TEXT
    said = output.summary(reply.statistics)
    assert "rounds" not in said
    assert "mean acceptance length" not in said
    assert ("tokens/s" in said) is tokens
    found = replies.as_json([reply])
    assert (found["token_ids"] is None) is not tokens
    assert replies.as_json([reply, reply])["text"] == f"{TEXT}\n{TEXT}"


@pytest.mark.parametrize("marks", [None, output.PLAIN])
def test_held_back_text_is_printed_at_the_end(marks: output.Marks | None) -> None:
    """With marks it was left out, as if tokens had brought it."""
    stream = io.StringIO()
    printer = output.Printer(stream, marks)
    for event in (Emitted(text="Once"), Finished(FinishReason.STOP, " upon", "Once upon", None)):
        printer.show(event)
    assert stream.getvalue() == "Once upon\n"


@pytest.mark.parametrize("marks", [None, output.STYLED])
def test_a_reply_cannot_steer_the_terminal(marks: output.Marks | None) -> None:
    """Its escape sequences were written as they came: they could fill the clipboard."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    printer, hostile = (
        output.Printer(terminal, marks),
        "a\x1b]52;c;x\x07\x9b2J\r\u202eb\tü\xa0\u3000\n",
    )
    printer.show(Emitted(text=hostile))
    token = Token(1, hostile, 0, Origin.BONUS)
    printer.show(Emitted(text=hostile, tokens=(token,)))
    printer.show(Finished(FinishReason.STOP, hostile, hostile, None))
    shown = "a?]52;c;x??2J??b\tü\xa0\u3000\n"
    own = "\x1b[4m{}\x1b[0m" if marks else "{}"
    assert terminal.getvalue() == f"{shown}{own.format(shown)}{shown}\n"


def test_a_thought_that_the_prompt_opened_is_told_from_the_answer() -> None:
    """Nothing showed that it was one but the mark behind it."""
    text, stream = "It is 3.\n</think>\n\nThree.", io.StringIO()
    events = (
        Started("tale", "none", "greedy", None, thinking=True),
        *(Emitted(text=each) for each in text),
        Finished(FinishReason.STOP, "", text, None),
    )
    printer = output.Printer(stream)
    for event in events:
        printer.show(event)
    assert stream.getvalue() == "(thinking)\nIt is 3.\n(answer)\nThree.\n"
    found = replies.as_json([ReplyState.of(events)])
    assert (found["text"], found["reasoning"]) == (text, "It is 3.")
