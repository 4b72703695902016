"""ik_llama.cpp's server as programs of the contest, and mistral.rs; a stand-in speaks its API."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bench.real.contest import Case, EncodedPrompt, NotMeasured, run
from engine.bench.real.peers import environments, llama_cpp
from tests.support.fixtures import gguf_pair, pair
from tests.support.stand_ins import stand_in

__all__ = ["gguf_pair", "pair"]


def test_its_tokens_are_those_of_its_text(
    gguf_pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_IK", "1")
    case = Case(gguf_pair[0], None, frozenset({1}), (3,), 64, 4, 1)
    folder = stand_in(tmp_path / "peer", "llama-server")
    result = run(
        llama_cpp.ik_programs(folder, case), [EncodedPrompt("chat", (3, 4))], case, 1, tmp_path
    )
    assert not result.absent
    answers = [answer for turn in result.turns for answer in turn.answers]
    assert [answer.setting.name for answer in answers] == ["plain", "suffix", "ngram-simple"]
    assert all(turn.engine == llama_cpp.IK_NAME for turn in result.turns)
    assert all(answer.reply.tokens == (5, 6, 7) for answer in answers)


def test_why_they_are_absent_is_told(gguf_pair: tuple[Path, Path], tmp_path: Path) -> None:
    case = Case(gguf_pair[0], None, frozenset(), (3,), 64, 4, 1)
    llama = stand_in(tmp_path / "peer", "llama-server")
    for given, reason in (
        (None, "It was not given"),
        (llama, "is another server, or an older one"),
    ):
        (absence,) = llama_cpp.ik_programs(given, case)
        assert isinstance(absence, NotMeasured) and reason in absence.reason
    (absence,) = environments.mistral_rs(tmp_path, case)
    assert isinstance(absence, NotMeasured) and "is not a virtual environment" in absence.reason
