"""Servers that are down, slow, busy or broken, or no such servers: each is told plainly, and what had
arrived is kept."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from itertools import repeat
from typing import Any

import pytest

from engine.api import LoadRequest
from engine.errors import InvalidRequest, LoadCancelled, ModelError
from engine.events import Counted, Emitted, Failed, Finished, FinishReason
from engine.machine.secrets import SERVER_KEY_FOLDER, server_key
from engine.remote import errors
from engine.remote.engine import RemoteEngine, look_at
from engine.remote.errors import ServerError
from engine.remote.reading import Reading
from engine.request import Request, Speculation
from engine.values.address import Address
from engine.values.messages import Message
from tests.engine.remote.conftest import Connect
from tests.support.model_server import Played, playing, said, sse

ASKED = Request(messages=(Message("user", "Hi"),), speculation=Speculation(proposer="server"))
BUSY = {"error": {"message": "Too many requests"}}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "BACKOFF_S", 0.001)


def failed(engine: RemoteEngine) -> tuple[str, str]:
    """The text that came, and what was said of its end."""
    *events, last = engine.generate(ASKED)
    assert isinstance(last, Failed)
    return "".join(each.text for each in events if isinstance(each, Emitted)), last.message


def error_at(url: str) -> str:
    with closing(RemoteEngine()) as engine, pytest.raises((ServerError, ModelError)) as caught:
        engine.load(LoadRequest(target=url))
    return str(caught.value)


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        said_of_it = error_at(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert (
        "Nothing answers at http://127.0.0.1" in said_of_it
        and "Is the server running" in said_of_it
    )


def test_it_lets_in_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some seconds it was said that they were five minutes, which only a reply is given."""
    monkeypatch.setattr("engine.remote.server.QUERY_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told = error_at(f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert "sent nothing for 2 seconds" in told


@pytest.mark.parametrize(
    "found",
    [
        {"/v1/models": "<html>A page</html>"},
        {"/v1/models": {"data": [{"name": "x"}]}},
        {"/v1/models": "[" * 9000},
    ],
)
def test_something_else_answers(found: dict[str, Any]) -> None:
    with playing(Played(found=found)) as played:
        assert "does not speak OpenAI's protocol" in error_at(played.url)


def test_it_has_no_models_or_not_that_one() -> None:
    with playing(Played(models=())) as played:
        assert "has no models" in error_at(played.url)
    with playing(Played(models=({"id": "\u202esmall"},))) as played:  # it is drawn in menus
        assert "has no models" in error_at(played.url)
    with playing(Played()) as played:
        assert "has no model 'large'. It has: small." in error_at(f"{played.url}#large")


def test_keys_are_asked_for_kept_and_sent(connect: Connect) -> None:
    with playing(Played(key="right", stream=sse(*said("Yes")))) as played:
        assert "needs a key" in error_at(played.url)
        address = Address.parse(played.url)
        server_key(address).store(" wrong\n")
        assert server_key(address).file.stat().st_mode & 0o777 == 0o600
        assert "rejected the key" in error_at(played.url)
        server_key(address).store("right")
        assert list(connect(played).generate(ASKED))[-1] == Finished(
            FinishReason.STOP, "", "Yes", None, Counted()
        )
        assert {each.key for each in played.asked[-2:]} == {"right"}
        assert (
            server_key(address).delete()
            and not server_key(address).delete()
            and server_key(address).get()[0] is None
        )
        with pytest.raises(InvalidRequest, match="not a key"):
            server_key(address).store("two words")


@pytest.mark.parametrize(
    ("stream", "text", "told"),
    [
        (sse(*said("Half", reason=None), done=False), "Half", "was lost during the reply"),
        ([*sse(*said("Half", reason=None), done=False), None], "Half", "was lost during the reply"),
        (
            [*sse(*said("Half", reason=None), done=False), b"data: {oops\n\n"],
            "Half",
            "does not speak OpenAI's",
        ),
        (
            [*sse(*said("Half", reason=None), done=False), b"data: 5\n\n"],
            "Half",
            "does not speak OpenAI's",
        ),
        (
            sse(*said("Half", reason=None), {"choices": 5}),
            "Half",
            "does not speak OpenAI's protocol",
        ),
        (
            [*sse(*said("Half", reason=None), done=False), b"data: " + b"[" * 9000 + b"\n\n"],
            "Half",
            "does not speak OpenAI's",
        ),
        (sse(*said("Half", reason=None), {"error": {"message": "no memory"}}), "Half", "no memory"),
    ],
    ids=["ends", "cut", "no JSON", "no object", "no choices", "nested", "an error"],
)
def test_a_reply_that_breaks_off_keeps_what_arrived(
    connect: Connect, stream: list[Any], text: str, told: str
) -> None:
    played = Played(stream=stream)
    engine = connect(played)
    came, message = failed(engine)
    assert came == text and told in message and "kept" in message
    assert "chunk" not in message  # of the library's words
    played.stream = sse(*said("Whole"))
    assert isinstance(list(engine.generate(ASKED))[-1], Finished)


def test_a_reply_that_cannot_be_published_ends(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would hold its connection for ever: ``unload`` waits for the last reply."""
    monkeypatch.setattr(Reading, "add", lambda reading, chunk: ["no text"])
    engine = connect(Played(stream=sse(*said("Half"))))
    assert "does not speak OpenAI's protocol" in failed(engine)[1]
    engine.unload()


def test_a_reply_whose_end_cannot_be_explained_ends(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for ever for its last event, and ``unload`` for it."""
    monkeypatch.delattr(errors, "explain")
    engine = connect(Played(stream=sse(*said("Half", reason=None))))
    assert isinstance(list(engine.generate(ASKED))[-1], Finished)
    engine.unload()


def test_numbers_that_cannot_be_computed_with_are_none(connect: Connect) -> None:
    """A chat with NaN could not be opened again, for JSON has none; the histogram stopped every server's
    replies, for it was counted up to its largest key."""
    odd = [float("nan"), float("inf"), -1, 10**400, 1e300, True, "3", None]
    for number in odd:
        timings = dict.fromkeys(("predicted_n", "predicted_ms", "prompt_ms", "draft_n"), number)
        drafts = {"num_draft_tokens": number, "acceptance_histogram": {"9" * 15: 1, "a": number}}
        told = {"timings": timings, "metrics": {"speculative_decoding": drafts}}
        choice = {"index": 0, "delta": {}, "avg_decoded_tokens_per_iter": number}
        stream = sse(*said("Whole"), {"choices": [choice], "usage": {}, **told})
        *_, last = connect(Played(stream=stream)).generate(ASKED)
        assert last == Finished(FinishReason.STOP, "", "Whole", None, Counted())


def test_a_key_that_is_none_is_told() -> None:
    with pytest.raises(InvalidRequest, match="one word of ASCII"):
        look_at(Address.parse("http://127.0.0.1:1"), "schl\u00fcssel")


def test_a_page_in_place_of_a_stream(connect: Connect) -> None:
    engine = connect(Played(stream=[b"<html>Log in first</html>"], content_type="text/html"))
    came, message = failed(engine)
    assert came == "" and "does not speak OpenAI's protocol (text/html)" in message


@pytest.mark.parametrize(("status", "wait"), [(429, "0"), (503, "0"), (502, None), (503, None)])
def test_who_is_busy_is_asked_again(connect: Connect, status: int, wait: str | None) -> None:
    headers = {} if wait is None else {"Retry-After": wait}
    played = Played(stream=sse(*said("Yes")), refusals=[(status, headers, BUSY)] * 2)
    last = list(connect(played).generate(ASKED))[-1]
    assert isinstance(last, Finished) and last.text == "Yes"
    assert len(played.posted("/v1/chat/completions")) == 3


def test_the_wait_is_the_servers_own(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    own = errors.retry_delay

    def delay(error: Exception, attempt: int) -> float | None:
        waited.append(own(error, attempt) or 0.0)
        return 0.0

    monkeypatch.setattr("engine.remote.dialects.retry_delay", delay)
    refusals = [(429, {"Retry-After": "7"}, BUSY), (503, {}, BUSY)]
    last = list(connect(Played(stream=sse(*said("Yes")), refusals=refusals)).generate(ASKED))[-1]
    assert isinstance(last, Finished)
    assert waited == [7.0, 2 * errors.BACKOFF_S]


@pytest.mark.parametrize(
    ("status", "headers", "body", "told", "tries"),
    [
        (429, {"Retry-After": "3600"}, BUSY, "Try again in 3600 s", 1),
        (429, {"Retry-After": "inf"}, BUSY, "Try again in 86400 s", 1),
        (429, {"Retry-After": f"Mon, 01 Jan 2024 00:00:00 +{10**18}"}, BUSY, "in a while", 4),
        (429, {}, BUSY, "is overloaded (429: Too many requests)", errors.ATTEMPTS),
        (400, {}, {"error": {"message": "context is 10 tokens"}}, "context is 10 tokens", 1),
        (404, {}, {"detail": "no such model"}, "no such model", 1),
        (403, {}, {"detail": "Not by this name."}, "(403: Not by this name). If it needs a key", 1),
        (500, {}, "<html>oops</html>", "failed (500", 1),
        (307, {"Location": "http://elsewhere/"}, "", "Keys are not sent", 1),
    ],
)
def test_who_refuses_is_quoted(
    connect: Connect, status: int, headers: dict[str, str], body: Any, told: str, tries: int
) -> None:
    played = Played(refusals=[(status, headers, body)] * 9)
    came, message = failed(connect(played))
    assert came == "" and told in message
    assert len(played.posted("/v1/chat/completions")) == tries


def test_a_reply_without_end_is_ended(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "LARGEST_REPLY", 1000)
    came, message = failed(connect(Played(stream=sse(*said(*["ten chars."] * 50)))))
    assert 100 < len(came) < 500 and "more than 1,000 bytes" in message


@pytest.mark.parametrize("found", [{}, {"/": "Ollama is running"}], ids=["OpenAI's", "Ollama's"])
def test_a_line_without_end_is_not_read_to_its_end(connect: Connect, found: dict[str, Any]) -> None:
    """All of it would be kept in memory, for no character of a reply came."""
    played = Played(found=found, stream=repeat(b"x" * 2**20))
    came, message = failed(connect(played))
    assert came == "" and "a line of more than 16,777,216 bytes" in message
    assert played.left.wait(60)


def test_an_answer_that_is_too_large_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "LARGEST_ANSWER", 1000)
    with playing(Played(found={"/v1/models": "x\n" * 600})) as played:
        assert "more than 1,000 bytes" in error_at(played.url)
    assert len(played.asked) == 1


def test_a_compressed_answer_is_not_unpacked(connect: Connect) -> None:
    """A few of its bytes can become gigabytes."""
    played = Played(refusals=[(200, {"Content-Encoding": "gzip"}, "packed")])
    assert "a compressed answer that was not asked for" in failed(connect(played))[1]


def test_silence_has_an_end(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.remote.connection.SILENCE_S", 1.0)
    never = threading.Event()
    engine = connect(Played(stream=[*sse(*said("Half", reason=None), done=False), never]))
    came, message = failed(engine)
    assert came == "Half" and "sent nothing for" in message


def test_cancelling_closes_the_stream_at_once_and_keeps_what_came(connect: Connect) -> None:
    never = threading.Event()
    played = Played(stream=[*sse(*said("Half", reason=None), done=False), never])
    generation = connect(played).generate(ASKED)
    came = threading.Event()
    generation.listen(lambda event: came.set() if isinstance(event, Emitted) else None)
    assert came.wait(60)
    generation.cancel()
    last = list(generation)[-1]
    assert last == Finished(FinishReason.CANCELLED, "", "Half", None)
    assert played.left.wait(60)


def test_several_replies_at_once(connect: Connect) -> None:
    go_on = threading.Event()
    head, tail = said("One"), said(" two")[1:]
    played = Played(stream=[*sse(*head[:-1], done=False), go_on, *sse(*tail)])
    engine = connect(played)
    running = [engine.generate(ASKED) for _ in range(3)]
    for each in running:
        came = threading.Event()
        each.listen(lambda event, came=came: came.set() if isinstance(event, Emitted) else None)
        assert came.wait(60)  # all of them, while none is whole
    go_on.set()
    assert [list(each)[-1].text for each in running] == ["One two"] * 3
    assert not engine.busy


def test_connecting_can_be_given_up() -> None:
    class GaveUp:
        cancelled = True

        def on_progress(self, progress: object) -> None: ...
        def on_loading(self, progress: object) -> None: ...

    with socket.create_server(("127.0.0.1", 0)) as silent:  # lets in, and says nothing
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with closing(RemoteEngine()) as engine, pytest.raises(LoadCancelled):
            engine.load(LoadRequest(target=url), GaveUp())


def test_looking_changes_nothing() -> None:
    with playing(Played()) as played:
        found = look_at(Address.parse(played.url), "a-key")
        assert [each.id for each in found.models] == ["small"]
        assert played.asked[0].key == "a-key"


def test_the_folder_of_keys_can_be_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_KEY_FOLDER, "/somewhere")
    assert str(server_key(Address.parse("https://gpu:8000/v1")).file).startswith("/somewhere/https")
