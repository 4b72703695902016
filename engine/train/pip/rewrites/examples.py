"""Examples of rewriting: a text, one edit of it, and perhaps another."""

from __future__ import annotations

import random

from ..example import Example, Message, TextCheck, chat
from ..source_texts import Source
from .edit import Edit
from .forms import form_example
from .marks import is_numbered
from .requests import first_request, follow_up_request
from .tasks import TASKS, Task

FOLLOW_UP_SHARE = 0.1
WEIGHTS = [task.weight for task in TASKS]
_CHANGES_LINES = ("reverse", "add_first", "add_last", "commas")
_NOT_AFTER_ANOTHER = ("repeat", "add_greeting", "add_sign_off")
FOLLOW_UPS: tuple[Task, ...] = tuple(task for task in TASKS if task.name not in _NOT_AFTER_ANOTHER)


def generate(rng: random.Random, held_out: bool) -> Example:
    """One rewriting example; `held_out` draws the wordings that training never shows."""
    if rng.random() < 0.08:
        return form_example(rng, held_out)
    while True:
        task = rng.choices(TASKS, weights=WEIGHTS)[0]
        source = task.make(rng)
        edit = task.edit(rng, held_out, source)
        if edit is None:
            continue
        request = first_request(rng, edit.instruction, source.doc, source.text)
        turns = chat(request, edit.result.text)
        if rng.random() < FOLLOW_UP_SHARE:
            turns += _follow_up(rng, held_out, task.name, edit.result)
        return Example(f"rewrites.{task.name}", turns, TextCheck(turns[-1].content))


def _follow_up(
    rng: random.Random, held_out: bool, first: str, source: Source
) -> tuple[Message, ...]:
    """A second request about the text that was just written, and the reply; nothing if no edit applies to it."""
    for _ in range(6):
        task = rng.choice(FOLLOW_UPS)
        edit = None if task.name == first else _next_edit(rng, held_out, source, task)
        if edit is not None and edit.result.text != source.text:
            return chat(follow_up_request(rng, edit.instruction), edit.result.text)
    return ()


def _next_edit(rng: random.Random, held_out: bool, source: Source, task: Task) -> Edit | None:
    """The task's edit, but none that would leave the numbers of numbered lines out of step."""
    if task.name in _CHANGES_LINES and is_numbered(source):
        return None
    return task.edit(rng, held_out, source)
