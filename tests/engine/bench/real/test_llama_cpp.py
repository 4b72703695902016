"""llama.cpp's server as a program of the contest: its settings, and what it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bench.real.contest import Case, EncodedPrompt, Method, NotMeasured, Setting, run
from engine.bench.real.peers import llama_cpp
from tests.support.fixtures import gguf_pair, pair
from tests.support.stand_ins import stand_in

__all__ = ["gguf_pair", "pair"]

OLDER = "-md, --model-draft FNAME --draft-max N --draft-p-min P"
NEWER = (
    "-md, --model-draft FNAME --spec-draft-n-max N --spec-draft-p-min P --spec-type none,"
    "draft-simple,ngram-simple,ngram-map-k4v --spec-ngram-simple-size-n N --spec-ngram-simple-size-m M"
)


def test_settings_follow_what_the_server_knows() -> None:
    draft = Path("d.gguf")
    older = dict(llama_cpp.settings(OLDER, draft))
    assert {setting.method for setting in older} == {Method.PLAIN, Method.DRAFT}
    words = older[Setting("draft, n 4", Method.DRAFT)]
    assert words == ("--model-draft", "d.gguf", "--draft-max", "4", "--draft-p-min", "0")
    newer = dict(llama_cpp.settings(NEWER, draft))
    lookups = [setting.name for setting in newer if setting.method is Method.LOOKUP]
    assert lookups == ["ngram-simple", "ngram-simple, 12 after 4", "ngram-map-k4v"]
    assert newer[Setting("draft, n 8", Method.DRAFT)][2:5] == (
        "--spec-type",
        "draft-simple",
        "--spec-draft-n-max",
    )
    assert [setting.method for setting, _ in llama_cpp.settings(NEWER, None)].count(
        Method.DRAFT
    ) == 0


def test_usual_settings_are_among_those_of_a_server_of_today() -> None:
    known = {setting.name for setting, _ in llama_cpp.settings(NEWER, Path("d.gguf"))}
    assert known > set(llama_cpp.USUAL)


def test_its_answers_count_from_the_first_token_on(
    gguf_pair: tuple[Path, Path], tmp_path: Path
) -> None:
    case = Case(gguf_pair[0], None, frozenset({1}), (3,), 64, 4, 1)
    programs = llama_cpp.programs(stand_in(tmp_path / "peer", "llama-server"), case)
    result = run(programs, [EncodedPrompt("chat", (3, 4))], case, 1, tmp_path)
    answers = [answer for turn in result.turns for answer in turn.answers]
    assert [answer.setting.name for answer in answers] == ["plain", "ngram-simple"]
    reply = answers[0].reply
    assert reply.tokens == (5, 6, 7, 1) and reply.decoded == 3
    assert (reply.prompt_tokens, reply.prompt_s) == (2, pytest.approx(0.05))
    assert result.turns[0].weights == "Q8_0"
    assert all((turn.peak_bytes or 0) > 1e6 and turn.ready_s > 0 for turn in result.turns)


def test_why_it_is_absent_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    case = Case(tmp_path, None, frozenset(), (3,), 64, 4, 1)
    peer = stand_in(tmp_path / "peer", "llama-server")
    for given, reason in (
        (None, "not on the PATH. Give the folder"),
        (tmp_path, f"{tmp_path} holds no llama-server"),
        (peer, "reads GGUF files only"),  # a folder is none
    ):
        (absence,) = llama_cpp.programs(given, case)
        assert isinstance(absence, NotMeasured) and reason in absence.reason
