"""Examples in which Pip rewrites a given text: rename, change case, reorder, mark lines, fill a form and the like.

Every edit has one right outcome, and the reply is that text and nothing else.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from . import source_texts, words
from .example import Example, Message, TextCheck, chat
from .phrasings import Phrasings, load
from .source_texts import Config, Source

SAY = load("rewrites")
FOLLOW_UP_SHARE = 0.1

_COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")
_QUESTION_STARTS = ("can you", "could you", "would you", "will you")
_NO_VERB_FIRST = (
    *_QUESTION_STARTS,
    "please",
    "i ",
    "in ",
    "from ",
    "every ",
    "wherever",
    "all ",
    "the ",
    "with ",
)


@dataclass(frozen=True)
class Edit:
    """An instruction, with `{this}` where the text is named, and the text as it has to become."""

    instruction: str
    result: Source


Editor = Callable[[random.Random, bool, Source], Edit | None]
"""Gives None where the text offers nothing to edit."""


@dataclass(frozen=True)
class Task:
    """An edit and the texts it is asked for."""

    name: str
    weight: float
    make: Callable[[random.Random], Source]
    edit: Editor


def generate(rng: random.Random, held_out: bool) -> Example:
    """One rewriting example; `held_out` draws the wordings that training never shows."""
    if rng.random() < 0.08:
        return _form_example(rng, held_out)
    while True:
        task = rng.choices(TASKS, cum_weights=_WEIGHT_BOUNDS)[0]
        source = task.make(rng)
        edit = task.edit(rng, held_out, source)
        if edit is None:
            continue
        turns = _first_turn(rng, source, edit)
        if rng.random() < FOLLOW_UP_SHARE:
            turns += _follow_up(rng, held_out, task.name, edit.result)
        return Example(f"rewrites.{task.name}", turns, TextCheck(turns[-1].content))


# Instruction and text


def _first_turn(rng: random.Random, source: Source, edit: Edit) -> tuple[Message, ...]:
    return chat(_prompt(rng, edit.instruction, source.doc, source.text), edit.result.text)


def _prompt(rng: random.Random, instruction: str, doc: str, text: str) -> str:
    """The instruction before or after the text, in one of the layouts that people use."""
    before = rng.random() < 0.7
    this = _named(rng, doc, "below" if before else "above")
    request = _capitalised(rng, instruction.replace("{this}", this))
    stop = "?" if request.lower().startswith(_QUESTION_STARTS) else "."
    if not before:
        return f"{text}{rng.choice((chr(10), chr(10) * 2))}{request}{stop}"
    layout = rng.randrange(6)
    if layout == 0 and '"' not in text and "\n" not in text:
        return f'{request}: "{text}"'
    if layout == 1 and "\n" not in text:
        return f"{request}: {text}"
    if layout == 2:
        return f"{request}{stop}\n---\n{text}\n---"
    if layout == 3:
        return f"{request}:\n{text}"
    colon = ":" if stop == "." else stop
    return f"{request}{rng.choice((stop, colon))}\n\n{text}"


def _named(rng: random.Random, doc: str, side: str) -> str:
    """How the text is spoken of: `this note`."""
    these = "these" if doc == "minutes" else "this"
    usual = (
        f"{these} {doc}",
        f"{these} {doc}",
        f"the {doc} {side}",
        "this text",
        "this",
        f"my {doc}",
        f"the {doc}",
    )
    return rng.choice(usual)


def _capitalised(rng: random.Random, request: str) -> str:
    """The request with a capital, in one of ten with a small letter, as people type."""
    return (
        request[:1].lower() + request[1:]
        if rng.random() < 0.1
        else request[:1].upper() + request[1:]
    )


def _follow_up(
    rng: random.Random, held_out: bool, first: str, source: Source
) -> tuple[Message, ...]:
    """A second request about the text that was just written, and the reply; nothing if no edit applies to it."""
    for _ in range(6):
        task = rng.choice(FOLLOW_UPS)
        edit = None if task.name == first else _next_edit(rng, held_out, source, task)
        if edit is not None and edit.result.text != source.text:
            return chat(_follow_up_request(rng, edit.instruction), edit.result.text)
    return ()


def _next_edit(rng: random.Random, held_out: bool, source: Source, task: Task) -> Edit | None:
    """The task's edit, but none that would leave the numbers of numbered lines out of step."""
    if task.name in _CHANGES_LINES and _is_numbered(source):
        return None
    return task.edit(rng, held_out, source)


def _follow_up_request(rng: random.Random, instruction: str) -> str:
    request = instruction.replace(
        "{this}", rng.choice(("it", "that", "the text", "your text", "the result"))
    )
    if request.lower().startswith(_QUESTION_STARTS):
        return f"{request[:1].upper()}{request[1:]}?"
    if request.lower().startswith(_NO_VERB_FIRST):
        return f"{request[:1].upper()}{request[1:]}."
    small = request[:1].lower() + request[1:]
    opening = rng.choice(
        (
            "Now {}.",
            "Now {}.",
            "Next, {}.",
            "Good. Now {}.",
            "Thanks. Now {}.",
            "And now {}.",
            "{}.",
        )
    )
    asked = opening.format(small)
    return asked[:1].upper() + asked[1:]


# Edits of names and words


def _swapped(text: str, old: str, new: str) -> str:
    """Text with a whole word or phrase replaced everywhere."""
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, text)


def _mapped(source: Source, change: Callable[[str], str]) -> Source:
    return source.with_units([change(unit) for unit in source.units])


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _fresh(rng: random.Random, make: Callable[[random.Random], str], text: str) -> str:
    """A word that the text does not contain."""
    while (word := make(rng)).lower() in text.lower():
        pass
    return word


def _rename_person(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    old = source.cast.person
    if not _has_word(source.text, old):
        return None
    new = _fresh(rng, words.first_name, source.text)
    wording = SAY["rename_person"].pick(rng, held_out).format(this="{this}", old=old, new=new)
    renamed = _mapped(source, lambda unit: _swapped(unit, old, new))
    return Edit(wording, replace(renamed, cast=replace(source.cast, person=new)))


def _rename_place(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    old = source.cast.place
    if not _has_word(source.text, old):
        return None
    new = _fresh(rng, words.place, source.text)
    wording = SAY["rename_place"].pick(rng, held_out).format(this="{this}", old=old, new=new)
    renamed = _mapped(source, lambda unit: _swapped(unit, old, new))
    return Edit(wording, replace(renamed, cast=replace(source.cast, place=new)))


def _replace_word(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    old, text = source.cast.thing, source.text.lower()
    if not _has_word(source.text, old) or text.count(old) != len(
        re.findall(rf"\b{re.escape(old)}\b", source.text)
    ):
        return None
    new = _fresh(rng, words.thing, source.text)
    if words.takes_an(old) != words.takes_an(new):
        return None
    wording = SAY["replace_word"].pick(rng, held_out).format(this="{this}", old=old, new=new)
    replaced = _mapped(source, lambda unit: _swapped(unit, old, new))
    return Edit(wording, replace(replaced, cast=replace(source.cast, thing=new)))


@dataclass(frozen=True)
class _ValueKind:
    label: str
    pattern: re.Pattern[str]
    make: Callable[[random.Random], str]


_VALUE_KINDS = (
    _ValueKind(
        "price",
        re.compile(r"\b\d+(?:\.\d\d)? (?:euros|dollars|crowns|pounds)\b"),
        source_texts.amount,
    ),
    _ValueKind("date", re.compile(rf"\b\d+ (?:{'|'.join(words.MONTHS)})\b"), words.day_of_year),
    _ValueKind("time", re.compile(r"\b\d+:\d\d\b"), words.clock_time),
    _ValueKind("day", re.compile("|".join(words.WEEKDAYS)), lambda rng: rng.choice(words.WEEKDAYS)),
    _ValueKind("phone number", re.compile(r"\b\d{3}-\d{4}\b"), words.phone),
    _ValueKind("code", re.compile(r"\b[A-Z]{1,2}-\d+\b"), words.code),
)
_PLAIN_NUMBER = _ValueKind(
    "number",
    re.compile(r"(?<![\d.:-])\d+(?![\d.:-])(?! (?:euros|dollars|crowns|pounds|[A-Z]))"),
    lambda rng: str(rng.randint(2, 60)),
)


def _change_value(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """A price, date, time, day or number that stands once in the text, told with its old value."""
    found = [
        (kind, value)
        for kind in (*_VALUE_KINDS, _PLAIN_NUMBER)
        for value in set(kind.pattern.findall(source.text))
    ]
    found = sorted(
        ((kind, value) for kind, value in found if source.text.count(value) == 1),
        key=lambda one: one[1],
    )
    if not found:
        return None
    kind, old = rng.choice(found)
    new = _fresh(rng, kind.make, source.text)
    wording = (
        SAY["change_value"]
        .pick(rng, held_out)
        .format(this="{this}", old=old, new=new, label=kind.label)
    )
    return Edit(wording, _mapped(source, lambda unit: unit.replace(old, new)))


# Edits of the whole text


def _cased(wordings: Phrasings, change: Callable[[str], str]) -> Editor:
    def edit(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
        result = _mapped(source, change)
        return None if result == source else Edit(wordings.pick(rng, held_out), result)

    return edit


def _title(text: str) -> str:
    """The text with a capital at the start of every word."""
    return re.sub(r"(?<!\S)\W*\w", lambda found: found[0].upper(), text)


def _repeat(rng: random.Random, held_out: bool, source: Source) -> Edit:
    return Edit(SAY["repeat"].pick(rng, held_out), source)


# Edits of lines and sentences


def _unit(source: Source) -> str:
    return "line" if source.by_line else "sentence"


def _is_list(source: Source) -> bool:
    """Whether it is lines of a like kind, with no heading, greeting or name among them."""
    return (
        source.by_line
        and len(source.units) > 1
        and source.doc not in ("letter", "message", "email")
    )


def _reverse(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    if not _is_list(source):
        return None
    wording = SAY["reverse"].pick(rng, held_out).format(this="{this}", unit=_unit(source))
    return Edit(wording, source.with_units(source.units[::-1]))


def _keep_first(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    if len(source.units) < 3:
        return None
    count = rng.randint(2, min(len(source.units) - 1, len(_COUNTS) - 1))
    wording = (
        SAY["keep_first"]
        .pick(rng, held_out)
        .format(this="{this}", count=_COUNTS[count], unit=_unit(source) + "s")
    )
    return Edit(wording, source.with_units(source.units[:count]))


def _new_unit(rng: random.Random, source: Source) -> str:
    """A line to add to a list, or a sentence without quotation marks."""
    if "list" in source.doc:
        columns = source.units[0].count(",") + 1
        return ",".join(_fresh(rng, words.thing, source.text) for _ in range(columns))
    if _read_config(source):
        return f"# {words.described(rng)}"
    bank = source_texts.BANKS["recipe" if source.doc == "recipe" else "note"]
    return source_texts.fill(rng, rng.choice(bank.templates), source.cast)


def _add_first(rng: random.Random, held_out: bool, source: Source) -> Edit:
    new = _new_unit(rng, source)
    wording = (
        SAY["add_first"].pick(rng, held_out).format(this="{this}", unit=_unit(source), new=new)
    )
    return Edit(wording, source.with_units((new, *source.units)))


def _add_last(rng: random.Random, held_out: bool, source: Source) -> Edit:
    new = _new_unit(rng, source)
    wording = SAY["add_last"].pick(rng, held_out).format(this="{this}", unit=_unit(source), new=new)
    return Edit(wording, source.with_units((*source.units, new)))


def _add_greeting(rng: random.Random, held_out: bool, source: Source) -> Edit:
    line = source_texts.greeting(rng)
    wording = SAY["add_greeting"].pick(rng, held_out).format(this="{this}", new=line)
    return Edit(wording, replace(source, units=(line, *_lines_of(source)), mark="", by_line=True))


def _add_sign_off(rng: random.Random, held_out: bool, source: Source) -> Edit:
    line = source_texts.closing(rng)
    wording = SAY["add_sign_off"].pick(rng, held_out).format(this="{this}", new=line)
    return Edit(wording, replace(source, units=(*_lines_of(source), line), mark="", by_line=True))


def _lines_of(source: Source) -> list[str]:
    return source.text.split("\n")


# Edits of the marks before lines


def _numbers(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    if not _is_list(source) or source.units[0].startswith("1"):
        return None
    wording = (SAY["bullets_to_numbers"] if source.mark else SAY["numbers"]).pick(rng, held_out)
    return Edit(wording, _numbered(source, ")" if "1)" in wording else "."))


def _numbered(source: Source, sign: str) -> Source:
    units = [f"{number}{sign} {unit}" for number, unit in enumerate(source.units, 1)]
    return replace(source, units=tuple(units), mark="")


def _is_numbered(source: Source) -> bool:
    return source.units[0].startswith(("1. ", "1) "))


def _numbers_to_bullets(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    if not _is_list(source) or not _is_numbered(source):
        return None
    units = [unit.split(" ", 1)[1] for unit in source.units]
    return Edit(
        SAY["numbers_to_bullets"].pick(rng, held_out),
        replace(source, units=tuple(units), mark="- "),
    )


def _bullets(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    if not _is_list(source) or source.mark or _is_numbered(source):
        return None
    wording = SAY["bullets"].pick(rng, held_out)
    return Edit(wording, replace(source, mark="* " if '"* "' in wording else "- "))


def _unmark(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    if not source.mark:
        return None
    sign = "stars" if source.mark == "* " else rng.choice(("dashes", "bullets", "bullet marks"))
    return Edit(
        SAY["unmark"].pick(rng, held_out).format(this="{this}", sign=sign), replace(source, mark="")
    )


def _commas(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    if not _is_list(source) or "list" not in source.doc or "," in source.text:
        return None
    line = ", ".join(source.units)
    return Edit(SAY["commas"].pick(rng, held_out), replace(source, units=(line,), mark=""))


def _one_per_line(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    if source.by_line or len(source.units) < 2:
        return None
    return Edit(SAY["one_per_line"].pick(rng, held_out), replace(source, by_line=True))


# Settings and forms


def _config_example(name: str) -> Callable[[random.Random, bool, Source], Edit | None]:
    """An editor of settings: it reads key and value back from the lines of the text."""

    def edit(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
        config = _read_config(source)
        if config is None:
            return None
        index = rng.randrange(len(config.settings))
        return _CONFIG_EDITS[name](rng, held_out, source, config, index)

    return edit


def _read_config(source: Source) -> Config | None:
    if not source.doc.startswith(("config", "settings")):
        return None
    for template in source_texts.CONFIG_TEMPLATES:
        pattern = re.compile(re.escape(template).replace(r"\{\}", r"([^\s:=]+)"))
        found = [pattern.fullmatch(line) for line in source.units]
        if all(found):
            return Config(tuple((match[1], match[2]) for match in found if match), template)
    return None


def _with_settings(source: Source, config: Config, settings: list[tuple[str, str]]) -> Source:
    return source.with_units(replace(config, settings=tuple(settings)).lines())


def _set_value(
    rng: random.Random, held_out: bool, source: Source, config: Config, index: int
) -> Edit:
    key, old = config.settings[index]
    new = _fresh(rng, source_texts.config_value, source.text)
    settings = [*config.settings[:index], (key, new), *config.settings[index + 1 :]]
    wording = SAY["set_value"].pick(rng, held_out).format(this="{this}", key=key, old=old, new=new)
    return Edit(wording, _with_settings(source, config, settings))


def _add_setting(
    rng: random.Random, held_out: bool, source: Source, config: Config, index: int
) -> Edit:
    key = _fresh(rng, lambda rng: rng.choice(source_texts.CONFIG_KEYS), source.text)
    key = key.upper() if config.settings[0][0].isupper() else key
    value = _fresh(rng, source_texts.config_value, source.text)
    wording = SAY["add_setting"].pick(rng, held_out).format(this="{this}", key=key, new=value)
    return Edit(wording, _with_settings(source, config, [*config.settings, (key, value)]))


_CONFIG_EDITS: dict[str, Callable[[random.Random, bool, Source, Config, int], Edit]] = {
    "set_value": _set_value,
    "add_setting": _add_setting,
}


def _form_example(rng: random.Random, held_out: bool) -> Example:
    """A form with blanks and the values that go in them, told in another order."""
    form = source_texts.form(rng)
    told = list(form.values.items())
    rng.shuffle(told)
    style, gap = rng.choice(
        (
            ("{}: {}", "; "),
            ("{} {}", ", "),
            ("{} = {}", ", "),
            ("{} is {}", "; "),
            ("- {}: {}", "\n"),
        )
    )
    values = gap.join(style.format(*pair) for pair in told)
    request = (
        SAY["fill_form"]
        .pick(rng, held_out)
        .replace("{this}", rng.choice(("this form", "this template", "the form", "this text")))
    )
    request = _capitalised(rng, request)
    stop = "?" if request.lower().startswith(_QUESTION_STARTS) else "."
    values = f"\n{values}" if gap == "\n" else f" {values}"
    layouts = (
        f"{request}{stop}\n\n{form.blank}\n\nValues:{values}",
        f"{request}{stop} Values:{values}\n\n{form.blank}",
        f"{form.blank}\n\n{request}{stop} Values:{values}",
        f"{request}{stop}\nForm:\n{form.blank}\nValues:{values}",
    )
    return Example(
        "rewrites.fill_form", chat(rng.choice(layouts), form.filled), TextCheck(form.filled)
    )


# Which texts for which edit


def _person_text(rng: random.Random) -> Source:
    return _story(rng, "A")


def _place_text(rng: random.Random) -> Source:
    return _story(rng, "P")


def _thing_text(rng: random.Random) -> Source:
    return _story(rng, "K")


def _story(rng: random.Random, about: str) -> Source:
    doc = rng.choice(("note", "letter", "tale", "minutes"))
    count = rng.choice((2, 3, 3, 4, 4, 5))
    return (
        source_texts.letter(rng, count, about)
        if doc == "letter"
        else source_texts.prose(rng, doc, count, about)
    )


def _any_text(rng: random.Random) -> Source:
    roll = rng.random()
    if roll < 0.5:
        return _story(rng, rng.choice("ABPK"))
    if roll < 0.65:
        return source_texts.prose(rng, "recipe", rng.randint(2, 4))
    if roll < 0.75:
        return source_texts.config(rng, rng.randint(2, 5)).source(rng)
    return _lines(rng)


def _short_text(rng: random.Random) -> Source:
    source = _any_text(rng)
    return source if len(source.text) < 200 else _short_text(rng)


def _lines(rng: random.Random) -> Source:
    """Something in lines: a list, values, a recipe, minutes or settings."""
    roll = rng.random()
    if roll < 0.5:
        return source_texts.item_list(rng, rng.randint(3, 6))
    if roll < 0.55:
        return source_texts.rows(rng, rng.randint(2, 4))
    if roll < 0.7:
        return source_texts.config(rng, rng.randint(2, 5)).source(rng)
    doc = rng.choice(("recipe", "minutes", "note"))
    return replace(source_texts.prose(rng, doc, rng.randint(2, 4)), by_line=True, mark="")


def _plain_list(rng: random.Random) -> Source:
    return source_texts.item_list(rng, rng.randint(3, 6))


def _numbered_lines(rng: random.Random) -> Source:
    return _numbered(replace(_lines(rng), mark=""), rng.choice(".)"))


def _marked_lines(rng: random.Random) -> Source:
    return replace(_lines(rng), mark=rng.choice(("- ", "- ", "* ")))


def _sentences(rng: random.Random) -> Source:
    doc = rng.choice(("note", "tale", "minutes", "recipe"))
    return replace(
        source_texts.prose(rng, doc, rng.randint(2, 4), rng.choice("AP")), by_line=False, mark=""
    )


def _units_text(rng: random.Random) -> Source:
    return _lines(rng) if rng.random() < 0.6 else _sentences(rng)


def _message_text(rng: random.Random) -> Source:
    return source_texts.prose(rng, "note", rng.randint(2, 4), rng.choice("AP"))


def _settings(rng: random.Random) -> Source:
    return source_texts.config(rng, rng.randint(2, 5)).source(rng)


TASKS: tuple[Task, ...] = (
    Task("rename_person", 14, _person_text, _rename_person),
    Task("rename_place", 8, _place_text, _rename_place),
    Task("replace_word", 8, _thing_text, _replace_word),
    Task("change_value", 7, _any_text, _change_value),
    Task("upper", 5, _short_text, _cased(SAY["upper"], str.upper)),
    Task("lower", 5, _short_text, _cased(SAY["lower"], str.lower)),
    Task("title", 2, _short_text, _cased(SAY["title"], _title)),
    Task("repeat", 12, _any_text, _repeat),
    Task("reverse", 4, _lines, _reverse),
    Task("keep_first", 2, _units_text, _keep_first),
    Task("add_first", 2.5, _units_text, _add_first),
    Task("add_last", 3, _units_text, _add_last),
    Task("add_greeting", 3, _message_text, _add_greeting),
    Task("add_sign_off", 3, _message_text, _add_sign_off),
    Task("numbers", 6, _lines, _numbers),
    Task("bullets", 6, _lines, _bullets),
    Task("bullets_to_numbers", 2, _marked_lines, _numbers),
    Task("numbers_to_bullets", 2, _numbered_lines, _numbers_to_bullets),
    Task("unmark", 1.5, _marked_lines, _unmark),
    Task("commas", 2, _plain_list, _commas),
    Task("one_per_line", 3, _sentences, _one_per_line),
    Task("set_value", 4, _settings, _config_example("set_value")),
    Task("add_setting", 2, _settings, _config_example("add_setting")),
)
_WEIGHT_BOUNDS = [sum(task.weight for task in TASKS[: index + 1]) for index in range(len(TASKS))]
_NOT_AFTER_ANOTHER = ("repeat", "add_greeting", "add_sign_off")
_CHANGES_LINES = ("reverse", "add_first", "add_last", "commas")
FOLLOW_UPS: tuple[Task, ...] = tuple(task for task in TASKS if task.name not in _NOT_AFTER_ANOTHER)
