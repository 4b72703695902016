"""llama.cpp and vLLM as peers: against a stand-in that speaks as documented, and for real if there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from engine.bench.prompts import Prompt
from engine.bench.real.server import Server
from engine.errors import PeerFailed
from tests.support.places import PIP
from tests.support.stand_ins import stand_in
from tools.peers import cases
from tools.peers.base import DRAFT, NGRAM, PLAIN, Case, Source
from tools.peers.field import line_up
from tools.peers.llama_cpp import VARIABLE, LlamaCpp
from tools.peers.own import Own
from tools.peers.steps import best_pace
from tools.peers.turns import run
from tools.peers.vllm import Vllm

PROMPTS = (Prompt("chat", ("Who are you?",)), Prompt("tale", ("A tale about a fox, please.",)))
REAL = os.environ.get(VARIABLE)

Pretend = Callable[..., Path]


@pytest.fixture
def pretend(tmp_path: Path) -> Pretend:
    """``pretend("llama-server")``: a folder whose bin holds stand-ins of that name."""
    return partial(stand_in, tmp_path / "peer")


def case(pair: tuple[Path, Path], *, acceptance: float | None = None) -> Case:
    models = cases.Models("random", *pair)
    return cases.make(models, [(3, 4)], 8, quantization="fp32", acceptance=acceptance, depth=4)


def test_llama_cpp_answers_plain_and_speculative(
    pair: tuple[Path, Path], pretend: Pretend, tmp_path: Path
) -> None:
    folder = pretend("llama-server")
    with line_up([LlamaCpp(folder)], case(pair), tmp_path) as line:
        assert [c.entrant.setting for c in line.contenders] == [PLAIN, DRAFT, NGRAM]
        reply = line.contenders[0].answer((3, 4), 3)
        assert (
            line.contenders[1].entrant.detail
            == "--model-draft --spec-type draft-simple --spec-draft-n-max 4"
        )
    assert reply.tokens == (5, 6, 7)
    assert reply.decoded == 2  # the clock starts at the first
    assert reply.seconds == pytest.approx(0.1)


def test_llama_cpp_at_a_simulated_acceptance_has_no_words(
    pair: tuple[Path, Path], pretend: Pretend, tmp_path: Path
) -> None:
    folder = pretend("llama-server", "llama-batched-bench")
    with line_up([LlamaCpp(folder)], case(pair, acceptance=0.8), tmp_path) as line:
        sources = [contender.entrant.source for contender in line.contenders]
        assert sources == [Source.MEASURED, Source.SIMULATED, Source.COMPUTED]
        assert line.contenders[1].answer((3, 4), 3).tokens is None
        computed = line.contenders[2].answer((3, 4), 3)
    # The stand-in's step of n rows takes 10 + n ms: depth 4 verifies 5 rows, and drafts 4 times.
    assert computed.tokens is None
    assert computed.seconds == pytest.approx(0.015 + 4 * 0.011)
    assert computed.decoded == pytest.approx(1 + 0.8 + 0.8**2 + 0.8**3 + 0.8**4)


def test_without_a_depth_the_best_one_is_computed() -> None:
    verify = {rows: 0.010 + 0.001 * rows for rows in range(1, 17)}
    assert best_pace(verify, 0.0001, 0.8).depth > best_pace(verify, 0.005, 0.8).depth


def test_vllm_streams_tokens(pair: tuple[Path, Path], pretend: Pretend, tmp_path: Path) -> None:
    with line_up([Vllm(pretend("vllm", "python"))], case(pair), tmp_path) as line:
        reply = line.contenders[0].answer((3, 4), 4)
    assert reply.tokens == (5, 6, 7, 1)
    assert reply.decoded == 3
    assert reply.seconds > 0


def test_a_server_that_ends_at_once_is_absent_with_its_last_words(
    pair: tuple[Path, Path], pretend: Pretend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAILS", "1")
    with line_up([LlamaCpp(pretend("llama-server"))], case(pair), tmp_path) as line:
        assert line.contenders == ()
    assert "unknown model architecture" in line.absent[0].reason


def test_an_error_of_the_server_comes_through(
    pretend: Pretend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_REFUSES", "1")
    program = pretend("llama-server") / "bin" / "llama-server"
    server = Server("fake", [str(program), "--port", "{port}"], tmp_path / "log")
    with closing(server), pytest.raises(PeerFailed, match="no room in the context"):
        server.post("/completion", {"prompt": [1]})
    assert server.process.poll() is not None


def test_a_program_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(PeerFailed, match="cannot be started"):
        Server("nothing", [str(tmp_path / "nothing")], tmp_path / "log")


def test_words_of_another_engine_are_compared_with_ours(
    pair: tuple[Path, Path], pretend: Pretend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = case(pair)
    ours = Own().contenders(asked, tmp_path)
    with closing(ours[0]):
        says = ours[0].answer((3, 4), 8).tokens or ()
    for tokens, equal in (says, True), ((*says[:-1], says[-1] + 1), False):
        monkeypatch.setenv("FAKE_TOKENS", json.dumps(tokens))
        with line_up([Own(), LlamaCpp(pretend("llama-server"))], asked, tmp_path) as line:
            rows, _ = run(line.contenders, [(3, 4)], asked, 8, 1)
        assert {row.equal_words for row in rows if row.entrant.engine == "llama.cpp"} == {equal}


@pytest.mark.skipif(REAL is None, reason=f"{VARIABLE} does not name a folder with llama.cpp")
@pytest.mark.slow
def test_the_real_llama_cpp_says_pips_words(tmp_path: Path) -> None:
    models = cases.Models("pip", PIP / "target", PIP / "draft")
    prompts = cases.encode(models.target, PROMPTS)
    asked = cases.make(models, prompts, 24, quantization="fp32")
    with line_up([Own(), LlamaCpp(Path(REAL or ""))], asked, tmp_path) as line:
        assert not line.absent
        rows, failed = run(line.contenders, prompts, asked, 24, 1)
    assert not failed
    assert {"llama.cpp"} < {row.entrant.engine for row in rows}
    for row in rows:
        assert row.tokens_per_s > 0
        assert row.equal_words is True, row.entrant
