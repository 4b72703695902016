"""The shipped prompts, and files of one's own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engine.bench import prompts
from engine.errors import InvalidRequest
from engine.train.data.prompts import read as read_training
from engine.values.messages import Message


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


def test_only_a_line_feed_ends_a_line_for_benches_and_training(tmp_path: Path) -> None:
    """JSON may have the other line breaks of Unicode in its texts; such files were refused."""
    file, text = tmp_path / "p.jsonl", "a\u2028b\u2029c\x85d"
    file.write_bytes(f'{{"prompt": "{text}"}}\r\n{{"prompt": "e"}}'.encode())
    assert [each.turns for each in prompts.read(file)] == [(text,), ("e",)]
    assert read_training(file).learned == ((Message("user", text),), (Message("user", "e"),))


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


def test_a_file_of_nobodys_home_is_refused_as_absent(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="~nobody-here"):
        prompts.named("~nobody-here/p.jsonl", tmp_path, vocabulary=10)


def test_random_prompts_need_the_size_of_a_vocabulary_which_servers_may_not_tell(
    tmp_path: Path,
) -> None:
    """A sweep of such a server ended with a traceback."""
    with pytest.raises(InvalidRequest, match="which this server does not report"):
        prompts.named("random", tmp_path, vocabulary=0)
