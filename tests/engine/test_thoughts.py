"""Where a thought begins and ends, however its text comes."""

from __future__ import annotations

import pytest

from engine.events import Emitted, Finished, FinishReason, Token
from engine.reply import ReplyState
from engine.thoughts import Thoughts, opens_thought, served_as, split, template_values

CASES = {
    "<think>\nabc def\n</think>\n\nHello": ("abc def", "Hello"),
    "\n<think>a < b</think>c": ("a < b", "c"),
    "<thinking>x</thinking> y": ("x", "y"),
    "[THINK]x[/THINK]y": ("x", "y"),
    "<think>\n\n</think>\n\nHello": ("", "Hello"),
    "<think>cut": ("cut", ""),
    "Hello </think> there": ("", "Hello </think> there"),
    "The mark is <think>.": ("", "The mark is <think>."),
    "<thi": ("", "<thi"),
    "  two spaces": ("", "  two spaces"),
}


@pytest.mark.parametrize("text", CASES)
def test_a_thought_is_told_from_the_answer_and_its_places_are_the_texts(text: str) -> None:
    parts = split(text)
    assert (parts.thought, parts.answer) == CASES[text]
    assert text[parts.begin : parts.end] == parts.thought
    assert not parts.closed or text[parts.start :] == parts.answer
    assert parts.closed == (text != "<think>cut")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("text", CASES)
def test_a_text_that_comes_in_pieces_is_split_as_the_whole(text: str, size: int) -> None:
    reader = Thoughts()
    told = [reader.read(text[at : at + size]) for at in range(0, len(text), size)]
    thought, answer = (
        "".join(each) for each in zip(*told, reader.read("", last=True), strict=True)
    )
    assert (thought, answer) == CASES[text]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("text", CASES)
def test_its_tokens_are_counted_alike_however_many_a_round_brings(text: str, size: int) -> None:
    tokens = [Token(0, text[at : at + size], at) for at in range(0, len(text), size)]
    parts = split(text)
    inside = [each for each in tokens if parts.begin < each.start + size and each.start < parts.end]
    for count in (1, 2, len(tokens)):
        rounds = [tuple(tokens[at : at + count]) for at in range(0, len(tokens), count)]
        events = [Emitted(text="".join(each.text for each in one), tokens=one) for one in rounds]
        reply = ReplyState.of([*events, Finished(FinishReason.STOP, "", text, None)])
        assert reply.thought_tokens == (len(inside) if parts.thought else 0)


def test_a_reply_to_a_prompt_that_opened_a_thought_begins_inside_it() -> None:
    assert opens_thought("<|assistant|>\n<think>\n")
    assert not opens_thought("<think>\n\n</think>\n\n")
    parts = split("abc\n</think>\n\nHello", opened=True)
    assert (parts.thought, parts.answer, parts.begin) == ("abc", "Hello", 0)
    assert not split("abc", opened=True).closed
    assert split("<think>abc</think>d", opened=True).thought == "abc"  # some write the mark again


def test_an_old_reply_without_its_first_mark_is_told_by_the_last_alone_on_its_line() -> None:
    assert split("abc\n</think>\n\nHello").answer == "Hello"
    shown = "Write\n<think>\nabc\n</think>\nin front."
    assert split(shown).answer == shown


def test_a_part_of_a_mark_is_held_back_and_nothing_else() -> None:
    reader = Thoughts()
    assert reader.read("<think>abc") == ("abc", "")
    assert reader.read(" d</thi") == (" d", "")
    assert reader.read("s") == ("</this", "")
    assert reader.read(" </think>") == ("", "")
    assert reader.read("\n\nHi") == ("", "Hi")


def test_a_template_that_knows_a_budget_is_told_of_it() -> None:
    seed = "{% if thinking_budget is defined %}{{ thinking_budget }}{% endif %}"
    assert template_values(seed, "", 512) == {"thinking_budget": 512}
    assert (
        template_values(seed, "", None) == {} == template_values("{{ x.thinking_budget }}", "", 1)
    )
    both = "{% if enable_thinking %}{{ reasoning_effort }}{% endif %}"
    assert template_values(both, "low", 1) == {"enable_thinking": True, "reasoning_effort": "low"}
    assert template_values("{% if thinking %}", "off", None) == {"thinking": False}


@pytest.mark.parametrize(
    ("asked", "choices", "served"),
    [
        ("high", ("off", "on"), "on"),
        ("off", ("low", "medium", "high"), "low"),
        ("on", ("low", "medium", "high"), ""),
        ("high", ("low", "medium", "high"), "high"),
        ("high", (), ""),
    ],
)
def test_what_a_template_makes_of_a_choice_that_it_lacks(
    asked: str, choices: tuple[str, ...], served: str
) -> None:
    assert served_as(asked, choices) == served
