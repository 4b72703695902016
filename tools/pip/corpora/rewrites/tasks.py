"""The rewriting tasks: each is an edit, how often it is drawn, and the texts it is asked for."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ..source_texts import Source
from . import lines, marks, replacing, settings, texts, whole
from .edit import SAY, Editor


@dataclass(frozen=True)
class Task:
    """An edit and the texts it is asked for."""

    name: str
    weight: float
    make: Callable[[random.Random], Source]
    edit: Editor


TASKS: tuple[Task, ...] = (
    Task("rename_person", 14, texts.about_person, replacing.rename_person),
    Task("rename_place", 8, texts.about_place, replacing.rename_place),
    Task("replace_word", 8, texts.about_thing, replacing.replace_word),
    Task("change_value", 7, texts.any_text, replacing.change_value),
    Task("upper", 5, texts.short_text, whole.cased(SAY["upper"], str.upper)),
    Task("lower", 5, texts.short_text, whole.cased(SAY["lower"], str.lower)),
    Task("title", 2, texts.short_text, whole.cased(SAY["title"], whole.title)),
    Task("repeat", 12, texts.any_text, whole.repeat),
    Task("reverse", 4, texts.lines, lines.reverse),
    Task("keep_first", 2, texts.units_text, lines.keep_first),
    Task("add_first", 2.5, texts.units_text, lines.add_first),
    Task("add_last", 3, texts.units_text, lines.add_last),
    Task("add_greeting", 3, texts.message_text, lines.add_greeting),
    Task("add_sign_off", 3, texts.message_text, lines.add_sign_off),
    Task("numbers", 6, texts.lines, marks.numbers),
    Task("bullets", 6, texts.lines, marks.bullets),
    Task("bullets_to_numbers", 2, texts.marked_lines, marks.numbers),
    Task("numbers_to_bullets", 2, texts.numbered_lines, marks.numbers_to_bullets),
    Task("unmark", 1.5, texts.marked_lines, marks.unmark),
    Task("commas", 2, texts.plain_list, marks.commas),
    Task("one_per_line", 3, texts.sentences, marks.one_per_line),
    Task("set_value", 4, texts.settings, settings.set_value),
    Task("add_setting", 2, texts.settings, settings.add_setting),
)
