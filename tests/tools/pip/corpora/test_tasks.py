"""Records and rewrites that Pip learns from: right answers, sound JSON, wordings kept back."""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Iterator

import pytest

from tools.pip.corpora import (
    records,
    rewrites,
    source_texts,
    words,
)
from tools.pip.corpora.example import (
    Example,
    JsonCheck,
    KeywordCheck,
    NumberCheck,
    TextCheck,
    chat,
    from_json,
    to_json,
)
from tools.pip.corpora.phrasings import Phrasings, phrasings

Generator = Callable[[random.Random, bool], Example]

GENERATORS = pytest.mark.parametrize(
    "generate",
    [records.generate, rewrites.generate, records.generate_changes, rewrites.generate_edits],
    ids=["records", "rewrites", "changes", "edits"],
)
WORDINGS = {
    f"{task}.{name}": value
    for task, wordings in (("records", records.SAY), ("rewrites", rewrites.SAY))
    for name, value in wordings.items()
}


MANY = 1500
"""Every rewriting task comes among so many."""


def drawn(
    generate: Generator, count: int, held_out: bool = False, seed: int = 5
) -> tuple[Example, ...]:
    rng = random.Random(seed)
    return tuple(generate(rng, held_out) for _ in range(count))


@functools.cache
def examples(generate: Generator, held_out: bool = False) -> tuple[Example, ...]:
    """Drawn once for all tests: that takes longer than what they look at."""
    return drawn(generate, 500 if held_out else MANY, held_out)


def reserved_only(wordings: Phrasings) -> list[str]:
    """Fragments of the reserved wordings that no trained wording of the same request has."""
    found = []
    for wording in wordings.reserved:
        fragments = [part.strip(" ,.;:") for part in re.split(r"\{\w+\}|\"", wording)]
        fragments = [part for part in fragments if len(part) > 14]
        found += [
            part for part in fragments if not any(part in other for other in wordings.trained)
        ]
    return found


@GENERATORS
@pytest.mark.parametrize("held_out", [False, True])
def test_the_reference_reply_passes_its_own_check(generate: Generator, held_out: bool) -> None:
    for example in examples(generate, held_out):
        assert example.check is not None
        assert example.check.passes(example.reply), example
        assert not example.check.passes(example.reply + " And more."), example


@GENERATORS
def test_a_seed_gives_the_same_examples_again(generate: Generator) -> None:
    assert drawn(generate, 200) == examples(generate)[:200]
    assert drawn(generate, 50, seed=1) != drawn(generate, 50, seed=2)


@GENERATORS
def test_chats_alternate_and_end_with_the_reply(generate: Generator) -> None:
    for example in examples(generate):
        roles = [message.role for message in example.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        assert all(
            message.content == message.content.strip() != "" for message in example.messages
        ), example


@GENERATORS
def test_chats_fit_the_context_of_a_small_model(generate: Generator) -> None:
    lengths = [
        sum(len(message.content) for message in example.messages) for example in examples(generate)
    ]
    assert max(lengths) < 3600
    assert sum(lengths) / len(lengths) < 900


@GENERATORS
def test_no_slot_is_left_unfilled(generate: Generator) -> None:
    for example in examples(generate):
        if example.kind == "rewrites.fill_form":
            continue
        for message in example.messages:
            assert not re.search(r"\{[a-z_0-9]+\}|\0", message.content), message.content


@GENERATORS
def test_examples_survive_a_trip_through_jsonl(generate: Generator) -> None:
    for example in examples(generate)[:300]:
        line = to_json(example)
        assert "\n" not in line
        assert from_json(line) == example


def test_every_request_has_many_wordings_and_some_reserved() -> None:
    for name, wordings in WORDINGS.items():
        assert len(wordings.trained) >= 6, name
        assert wordings.reserved, name
        assert not set(wordings.taught()) & set(wordings.reserved), name


def test_reserved_wordings_never_occur_in_training() -> None:
    prompts = "\n".join(
        message.content
        for generate in (records.generate, rewrites.generate)
        for example in examples(generate)
        for message in example.prompt
    )
    all_trained = "\n".join(
        wording for wordings in WORDINGS.values() for wording in wordings.taught()
    )
    fragments = [fragment for wordings in WORDINGS.values() for fragment in reserved_only(wordings)]
    telling = [fragment for fragment in fragments if fragment not in all_trained]
    assert len(telling) > 40
    leaked = [
        fragment
        for fragment in telling
        if fragment in prompts and re.search(rf"\b{re.escape(fragment)}\b", prompts)
    ]
    assert leaked == []


@GENERATORS
def test_held_out_examples_use_reserved_wordings_alone(
    generate: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    picked: list[tuple[bool, str, Phrasings]] = []
    pick = Phrasings.pick

    def recorded(self: Phrasings, rng: random.Random, held_out: bool) -> str:
        picked.append((held_out, pick(self, rng, held_out), self))
        return picked[-1][1]

    monkeypatch.setattr(Phrasings, "pick", recorded)
    for held_out in (False, True):
        drawn(generate, 500, held_out)
        assert picked
        assert all(told == held_out for told, _, _ in picked)
        assert all((wording in kept.reserved) == held_out for _, wording, kept in picked)
        picked.clear()


def test_json_replies_hold_the_value_that_the_check_expects() -> None:
    checked = 0
    for example in examples(records.generate):
        if isinstance(example.check, JsonCheck):
            assert json.loads(example.reply) == json.loads(example.check.expected)
            checked += 1
    assert checked > 350


def test_what_a_record_says_was_told() -> None:
    """A "the A Inn" once became "An Inn" in the prose alone, and the record said otherwise."""
    for example in examples(records.generate):
        prompt = "\n".join(message.content for message in example.prompt)
        if isinstance(example.check, JsonCheck):
            assert all(leaf in prompt for leaf in leaves(json.loads(example.reply))), example


def leaves(value: object) -> Iterator[str]:
    """Strings and numbers of JSON data as text; true, false and null are told in other words."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from leaves(one)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def test_tables_have_as_many_cells_in_every_row() -> None:
    tables = [
        example.reply for example in examples(records.generate) if example.reply.startswith("|")
    ]
    assert len(tables) > 60
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_every_rewriting_task_is_drawn() -> None:
    kinds = {example.kind for example in examples(rewrites.generate)}
    expected = {f"rewrites.{task.name}" for task in rewrites.TASKS}
    assert kinds == expected | {"rewrites.fill_form"}


def test_a_rename_leaves_nothing_but_the_name_changed() -> None:
    rng = random.Random(3)
    task = next(task for task in rewrites.TASKS if task.name == "rename_person")
    for _ in range(300):
        source = task.make(rng)
        edit = task.edit(rng, False, source)
        if edit is None:
            continue
        old, new = source.cast.person, edit.result.cast.person
        assert not re.search(rf"\b{old}\b", edit.result.text)
        assert re.sub(rf"\b{new}\b", old, edit.result.text) == source.text
        assert old in edit.instruction
        assert new in edit.instruction


def test_a_filled_form_has_no_blank_left() -> None:
    rng = random.Random(4)
    for _ in range(500):
        form = source_texts.form(rng)
        assert len(form.values) >= 2
        assert all(value in form.filled for value in form.values.values())
        assert not re.search(r"____|\[\w|\[ \]|<\w|\{|__\w", form.filled), form


def test_word_banks_are_wide_and_without_repeats() -> None:
    least = {
        "FIRST_NAMES": 400,
        "PLACES": 200,
        "THINGS": 600,
        "ADJECTIVES": 100,
        "JOBS": 60,
        "SPOTS": 30,
    }
    for name, count in least.items():
        bank = getattr(words, name)
        assert len(bank) == len(set(bank)) >= count, name
    assert all(len(bank.templates) >= 60 for bank in source_texts.BANKS.values())


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ("a apple", "an apple"),
        ("an lamp", "a lamp"),
        ("A unicorn", "A unicorn"),
        ("an ukulele", "a ukulele"),
        ("a honest cat", "an honest cat"),
        ("a 8 year old", "an 8 year old"),
        ("the a", "the a"),
    ],
)
def test_articles_fit_the_next_word(told: str, wanted: str) -> None:
    assert words.fix_articles(told) == wanted


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (JsonCheck('{"a": 1, "b": true}'), '{"b": true, "a": 1.0}', '{"a": 1, "b": 1}'),
        (JsonCheck("[1, 2]"), " [1,2] ", "```json\n[1, 2]\n```"),
        (TextCheck("one\ntwo"), "one\ntwo\n", "one two"),
        (
            KeywordCheck((("draft", "small model"), ("target",)), ("cloud",)),
            "A Draft and a target",
            "a draft alone",
        ),
        (KeywordCheck((("draft",),), ("cloud",)), "a draft", "a draft in the cloud"),
        (NumberCheck(1200), "5 + 3, so 1,200 lamps.", "1,200 or 12"),
        (NumberCheck(2.5), "It is 2.5", "none"),
    ],
)
def test_checks_tell_good_replies_from_bad(check: object, good: str, bad: str) -> None:
    assert isinstance(check, JsonCheck | TextCheck | KeywordCheck | NumberCheck)
    assert check.passes(good)
    assert not check.passes(bad)
    assert from_json(to_json(Example("test", chat("question", good), check))).check == check


def test_wordings_need_enough_lines_to_keep_one_back() -> None:
    one = phrasings("a\nb\nc\nd\ne")
    assert one == Phrasings(("a", "b", "c", "e"), ("d",))


def test_a_pattern_stands_for_its_forms_but_those_kept_back_and_is_not_counted() -> None:
    some = phrasings("a\nb\nsay [x|y| ]now[|, please]\nc\nsay y\nd [ ] | e\n[say|tell] [x|y]")
    assert some.reserved == ("say y",)
    assert some.trained == ("a", "b", "c", "d [ ] | e")
    assert some.patterns[0] == tuple(
        f"say {part}now{end}" for part in ("x", "y", " ") for end in ("", ", please")
    )
    assert some.patterns[1] == ("say x", "tell x", "tell y")
    rng = random.Random(1)
    assert {some.pick(rng, False) for _ in range(400)} == set(some.taught())
    assert {some.pick(rng, True) for _ in range(20)} == {"say y"}


def test_a_pattern_has_blanks_that_its_request_fills() -> None:
    def blanks(wording: str) -> frozenset[str]:
        return frozenset(re.findall(r"\{(\w+)\}", wording))

    for name, wordings in WORDINGS.items():
        known = {blanks(wording) for wording in wordings.trained}
        for forms in wordings.patterns:
            for form in forms:
                assert blanks(form) in known, (name, form)
                assert not re.search(r"  | [,;:]|^ | $", form), (name, form)


def test_a_chat_of_edits_has_more_turns_than_people_ask_for() -> None:
    turns = [len(example.messages) // 2 for example in examples(rewrites.generate_edits)]
    assert set(turns) == {1, 2, 3, 4}
    assert 2 <= sum(turns) / len(turns) <= 3


def test_minutes_are_spoken_of_in_the_plural() -> None:
    for example in examples(rewrites.generate):
        assert "this minutes" not in example.messages[0].content.lower()
