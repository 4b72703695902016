"""vLLM and HTTP servers as programs of the benchmark, against a stand-in."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from engine.bench.real.contest import Case, EncodedPrompt, NotMeasured, run
from engine.bench.real.peers import environments
from engine.bench.real.process import Child, Server
from engine.errors import PeerFailed
from tests.support.fixtures import gguf_pair, pair
from tests.support.stand_ins import stand_in

__all__ = ["gguf_pair", "pair"]


def case(target: Path) -> Case:
    return Case(target, None, frozenset({1}), (3,), 64, 4, 1)


def test_vllm_streams_tokens(pair: tuple[Path, Path], tmp_path: Path) -> None:
    programs = environments.vllm(stand_in(tmp_path / "peer", "vllm", "python"), case(pair[0]))
    result = run(programs, [EncodedPrompt("chat", (3, 4))], case(pair[0]), 1, tmp_path)
    assert not result.absent
    reply = result.turns[0].answers[0].reply
    assert (reply.tokens, reply.decoded, reply.prompt_tokens) == ((5, 6, 7, 1), 3, 2)
    assert reply.decode_s > 0 and reply.prompt_s > 0
    assert all((turn.peak_bytes or 0) > 1e6 for turn in result.turns)


def test_absence_names_its_reason(gguf_pair: tuple[Path, Path], tmp_path: Path) -> None:
    peer = stand_in(tmp_path / "peer", "vllm", "python")
    for folder, target, reason in (
        (tmp_path, tmp_path, "has no bin/vllm. Give its virtual environment"),
        (peer, gguf_pair[0], "no GGUF files"),
    ):
        (absence,) = environments.vllm(folder, case(target))
        assert isinstance(absence, NotMeasured) and reason in absence.reason


def test_a_server_that_ends_at_once_is_absent_with_the_end_of_its_log(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAILS", "1")
    programs = environments.vllm(stand_in(tmp_path / "peer", "vllm", "python"), case(pair[0]))
    result = run(programs, [EncodedPrompt("chat", (3, 4))], case(pair[0]), 1, tmp_path)
    assert "unknown model architecture" in result.absent[0].reason


def test_an_error_of_the_server_comes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_REFUSES", "1")
    program = stand_in(tmp_path / "peer", "llama-server") / "bin" / "llama-server"
    server = Server("fake", [str(program), "--port", "{port}"], tmp_path / "log")
    with closing(server), pytest.raises(PeerFailed, match="no room in the context"):
        server.post("/completion", {"prompt": [1]})
    assert server.process.poll() is not None


def test_an_answer_that_breaks_off_is_the_peer_s_failure(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a traceback, and what other engines had measured was lost; a stream passed for a whole."""
    monkeypatch.setenv("FAKE_BREAKS", "1")
    programs = environments.vllm(stand_in(tmp_path / "vllm", "vllm", "python"), case(pair[0]))
    result = run(programs, [EncodedPrompt("chat", (3, 4))], case(pair[0]), 1, tmp_path)
    assert "vLLM broke off" in result.absent[0].reason
    program = stand_in(tmp_path / "peer", "llama-server") / "bin" / "llama-server"
    server = Server("fake", [str(program), "--port", "{port}"], tmp_path / "log")
    with closing(server), pytest.raises(PeerFailed, match="fake broke off"):
        server.post("/tokenize", {"content": "1 2"})


def test_the_memory_of_a_program_is_that_of_its_children_too(tmp_path: Path) -> None:
    """vLLM's weights are in one, and its peak was that of the server before it."""
    text = """if True:
        import os, time
        parent = os.getpid()
        if os.fork() == 0:
            held = b"x" * (300 << 20)
            print("there", flush=True)
            while os.getppid() == parent:
                time.sleep(0.05)
            os._exit(0)
        time.sleep(60)"""
    log = tmp_path / "log"
    with closing(Child("two", [sys.executable, "-c", text], log)) as child:
        while "there" not in log.read_text():
            time.sleep(0.05)
        assert (child.peak_bytes() or 0) > 300 << 20
    assert child.peak_bytes() is None


def test_a_program_that_cannot_be_started_raises(tmp_path: Path) -> None:
    with pytest.raises(PeerFailed, match="cannot be started"):
        Server("nothing", [str(tmp_path / "nothing")], tmp_path / "log")
