"""Dynamo's frontend before two of our workers, on this machine, with Pip: what its clients see.

Everything is real: the frontend, its router, the workers, the client. Runs where Dynamo is installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest

from engine.api import LoadRequest
from engine.decoding.text.codec import TextCodec
from engine.local.engine import LocalEngine
from engine.remote.engine import RemoteEngine
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.values.messages import Message
from engine.values.sampling import Sampling
from tests.support.dynamo import VARIABLE, Frontend, etcd, frontend, worker
from tests.support.hosts import Host, hosts
from tests.support.places import PIP
from tests.support.processes import Program

pytestmark = [
    pytest.mark.dynamo,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not os.environ.get(VARIABLE), reason=f"{VARIABLE} names no environment with Dynamo"
    ),
]

MODEL = "pip"
LONG = "Write a long tale about a fox who crosses seven rivers."
TOKENS = 800


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frontend]:
    folder = tmp_path_factory.mktemp("dynamo")
    with frontend(folder, "--router-mode", "kv", "--migration-limit", "3") as made:
        yield made


@pytest.fixture
def two(front: Frontend) -> Iterator[dict[int, Program]]:
    """Both workers, by the ids that the frontend has for them."""
    with contextlib.ExitStack() as stack:
        found: dict[int, Program] = {}
        for name in ("one", "two"):
            known = front.instances()
            program = stack.enter_context(worker(front, name, ("--name", MODEL)))
            (new,) = front.instances() - known
            found[new] = program
        front.program.until(lambda: (front.get("/v1/models") or {}).get("data"))
        yield found
    front.program.until(lambda: not front.instances())


@pytest.fixture(scope="module")
def alone() -> Iterator[LocalEngine]:
    """The same pair without Dynamo."""
    with contextlib.closing(LocalEngine()) as engine:
        engine.load(LoadRequest(target=str(PIP / "target"), draft=str(PIP / "draft")))
        yield engine


def expected(engine: LocalEngine, text: str, limit: int, sampling: Sampling = Sampling()) -> str:  # noqa: B008
    """What the engine itself answers, without speculation."""
    request = Request(
        messages=(Message("user", text),),
        max_tokens=limit,
        sampling=sampling,
        speculation=Speculation(proposer="none"),
        ignore_eos=True,
    )
    return ReplyState.of(engine.generate(request)).text


def ask(front: Frontend, text: str, limit: int, **more: Any) -> Any:
    return front.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": text}],
        max_tokens=limit,
        extra_body={"ignore_eos": True, "nvext": {"extra_fields": ["worker_id", "engine_data"]}},
        **more,
    )


def who(chunk: Any) -> int | None:
    """The worker that a chunk names, if it does."""
    told = (getattr(chunk, "nvext", None) or {}).get("worker_id") or {}
    return told.get("decode_worker_id") or told.get("worker_id")


def test_clients_see_one_server(
    front: Frontend, two: dict[int, Program], alone: LocalEngine
) -> None:
    """Words, usage, chats that come back, mistakes, stops, structure, clients that leave: in one go, for
    workers take their time to start."""
    assert [model.id for model in front.client.models.list().data] == [MODEL]

    text = "Who are you?"
    reply = ask(front, text, 40, temperature=0)
    assert reply.choices[0].message.content == expected(alone, text, 40)
    assert reply.usage.completion_tokens == 40

    seeded = ask(front, text, 40, temperature=1.0, seed=7)
    hot = Sampling(temperature=1.0, seed=7)
    assert seeded.choices[0].message.content == expected(alone, text, 40, hot)

    # The next turn of a chat comes to the worker whose cache has the last one.
    turns = [
        {"role": "user", "content": LONG},
        {
            "role": "assistant",
            "content": ask(front, LONG, 96, temperature=0).choices[0].message.content,
        },
        {"role": "user", "content": "And then?"},
    ]
    again = front.client.chat.completions.create(
        model=MODEL, messages=turns, max_tokens=8, temperature=0
    )
    assert again.usage.prompt_tokens_details.cached_tokens >= 64

    stopped = front.client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": text}], temperature=0, stop=["language"]
    )
    whole = expected(alone, text, 40)
    assert stopped.choices[0].message.content == whole.partition("language")[0] != whole
    assert stopped.choices[0].finish_reason == "stop"

    with pytest.raises(openai.BadRequestError, match="min_tokens"):
        front.client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": text}],
            extra_body={"min_tokens": 5},
        )

    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    told = front.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": text}],
        max_tokens=8,
        tools=[tool],
    )
    assert told.choices[0].message.content

    for each in front.get("/health")["instances"]:
        if each["instance_id"] in two and each["endpoint"] == "generate":
            assert each["device_type"] == "cpu"  # it was "cuda", whatever computed
            host, _, port = each["transport"]["tcp"].partition("/")[0].rpartition(":")
            assert host == "127.0.0.1"
            process = psutil.Process(two[each["instance_id"]].process.pid)
            listening = {place.laddr for place in process.net_connections("tcp") if not place.raddr}
            assert [at.ip for at in listening if at.port == int(port)] == [host]

    # The app, too, which is told what the worker drafted.
    with contextlib.closing(RemoteEngine()) as far:
        assert far.load(LoadRequest(target=front.url)).server.startswith("Dynamo ")
        by_server = Speculation(proposer="server")
        said = (Message("user", text),)
        asked = Request(messages=said, speculation=by_server, max_tokens=40)
        reply = ReplyState.of(far.generate(asked))
        assert reply.text == whole and 0 < reply.statistics.accepted <= reply.statistics.drafted

    stream = ask(front, LONG, TOKENS, temperature=0, stream=True)
    next(iter(stream))
    stream.close()  # the client leaves; what it asked for is not computed on
    assert ask(front, text, 8, temperature=0).choices[0].message.content


def told(front: Frontend, cut: Callable[[int], object]) -> tuple[str, int]:
    """A long reply, and the worker that had begun it: once it has, that is ``cut`` off."""
    said, begun, counted = "", None, None
    usage = {"include_usage": True}
    for chunk in ask(front, LONG, TOKENS, temperature=0, stream=True, stream_options=usage):
        if chunk.choices:
            said += chunk.choices[0].delta.content or ""
        counted = chunk.usage or counted
        if begun is None and said and (begun := who(chunk)) is not None:
            cut(begun)
    assert begun is not None and counted is not None
    prompt = TextCodec(PIP / "target").encode_request(Request(messages=(Message("user", LONG),)))
    assert (counted.prompt_tokens, counted.completion_tokens) == (len(prompt), TOKENS)
    return said, begun


def test_a_worker_answers_several_at_once(
    front: Frontend, two: dict[int, Program], alone: LocalEngine
) -> None:
    """It had one at a time, though the engine shares each pass over the weights among several."""
    began, ended = [], []

    def reply(text: str) -> str:
        said = ""
        for chunk in ask(front, text, TOKENS, temperature=0, stream=True):
            if chunk.choices and (new := chunk.choices[0].delta.content):
                if not said:
                    began.append(len(ended))
                said += new
        ended.append(text)
        return said

    texts = [f"{LONG} Its name is {name}." for name in ("Ada", "Bo", "Cleo", "Dan", "Eve", "Fay")]
    with ThreadPoolExecutor(len(texts)) as clients:
        said = list(clients.map(reply, texts))
    assert began == [0] * len(texts)  # nobody had to wait for somebody else's end
    assert said == [expected(alone, text, TOKENS) for text in texts]


def test_a_worker_that_dies_in_mid_reply_is_not_noticed(
    front: Frontend, two: dict[int, Program], alone: LocalEngine
) -> None:
    said, killed = told(front, lambda begun: two[begun].process.kill())
    assert said == expected(alone, LONG, TOKENS)
    with urllib.request.urlopen(f"{front.url}/metrics") as answer:
        page = answer.read().decode()
    went_on = re.findall(r"^dynamo_frontend_model_migration_total\{.*\} (\d+)", page, re.M)
    assert sum(map(int, went_on)) >= 1  # or it had been written before its worker was gone
    # The other one is there for whoever comes next.
    front.program.until(lambda: killed not in front.instances())
    assert ask(front, "Who are you?", 8, temperature=0).choices[0].message.content


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_asked_to_end_ends_its_reply_first(
    front: Frontend, two: dict[int, Program], alone: LocalEngine, by: signal.Signals
) -> None:
    """Ctrl-C cut its replies off."""
    said, ending = told(front, lambda begun: two[begun].send(by))
    assert said == expected(alone, LONG, TOKENS)
    assert two[ending].ended() == 0
    assert "Traceback" not in two[ending].said
    assert two[ending].said.rstrip().endswith("Stopped.")


def test_several_machines_are_one_address_and_one_may_die_or_be_cut_off(
    tmp_path: Path, alone: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each on a host of its own, found by etcd. Of a host that is cut off no connection ends: its worker
    is given up where it was silent for too long, and ends by itself, as nobody finds it any more."""
    monkeypatch.setenv("DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS", "20")
    with contextlib.ExitStack() as stack:
        first, *others = stack.enter_context(hosts(3))
        environment = stack.enter_context(etcd(first, tmp_path))
        options = ("--router-mode", "kv", "--migration-limit", "3")
        front = stack.enter_context(
            frontend(tmp_path, *options, environment=environment, host=first)
        )
        found: dict[int, tuple[Host, Program]] = {}

        def start(name: str, host: Host) -> None:
            known = front.instances()
            program = stack.enter_context(worker(front, name, ("--name", MODEL), host))
            (new,) = front.instances() - known
            found[new] = host, program

        for number, host in enumerate(others):
            start(f"worker{number}", host)
        front.program.until(lambda: (front.get("/v1/models") or {}).get("data"))

        whole = expected(alone, LONG, TOKENS)
        said, cut = told(front, lambda begun: found[begun][0].unplug())
        assert said == whole
        host, program = found[cut]
        assert program.ended() == 2
        assert "unexpectedly" in program.said
        front.program.until(lambda: cut not in front.instances())

        host.plug()
        start("again", host)
        said, _ = told(front, lambda begun: found[begun][1].process.kill())
        assert said == whole
