"""Examples of rewriting: a text, one edit of it, and perhaps another."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..example import Example, Message, TextCheck, chat
from ..source_texts import Source
from .edit import Edit
from .forms import form_example
from .marks import is_numbered
from .requests import first_request, follow_up_request
from .tasks import TASKS, Task

FOLLOW_UP_SHARE = 0.1
EDITS_SHARE = 0.7  # so that a chat that is about edits has one to two more of them on average
LONGEST_CHAT = 1800  # letters, after which no further turn is added
WEIGHTS = [task.weight for task in TASKS]
_CHANGES_LINES = ("reverse", "add_first", "add_last", "commas")
_NOT_AFTER_ANOTHER = ("repeat", "add_greeting", "add_sign_off")
FOLLOW_UPS: tuple[Task, ...] = tuple(task for task in TASKS if task.name not in _NOT_AFTER_ANOTHER)


def generate(rng: random.Random, held_out: bool) -> Example:
    """One rewriting example; `held_out` draws the wordings that training never shows."""
    if rng.random() < 0.08:
        return form_example(rng, held_out)
    return _example(rng, held_out, FOLLOW_UP_SHARE, most=1)


def generate_edits(rng: random.Random, held_out: bool) -> Example:
    """A text and some edits of it in turn: what training needs more often than people ask for it."""
    return _example(rng, held_out, EDITS_SHARE, most=3)


def _example(rng: random.Random, held_out: bool, follow_up_share: float, most: int) -> Example:
    """A first edit, and up to `most` others, each as likely as `follow_up_share`."""
    task, source, edit = _first_edit(rng, held_out)
    turns = chat(first_request(rng, edit.instruction, source.doc, source.text), edit.result.text)
    kind, later = task.name, 0
    while later < most and rng.random() < follow_up_share and _length(turns) < LONGEST_CHAT:
        found = _follow_up(rng, held_out, task.name, edit.result)
        if found is None:
            break
        task, edit = found
        turns += chat(follow_up_request(rng, edit.instruction), edit.result.text)
        later += 1
    return Example(f"rewrites.{kind}", turns, TextCheck(turns[-1].content))


def _first_edit(rng: random.Random, held_out: bool) -> tuple[Task, Source, Edit]:
    """A task, a text, and the edit of it."""
    while True:
        task = rng.choices(TASKS, weights=WEIGHTS)[0]
        source = task.make(rng)
        edit = task.edit(rng, held_out, source)
        if edit is not None:
            return task, source, edit


def _follow_up(
    rng: random.Random, held_out: bool, last: str, source: Source
) -> tuple[Task, Edit] | None:
    """A second edit of the text that was just written; None if none was found that changes it."""
    for _ in range(6):
        task = rng.choice(FOLLOW_UPS)
        edit = None if task.name == last else _next_edit(rng, held_out, source, task)
        if edit is not None and edit.result.text != source.text:
            return task, edit
    return None


def _length(turns: Sequence[Message]) -> int:
    return sum(len(turn.content) for turn in turns)


def _next_edit(rng: random.Random, held_out: bool, source: Source, task: Task) -> Edit | None:
    """The task's edit, but none that would leave the numbers of numbered lines out of step."""
    if task.name in _CHANGES_LINES and is_numbered(source):
        return None
    return task.edit(rng, held_out, source)
