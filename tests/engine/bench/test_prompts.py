"""The shipped prompts, and files of one's own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engine.bench import prompts
from engine.errors import InvalidRequest


def test_the_shipped_set_holds_the_four_kinds_in_equal_numbers() -> None:
    counts = Counter(prompt.kind for prompt in prompts.read())
    assert set(counts) == {"chat", "tale", "json", "rewrite"}
    assert len(set(counts.values())) == 1


def test_prompt_turns_and_spec_bench_categories_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(
        '{"prompt": "hi"}\n\n{"turns": ["a", "b"], "category": "qa", "question_id": 81}\n',
        encoding="utf-8",
    )
    assert prompts.read(file) == [
        prompts.Prompt("other", ("hi",)),
        prompts.Prompt("qa", ("a", "b")),
    ]


@pytest.mark.parametrize(
    "line",
    ["not json", "[]", '{"text": "x"}', '{"turns": []}', '{"prompt": "  "}', '{"turns": [1]}'],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(f'{{"prompt": "fine"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(InvalidRequest, match="line 2"):
        prompts.read(file)


def test_an_empty_or_absent_file_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n", encoding="utf-8")
    for file in (empty, tmp_path / "absent.jsonl"):
        with pytest.raises(InvalidRequest):
            prompts.read(file)
