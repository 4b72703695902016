"""transformers as a program of the contest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine.bench.real.contest import Case, Method, NotMeasured
from engine.bench.real.peers import environments, transformers_child
from engine.bench.real.peers.transformers_child import Pair
from tests.support.fixtures import gguf_pair, pair

__all__ = ["gguf_pair", "pair"]


def test_it_says_the_same_words_in_all_its_settings(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """Whatever the model's own generation_config.json says of ends and repetitions."""
    draft = str(pair[1])
    target = str(shutil.copytree(pair[0], tmp_path / "target"))
    plain = Pair({"target": target, "draft": "", "eos": [], "threads": 1})
    asked = {"prompt": [5, 9, 5, 9, 5], "limit": 30}
    expected = plain({"setting": "plain", **asked})["tokens"]
    own = {"repetition_penalty": 1.9, "eos_token_id": expected[3]}
    (tmp_path / "target" / "generation_config.json").write_text(json.dumps(own), encoding="utf-8")
    made = Pair({"target": target, "draft": draft, "eos": [], "threads": 1})
    methods = {method for method, _ in made.settings.values()}
    assert methods == {Method.PLAIN, Method.DRAFT, Method.LOOKUP}
    answers = [made({"setting": name, **asked}) for name in made.settings]
    assert {len(answer["tokens"]) for answer in answers} == {30}
    assert all(answer["tokens"] == expected for answer in answers)
    assert all(answer["prompt_s"] > 0 and answer["decode_s"] > 0 for answer in answers)


def test_a_gguf_file_is_refused_without_the_package_that_reads_it(
    gguf_pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformers_child, "find_spec", lambda name: None)
    case = Case(*gguf_pair, frozenset(), (3,), 64, 4, 1)
    (absence,) = environments.transformers(case)
    assert isinstance(absence, NotMeasured) and "pip install accelerate" in absence.reason
