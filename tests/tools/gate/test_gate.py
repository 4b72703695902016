"""The gate on a pair of a few parameters, and Pip: each figure is measured, and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.bench import prompts
from tests.support.fixtures import gguf_pair, pair
from tests.support.places import ROOT, python_files
from tools.gate import __main__ as gate
from tools.gate.__main__ import main
from tools.gate.figures import FIGURES, Run
from tools.gate.machine import _processor
from tools.gate.side import Size, lines

__all__ = ["gguf_pair", "pair"]
SMALL = Size(reply=8, prompt=48, words=1, prompts=prompts.SHIPPED, formats=("int8",))


@pytest.mark.exhaustive
def test_a_run_measures_and_keeps_and_the_next_is_compared_with_it(
    gguf_pair: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, tests = tmp_path / "gate.json", tmp_path / "tests.log"
    tests.write_text("5 passed in 2.00s\n")
    words = ["::".join(map(str, gguf_pair)), "--repeats", "1", "--file", str(kept)]
    assert main([*words, "--write", "--tests", str(tests)], SMALL) == 0
    value = json.loads(capsys.readouterr().out.splitlines()[-1])
    missing = {figure.name for figure in FIGURES} - set(value["figures"])
    assert missing == {"KL, Pip in q4", "KL, Pip in nf4"}
    measured = {name: values[0] for name, values in value["figures"].items()}
    zero = {"replies that differ", "replies that differ, Pip", "tests failed"}
    assert {name for name, found in measured.items() if found == 0} == zero
    assert 0 < measured["KL"] < 0.1 and 0 < measured["KL, Pip in int8"] < 0.01
    assert value["worse"] == [] and value["compared_with"] is None
    known = json.loads(kept.read_text())
    again = Run.from_json(json.loads(kept.read_text()))
    monkeypatch.setattr(gate, "_measure", lambda *asked: [again])
    known["figures"] |= {"KL": [measured["KL"] / 2], "replies that differ": [1]}
    known["machine"]["processor"] = "Another"
    kept.write_text(json.dumps(known))
    assert main(words, SMALL) == 1
    said = capsys.readouterr().out
    assert json.loads(said.splitlines()[-1])["worse"] == ["KL"]
    assert "of another machine (Another" in said


def test_a_folder_without_the_pair_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert f"{tmp_path} holds no real pair" in capsys.readouterr().err


def test_processors_of_one_name_differ_by_family_and_model() -> None:
    told = [f"cpu family\t: 26\nmodel\t\t: {model}\nmodel name\t: AMD EPYC\n" for model in (2, 17)]
    first, second = (_processor(each) for each in told)
    assert first.endswith("(family 26, model 2)") and first != second


def test_shipped_lines_are_those_of_tracked_code() -> None:
    listed = [file for room in ("app", "engine") for file in python_files(ROOT / room)]
    assert lines(ROOT) > sum(file.read_bytes().count(b"\n") for file in listed) * 0.9
