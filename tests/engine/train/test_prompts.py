"""What a target is asked: drawn from a file, with prompts set aside that nothing is learned from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engine.train.data import prompts
from engine.train.data.prompts import Prompt, PromptsError, from_file, read
from engine.train.schema import RecipeError, load


def write(path: Path, count: int, every: int | None = None) -> Path:
    """``count`` prompts; each ``every``-th says that it is set aside."""
    lines = [
        {"prompt": f"What is door {at}?", "held_out": bool(every) and at % every == 0}
        for at in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def numbers(asked: tuple[Prompt, ...]) -> list[int]:
    return [int(prompt[0].content.removeprefix("What is door ")[:-1]) for prompt in asked]


def test_a_file_that_sets_prompts_aside_is_believed(tmp_path: Path) -> None:
    found = from_file(write(tmp_path / "p.jsonl", 40, every=4), count=12, held_out=6, seed=1)
    learned, aside = numbers(found.learned), numbers(found.held_out)
    assert len(set(learned)) == 12 and len(set(aside)) == 6
    assert all(at % 4 for at in learned) and not any(at % 4 for at in aside)
    again = from_file(tmp_path / "p.jsonl", count=12, held_out=6, seed=1)
    other = from_file(tmp_path / "p.jsonl", count=12, held_out=6, seed=2)
    assert found == again != other


@pytest.mark.parametrize("every", [None, 1])
def test_of_other_files_a_fourth_at_most_is_set_aside(tmp_path: Path, every: int | None) -> None:
    """Whether none of the lines is marked, or all are."""
    found = from_file(write(tmp_path / "p.jsonl", 8, every), count=100, held_out=24, seed=1)
    assert (len(found.learned), len(found.held_out)) == (6, 2)
    assert not set(found.learned) & set(found.held_out)


def test_a_line_without_a_prompt_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "Hi"}\n["Hi"]\n')
    with pytest.raises(PromptsError, match="line 2 is not a prompt"):
        from_file(tmp_path / "p.jsonl", 1, 1, 1)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_what_has_no_end_is_not_read(kind: str, tmp_path: Path) -> None:
    """/dev/zero was read until the machine had no more memory."""
    path = {"device": Path("/dev/zero"), "pipe": tmp_path / "pipe", "folder": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(PromptsError, match="cannot be read"):
        read(path)
    with pytest.raises(RecipeError, match="cannot be read"):
        load(path)


def test_a_file_that_is_too_long_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "LARGEST", 1 << 20)
    file = tmp_path / "prompts.jsonl"
    with file.open("wb") as made:
        made.truncate(10 << 30)  # takes no room
    with pytest.raises(PromptsError, match="larger than 1 MB"):
        read(file)
