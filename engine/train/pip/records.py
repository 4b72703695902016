"""Examples in which Pip writes JSON, Markdown tables and lists from what it is told, and changes them on request.

A record keeps the keys that were asked for, or else the usual ones of its domain. Numbers are numbers, yes and no are
true and false. The reply is the record and nothing else.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from . import source_texts, words
from .example import Check, Example, JsonCheck, TextCheck, chat
from .phrasings import Phrasings, load
from .record_domains import DOMAINS, Domain, Field, Scalar, tell, told_fields

Json = None | Scalar | list["Json"] | dict[str, "Json"]

SAY = load("records")
FOLLOW_UP_SHARE = 0.15
LONGEST_CHAT = 1400  # letters, after which no further turn is added
_QUESTION_STARTS = ("can you", "could you", "would you")
_BOOLEAN_WORDS = (("yes", "no"), ("yes", "no"), ("true", "false"))


@dataclass(frozen=True)
class Record:
    """One JSON object, perhaps kept on one line."""

    value: dict[str, Json]
    one_line: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of values under keys; the first column names the row."""

    keys: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of the keys: `due_date` is headed `Due date`."""
        return tuple(heading(key) for key in self.keys)

    def objects(self) -> list[Json]:
        return [dict(zip(self.keys, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class ItemList:
    """Items with a mark before each; the mark `1. ` counts up."""

    items: tuple[str, ...]
    mark: str = "- "


@dataclass(frozen=True)
class ObjectArray:
    """A JSON array of objects with equal keys."""

    table: Table


@dataclass(frozen=True)
class StringArray:
    """A JSON array of strings."""

    items: tuple[str, ...]


State = Record | Table | ItemList | ObjectArray | StringArray


@dataclass(frozen=True)
class Turn:
    """What the user asks, and what the reply has to hold."""

    request: str
    state: State


def generate(rng: random.Random, held_out: bool) -> Example:
    """One example with records; `held_out` draws the wordings that training never shows."""
    kind = rng.choices(tuple(_FIRST_TURNS), cum_weights=_WEIGHT_BOUNDS)[0]
    turns = [_FIRST_TURNS[kind][1](rng, held_out)]
    while len(turns) < 4 and rng.random() < FOLLOW_UP_SHARE and _length(turns) < LONGEST_CHAT:
        later = _follow_up(rng, held_out, turns[-1].state)
        turns += [later] if later else []
    said = [text for turn in turns for text in (turn.request, render(turn.state))]
    return Example(f"records.{kind}", chat(*said), check_of(turns[-1].state))


def _length(turns: Sequence[Turn]) -> int:
    return sum(len(turn.request) + len(render(turn.state)) for turn in turns)


# Replies


def render(state: State) -> str:
    """The state as the reply that shows it."""
    match state:
        case Record(value, one_line):
            return _dumps(value, one_line)
        case ObjectArray(table):
            return _dumps(table.objects())
        case StringArray(items):
            return _dumps(list(items))
        case ItemList(items, mark):
            return _listed(items, mark)
        case Table():
            return _markdown(state)


def check_of(state: State) -> Check:
    """The check for a reply that shows the state."""
    text = render(state)
    return (
        JsonCheck(text)
        if isinstance(state, Record | ObjectArray | StringArray)
        else TextCheck(text)
    )


def heading(key: str) -> str:
    """The key as the heading of a column: `due_date` -> `Due date`."""
    return key.replace("_", " ").capitalize()


def _dumps(value: Json, one_line: bool = False) -> str:
    return json.dumps(value, indent=None if one_line else 2, ensure_ascii=False)


def _listed(items: Sequence[str], mark: str) -> str:
    if mark == "1. ":
        return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))
    return "\n".join(mark + item for item in items)


def _markdown(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.keys), *(map(_cell, row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    """A value as people write it; true and false are yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


# Requests


def _ask(rng: random.Random, request: str, facts: str, prose: bool = True) -> str:
    """Request and facts in one of the layouts that people use. `prose` ends in a full stop."""
    request = (
        request[:1].lower() + request[1:]
        if rng.random() < 0.1
        else request[:1].upper() + request[1:]
    )
    question = request.lower().startswith(_QUESTION_STARTS)
    stop = "?" if question else "."
    if rng.random() < 0.25:
        gap = rng.choice(("\n", "\n\n", " ")) if prose else rng.choice(("\n", "\n\n"))
        return f"{facts}{gap}{request.replace('following', 'above')}{stop}"
    if "\n" in facts:
        return f"{request}{rng.choice((stop, stop if question else ':'))}{rng.choice((chr(10), chr(10) * 2))}{facts}"
    return rng.choice(
        (
            f"{request}: {facts}",
            f"{request}{stop} {facts}",
            f"{request}{stop}\n\n{facts}",
            f"{request}:\n{facts}",
        )
    )


def _pick(rng: random.Random, wordings: Phrasings, held_out: bool, this: str) -> str:
    return wordings.pick(rng, held_out).replace("{this}", this)


def _clause(rng: random.Random, wordings: Phrasings, held_out: bool, keys: Sequence[str]) -> str:
    """A clause such as `with the keys name, age and city`."""
    style = rng.randrange(5)
    told = (
        [f'"{key}"' for key in keys]
        if style == 0
        else [f"`{key}`" for key in keys]
        if style == 1
        else list(keys)
    )
    listing = ", ".join(told) if style == 2 else words.joined(told)
    return " " + wordings.pick(rng, held_out).format(keys=listing)


def _spoken(rng: random.Random, value: Json) -> str:
    """A value as it is told beside its key."""
    if isinstance(value, bool):
        return rng.choice(_BOOLEAN_WORDS)[0 if value else 1]
    return words.joined([str(one) for one in value]) if isinstance(value, list) else str(value)


def _as_json(value: object) -> Json:
    """A made value as JSON data."""
    return list(value) if isinstance(value, list) else value  # type: ignore[return-value]


def _flat(domain: Domain) -> dict[str, Field]:
    """The fields of a domain with a single value."""
    lists = {"ingredients", "tags", "colours", "contents", "toys"}
    return {key: field for key, field in domain.fields.items() if key not in lists}


# JSON records


def _prose_record(rng: random.Random, held_out: bool) -> Turn:
    """Facts in a sentence; the keys are told in half of the cases."""
    domain = rng.choice(DOMAINS)
    sentence = rng.choice(domain.sentences)
    record = {key: domain.fields[key].make(rng) for key in told_fields(sentence)}
    facts = tell(sentence, record)
    if rng.random() < 0.1:
        key = rng.choice(list(domain.fields))
        if key not in record:
            record[key] = domain.fields[key].make(rng)
            facts += f" {heading(key)}: {_spoken(rng, _as_json(record[key]))}."
    this = rng.choice(
        (
            "this",
            "this",
            f"this {domain.noun}",
            "these facts",
            "the following",
            f"the following {domain.noun}",
        )
    )
    request = _pick(rng, SAY["json_record"], held_out, this)
    if rng.random() < 0.4:
        return Turn(
            _ask(rng, request, facts),
            Record({key: _as_json(value) for key, value in record.items()}),
        )
    return _keyed_record(rng, held_out, domain, record, request, facts)


def _keyed_record(
    rng: random.Random,
    held_out: bool,
    domain: Domain,
    record: Mapping[str, object],
    request: str,
    facts: str,
) -> Turn:
    """The facts under keys that the user names: all or a part of them, perhaps with one unknown."""
    fields = list(record)
    if len(fields) > 2 and rng.random() < 0.1:
        fields = rng.sample(fields, rng.randint(2, len(fields) - 1))
    elif rng.random() < 0.1:
        rng.shuffle(fields)
    value: dict[str, Json] = {
        _key_for(rng, domain, field): _as_json(record[field]) for field in fields
    }
    after = ""
    if rng.random() < 0.04:
        unknown = rng.choice(list(domain.fields))
        if unknown not in record:
            value[unknown] = None
            after = f" {SAY['missing'].pick(rng, held_out)}."
    request += _clause(rng, SAY["keys"], held_out, list(value))
    one_line = rng.random() < 0.03
    if one_line:
        after += f" {SAY['one_line'].pick(rng, held_out)}."
    return Turn(_ask(rng, request, facts) + _separated(after), Record(value, one_line))


def _separated(after: str) -> str:
    """A remark after the facts, on a line of its own."""
    return f"\n{after.strip()}" if after else ""


def _key_for(rng: random.Random, domain: Domain, field: str) -> str:
    """The field's own key, or one of the other names for it."""
    synonyms = domain.fields[field].synonyms
    free = [name for name in synonyms if name not in domain.fields]
    return rng.choice(free) if free and rng.random() < 0.15 else field


def _pairs_record(rng: random.Random, held_out: bool) -> Turn:
    """Keys and values side by side: `name Mara Holt, age 34, city Bergen`."""
    noun, value = _loose_facts(rng)
    style = rng.randrange(7)
    if any(isinstance(one, list) for one in value.values()) or any(
        "," in str(one) for one in value.values()
    ):
        style = rng.choice((1, 5))
    told = {
        key.replace("_", " ") if style in (1, 5) and rng.random() < 0.5 else key: one
        for key, one in value.items()
    }
    this = rng.choice(("this", "this", f"this {noun}", "the following", f"the following {noun}"))
    wording = _pick(rng, SAY["json_record"], held_out, f"a {noun}" if style == 6 else this)
    if style == 6 and f"a {noun}" not in wording:
        style = 0
    facts = _pairs(rng, told, style)
    if style == 6:
        stop = "?" if wording.lower().startswith(_QUESTION_STARTS) else "."
        return Turn(f"{words.fix_articles(wording)} {facts}{stop}", Record(value))
    return Turn(_ask(rng, wording, facts, prose=style == 3), Record(value))


def _pairs(rng: random.Random, told: Mapping[str, Json], style: int) -> str:
    pairs = [(key, _spoken(rng, value)) for key, value in told.items()]
    match style:
        case 0:
            return ", ".join(f"{key} {value}" for key, value in pairs)
        case 1:
            return "; ".join(f"{key}: {value}" for key, value in pairs)
        case 2:
            return ", ".join(f"{key} = {value}" for key, value in pairs)
        case 3:
            return words.joined([f"{key} is {value}" for key, value in pairs]) + "."
        case 4:
            return ", ".join(f"{key}: {value}" for key, value in pairs)
        case 5:
            return "\n".join(f"{key}: {value}" for key, value in pairs)
        case _:
            return "with " + words.joined([f"{key} {value}" for key, value in pairs])


def _loose_facts(rng: random.Random) -> tuple[str, dict[str, Json]]:
    """Some fields of one domain, or of several, under one of their names."""
    domain = rng.choice(DOMAINS)
    if rng.random() < 0.8:
        fields = rng.sample(list(domain.fields), rng.randint(2, min(5, len(domain.fields))))
        return domain.noun, {
            _key_for(rng, domain, key): _as_json(domain.fields[key].make(rng)) for key in fields
        }
    found: dict[str, Json] = {}
    for other in rng.sample(DOMAINS, rng.randint(2, 4)):
        key = rng.choice(list(other.fields))
        found[_key_for(rng, other, key)] = _as_json(other.fields[key].make(rng))
    return ("record", found) if len(found) > 1 else _loose_facts(rng)


# Arrays and tables


def _table(rng: random.Random, least: int = 2, most: int = 4) -> tuple[Domain, Table]:
    """A table with two to four fields of a domain; no two rows share the value of the first column."""
    domain = rng.choice(DOMAINS)
    fields = _flat(domain)
    first = next(iter(fields))
    keys = (first, *rng.sample([key for key in fields if key != first], rng.randint(1, 3)))
    rows = {
        str(row[0]): row
        for row in (
            tuple(_scalar(fields[key].make(rng)) for key in keys)
            for _ in range(rng.randint(least, most))
        )
    }
    if len(rows) < least:
        return _table(rng, least, most)
    return domain, Table(keys, tuple(rows.values()))


def _scalar(value: object) -> Scalar:
    assert isinstance(value, str | int | float | bool)
    return value


def _told_rows(rng: random.Random, table: Table) -> tuple[str, bool]:
    """The rows as people tell them, and whether keys or headings are told with them."""
    rows = [[_cell(value) for value in row] for row in table.rows]
    plain = [", ".join(row) for row in rows]
    match rng.randrange(6):
        case 0:
            return "; ".join(plain), False
        case 1:
            return "\n".join(plain), False
        case 2:
            return ", ".join(f"{row[0]} ({', '.join(row[1:])})" for row in rows), False
        case 3:
            return "\n".join([",".join(table.columns), *(",".join(row) for row in rows)]), True
        case 4:
            named = [
                ", ".join(f"{key} {value}" for key, value in zip(table.keys, row, strict=True))
                for row in rows
            ]
            return rng.choice(("; ", "\n")).join(named), True
        case _:
            return "\n".join(f"- {row[0]}: {', '.join(row[1:])}" for row in rows), False


def _sentence_rows(rng: random.Random) -> tuple[Domain, Table, str] | None:
    """A table whose rows are told in sentences."""
    domain = rng.choice(DOMAINS)
    fields = _flat(domain)
    sentence = rng.choice(domain.sentences)
    keys = told_fields(sentence)
    if any(key not in fields for key in keys) or not 2 <= len(keys) <= 5:
        return None
    records = [{key: fields[key].make(rng) for key in keys} for _ in range(rng.randint(2, 3))]
    shown = (
        keys
        if rng.random() < 0.85 or len(keys) == 2
        else tuple(rng.sample(keys, rng.randint(2, len(keys) - 1)))
    )
    rows = tuple(tuple(_scalar(record[key]) for key in shown) for record in records)
    if len({str(row[0]) for row in rows}) < len(rows):
        return None
    return domain, Table(shown, rows), " ".join(tell(sentence, record) for record in records)


def _table_turn(rng: random.Random, held_out: bool) -> Turn:
    """A Markdown table from rows told in one of many ways."""
    told = _sentence_rows(rng) if rng.random() < 0.4 else None
    if told:
        domain, table, facts = told
        named = False
    else:
        domain, table = _table(rng)
        facts, named = _told_rows(rng, table)
    request = _pick(rng, SAY["table"], held_out, _these(rng, domain))
    if not named:
        request += _clause(rng, SAY["columns"], held_out, table.columns)
    return Turn(_ask(rng, request, facts, prose=told is not None), table)


def _array_turn(rng: random.Random, held_out: bool) -> Turn:
    """A JSON array of objects from rows told in one of many ways."""
    told = _sentence_rows(rng) if rng.random() < 0.4 else None
    if told:
        domain, table, facts = told
        named = False
    else:
        domain, table = _table(rng, 2, 3)
        facts, named = _told_rows(rng, table)
    request = _pick(rng, SAY["json_array"], held_out, _these(rng, domain))
    if not named:
        request += _clause(rng, SAY["keys"], held_out, table.keys)
    return Turn(_ask(rng, request, facts, prose=told is not None), ObjectArray(table))


def _these(rng: random.Random, domain: Domain) -> str:
    return rng.choice(
        (
            "this",
            f"these {domain.plural}",
            f"these {domain.plural}",
            f"the following {domain.plural}",
            "the following",
        )
    )


# Lists


def _list_turn(rng: random.Random, held_out: bool) -> Turn:
    """A bullet list, numbered list or checklist of items told in a row."""
    doc, items = source_texts.items(rng, rng.randint(3, 6))
    wordings, mark = rng.choices(
        ((SAY["bullets"], "- "), (SAY["numbered"], "1. "), (SAY["checklist"], "- [ ] ")),
        cum_weights=(5, 9, 10),
    )[0]
    facts = _told_items(rng, doc, items)
    request = _pick(
        rng,
        wordings,
        held_out,
        rng.choice(("this", "these", "the following", "these items", "the items")),
    )
    return Turn(_ask(rng, request, facts, prose=facts.endswith(".")), ItemList(items, mark))


_INTRODUCTIONS = {
    "to-do list": ("I have to", "We still have to", "Today I want to", "Please remember to", "Tomorrow we must"),
    "shopping list": ("I need", "We need", "Please buy", "The shop has", "I want to buy", "Still missing:"),
    "list of towns": ("We will visit", "Our trip goes through", "I have been to", "The train stops in"),
    "list of names": ("Invited are", "On the team are", "In the room are", "We asked"),
    "guest list": ("The guests are", "Invited are", "There will be", "At the table sit"),
    "list": ("I have", "There are", "On the list:", "The words are", "We found"),
}  # fmt: skip


def _told_items(rng: random.Random, doc: str, items: Sequence[str]) -> str:
    match rng.randrange(5):
        case 0:
            return words.joined(items)
        case 1:
            return ", ".join(items)
        case 2:
            return "; ".join(items)
        case 3:
            return "\n".join(items)
        case _:
            return f"{rng.choice(_INTRODUCTIONS.get(doc, ('The words are', 'The list holds', 'Here we have')))} {words.joined(items)}."


# From one form to another


def _convert_turn(rng: random.Random, held_out: bool) -> Turn:
    """A table, JSON or values given as they are, to be written in another form."""
    return rng.choice((_convert_record, _convert_rows, _convert_rows, _edit_given))(rng, held_out)


def _convert_record(rng: random.Random, held_out: bool) -> Turn:
    _, value = _loose_facts(rng)
    value = {key: one for key, one in value.items() if not isinstance(one, list)}
    if len(value) < 2:
        return _convert_record(rng, held_out)
    record = Record(value, one_line=rng.random() < 0.3)
    table = _one_row(record)
    if rng.random() < 0.5:
        request = _pick(
            rng,
            SAY["to_table"],
            held_out,
            rng.choice(("this JSON", "this JSON object", "this", "this record")),
        )
        return Turn(_ask(rng, request, render(record), prose=False), table)
    request = _pick(
        rng,
        SAY["to_bullets"],
        held_out,
        rng.choice(("this JSON", "this JSON object", "this", "this record")),
    )
    return Turn(_ask(rng, request, render(record), prose=False), _bullets_of(record))


def _convert_rows(rng: random.Random, held_out: bool) -> Turn:
    _, table = _table(rng, 2, 3)
    given, name = rng.choice(
        (
            (_markdown(table), "table"),
            (
                "\n".join(
                    ",".join(line)
                    for line in (table.keys, *(map(_cell, row) for row in table.rows))
                ),
                "CSV",
            ),
            (_dumps(table.objects()), "JSON"),
        )
    )
    this = rng.choice((f"this {name}", f"this {name}", "this"))
    if name == "JSON" or (name == "CSV" and rng.random() < 0.5):
        return Turn(
            _ask(rng, _pick(rng, SAY["to_table"], held_out, this), given, prose=False), table
        )
    return Turn(
        _ask(rng, _pick(rng, SAY["to_json"], held_out, this), given, prose=False),
        ObjectArray(table),
    )


def _edit_given(rng: random.Random, held_out: bool) -> Turn:
    """A change to JSON, a table or a list that stands in the request."""
    kind = rng.choice(("pairs", "table", "list"))
    state = _FIRST_TURNS[kind][1](rng, held_out).state
    follow = _follow_up(rng, held_out, state)
    if follow is None:
        return _edit_given(rng, held_out)
    return Turn(f"{render(state)}\n\n{follow.request}", follow.state)


def _one_row(record: Record) -> Table:
    return Table(tuple(record.value), (tuple(_scalar(value) for value in record.value.values()),))


def _bullets_of(record: Record) -> ItemList:
    return ItemList(tuple(f"{key}: {_cell(value)}" for key, value in record.value.items()))


# Later turns


def _follow_up(rng: random.Random, held_out: bool, state: State) -> Turn | None:
    """A request to change what was just written; none if the state allows no change that was tried."""
    for _ in range(6):
        turn = _change(rng, held_out, state)
        if turn is not None:
            return replace(turn, request=_finished(turn.request))
    return None


def _finished(request: str) -> str:
    request = request[:1].upper() + request[1:]
    return request + ("?" if request.lower().startswith(_QUESTION_STARTS) else ".")


def _change(rng: random.Random, held_out: bool, state: State) -> Turn | None:
    match state:
        case Record():
            return rng.choice(_RECORD_CHANGES)(rng, held_out, state)
        case Table():
            return rng.choice(_TABLE_CHANGES)(rng, held_out, state)
        case ItemList():
            return rng.choice(_LIST_CHANGES)(rng, held_out, state)
        case ObjectArray(table):
            return Turn(SAY["as_table"].pick(rng, held_out), table)
        case StringArray(items):
            return Turn(SAY["as_bullets"].pick(rng, held_out), ItemList(items))


def _any_fact(rng: random.Random) -> tuple[str, Json]:
    """A key and a single value from any domain."""
    domain = rng.choice(DOMAINS)
    key = rng.choice(list(_flat(domain)))
    return _key_for(rng, domain, key), _as_json(domain.fields[key].make(rng))


def _spoken_key(rng: random.Random, key: str) -> str:
    """The key as it is or in words: `due_date` or `due date`."""
    return key if rng.random() < 0.4 else key.replace("_", " ")


def _key_added(rng: random.Random, held_out: bool, state: Record) -> Turn | None:
    key, value = _any_fact(rng)
    if key in state.value or len(state.value) > 7:
        return None
    request = (
        SAY["add_key"]
        .pick(rng, held_out)
        .format(key=_spoken_key(rng, key), value=_spoken(rng, value))
    )
    return Turn(request, replace(state, value={**state.value, key: value}))


def _key_changed(rng: random.Random, held_out: bool, state: Record) -> Turn | None:
    for domain in rng.sample(DOMAINS, len(DOMAINS)):
        shared = [
            key
            for key in state.value
            if key in _flat(domain) and not isinstance(state.value[key], dict | list)
        ]
        if not shared:
            continue
        key = rng.choice(shared)
        value = _as_json(domain.fields[key].make(rng))
        if value == state.value[key] or isinstance(value, bool) != isinstance(
            state.value[key], bool
        ):
            return None
        request = (
            SAY["change_key"]
            .pick(rng, held_out)
            .format(key=_spoken_key(rng, key), value=_spoken(rng, value))
        )
        return Turn(request, replace(state, value={**state.value, key: value}))
    return None


def _key_removed(rng: random.Random, held_out: bool, state: Record) -> Turn | None:
    if len(state.value) < 3:
        return None
    key = rng.choice(list(state.value))
    value = {name: one for name, one in state.value.items() if name != key}
    return Turn(
        SAY["remove_key"].pick(rng, held_out).format(key=_spoken_key(rng, key)),
        replace(state, value=value),
    )


def _key_renamed(rng: random.Random, held_out: bool, state: Record) -> Turn | None:
    key = rng.choice(list(state.value))
    domain = rng.choice([domain for domain in DOMAINS if key in domain.fields] or [None])
    names = (
        [name for name in domain.fields[key].synonyms if name not in state.value] if domain else []
    )
    if not names:
        return None
    new = rng.choice(names)
    value = {new if name == key else name: one for name, one in state.value.items()}
    return Turn(
        SAY["rename_key"].pick(rng, held_out).format(key=key, value=new),
        replace(state, value=value),
    )


def _record_shown_otherwise(rng: random.Random, held_out: bool, state: Record) -> Turn | None:
    if any(isinstance(value, dict | list) or value is None for value in state.value.values()):
        return None
    if rng.random() < 0.5 and len(state.value) <= 6:
        return Turn(SAY["as_table"].pick(rng, held_out), _one_row(state))
    return Turn(SAY["as_bullets"].pick(rng, held_out), _bullets_of(state))


_RECORD_CHANGES: tuple[Callable[[random.Random, bool, Record], Turn | None], ...] = (
    _key_added, _key_added, _key_changed, _key_changed, _key_removed, _key_renamed, _record_shown_otherwise,
)  # fmt: skip


def _new_row(rng: random.Random, table: Table) -> tuple[Scalar, ...] | None:
    """A row that fits under the keys, if they are the fields of one domain."""
    domain = _domain_of(table)
    return tuple(_scalar(domain.fields[key].make(rng)) for key in table.keys) if domain else None


def _domain_of(table: Table) -> Domain | None:
    return next(
        (domain for domain in DOMAINS if all(key in domain.fields for key in table.keys)), None
    )


def _row_added(rng: random.Random, held_out: bool, state: Table) -> Turn | None:
    row = _new_row(rng, state)
    if row is None or len(state.rows) > 6 or row[0] in [old[0] for old in state.rows]:
        return None
    request = SAY["add_row"].pick(rng, held_out).format(value=", ".join(map(_cell, row)))
    return Turn(request, replace(state, rows=(*state.rows, row)))


def _row_removed(rng: random.Random, held_out: bool, state: Table) -> Turn | None:
    if len(state.rows) < 3:
        return None
    row = rng.choice(state.rows)
    request = SAY["remove_row"].pick(rng, held_out).format(key=_cell(row[0]))
    return Turn(request, replace(state, rows=tuple(old for old in state.rows if old is not row)))


def _cell_changed(rng: random.Random, held_out: bool, state: Table) -> Turn | None:
    new = _new_row(rng, state)
    if new is None or len(state.rows) < 2:
        return None
    place, column = rng.randrange(len(state.rows)), rng.randrange(1, len(state.keys))
    row = state.rows[place]
    if row[column] == new[column]:
        return None
    changed = (*row[:column], new[column], *row[column + 1 :])
    name = state.columns[column].lower()
    request = (
        SAY["change_cell"]
        .pick(rng, held_out)
        .format(column=name, key=_cell(row[0]), value=_cell(new[column]))
    )
    return Turn(
        request, replace(state, rows=(*state.rows[:place], changed, *state.rows[place + 1 :]))
    )


def _column_dropped(rng: random.Random, held_out: bool, state: Table) -> Turn | None:
    if len(state.keys) < 3:
        return None
    column = rng.randrange(1, len(state.keys))
    rows = tuple((*row[:column], *row[column + 1 :]) for row in state.rows)
    keys = (*state.keys[:column], *state.keys[column + 1 :])
    return Turn(
        SAY["drop_column"].pick(rng, held_out).format(key=state.columns[column]), Table(keys, rows)
    )


def _table_as_json(rng: random.Random, held_out: bool, state: Table) -> Turn | None:
    return (
        Turn(SAY["as_json"].pick(rng, held_out), ObjectArray(state))
        if len(state.rows) > 1
        else None
    )


_TABLE_CHANGES: tuple[Callable[[random.Random, bool, Table], Turn | None], ...] = (
    _row_added, _row_added, _row_removed, _cell_changed, _column_dropped, _table_as_json,
)  # fmt: skip


def _item_added(rng: random.Random, held_out: bool, state: ItemList) -> Turn | None:
    _, items = source_texts.items(rng, 2)
    new = items[: rng.choice((1, 1, 2))]
    if set(new) & set(state.items) or len(state.items) > 8:
        return None
    request = SAY["add_item"].pick(rng, held_out).format(value=words.joined(new))
    return Turn(request, replace(state, items=(*state.items, *new)))


def _item_removed(rng: random.Random, held_out: bool, state: ItemList) -> Turn | None:
    if len(state.items) < 3:
        return None
    item = rng.choice(state.items)
    request = SAY["remove_item"].pick(rng, held_out).format(value=item.split(":")[0])
    return Turn(request, replace(state, items=tuple(old for old in state.items if old != item)))


def _list_shown_otherwise(rng: random.Random, held_out: bool, state: ItemList) -> Turn | None:
    if state.mark == "1. ":
        return Turn(SAY["as_bullets"].pick(rng, held_out), replace(state, mark="- "))
    return (
        Turn(SAY["as_numbered"].pick(rng, held_out), replace(state, mark="1. "))
        if state.mark == "- "
        else None
    )


def _list_as_json(rng: random.Random, held_out: bool, state: ItemList) -> Turn | None:
    if any(":" in item for item in state.items):
        return None
    return Turn(SAY["as_json"].pick(rng, held_out), StringArray(state.items))


_LIST_CHANGES: tuple[Callable[[random.Random, bool, ItemList], Turn | None], ...] = (
    _item_added, _item_added, _item_removed, _item_removed, _list_shown_otherwise, _list_as_json,
)  # fmt: skip

_FIRST_TURNS: dict[str, tuple[float, Callable[[random.Random, bool], Turn]]] = {
    "prose": (34, _prose_record),
    "pairs": (20, _pairs_record),
    "array": (9, _array_turn),
    "table": (16, _table_turn),
    "list": (14, _list_turn),
    "convert": (12, _convert_turn),
}
_WEIGHT_BOUNDS = [
    sum(weight for weight, _ in list(_FIRST_TURNS.values())[: index + 1])
    for index in range(len(_FIRST_TURNS))
]
