"""Every style: what its grammar allows is what its reader reads, and what is written is what is read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from engine.grammar.compiler import Grammars
from engine.models.checkpoints.tokenizer import load_tokenizer
from engine.request import Grammar, GrammarKind
from engine.tool_calls.lark import grammar_of_calls
from engine.tool_calls.reading import Arguments, Called, CallReader, Part, Said
from engine.tool_calls.styles import (
    GEMMA,
    HERMES,
    LLAMA,
    MISTRAL,
    MISTRAL_LIST,
    CallStyle,
    style_of,
)
from engine.tool_calls.values import Calling, Tool, ToolCall, ToolChoice
from tests.support.places import PIP

END = 1
TOKENIZER = load_tokenizer(PIP / "target").backend
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
SUM = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
TOOLS = (Tool("get_weather", "", json.dumps(CITY)), Tool("add", "", json.dumps(SUM)))
CALLS = (
    ToolCall("", "add", '{"a": 2.5}'),
    ToolCall("", "get_weather", '{"city": "R}o\\"me<tool_call>", "days": 3}'),
)
every_style = pytest.mark.parametrize(
    "style", [HERMES, LLAMA, MISTRAL_LIST, MISTRAL, GEMMA], ids=lambda style: style.head
)


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(TOKENIZER.to_str, 4096, (END,))


def fits(grammars: Grammars, grammar: Grammar, text: str) -> bool:
    """Whether ``text`` is whole by the grammar."""
    tokens = [*TOKENIZER.encode(text, add_special_tokens=False).ids, END]
    return grammars.start(grammar).count_fitting(tokens) == len(tokens)


def read(style: CallStyle, text: str, step: int, **told: Any) -> list[Part]:
    """Its parts, neighbours of a kind joined."""
    reader, found = CallReader(style, **told), list[Part]()
    for at in range(0, len(text), step):
        found += reader.read(text[at : at + step])
    found += reader.end()
    assert reader.calls == sum(isinstance(part, Called) for part in found)
    return list(joined(found))


def joined(parts: Iterable[Part]) -> Iterable[Part]:
    last: Part | None = None
    for part in parts:
        match last, part:
            case Said(one), Said(other):
                last = Said(one + other)
            case Arguments(index, one), Arguments(_, other):
                last = Arguments(index, one + other)
            case _:
                if last is not None:
                    yield last
                last = part
    if last is not None:
        yield last


@every_style
def test_what_may_be_written_is_read_however_it_comes(grammars: Grammars, style: CallStyle) -> None:
    free = grammar_of_calls(TOOLS, ToolChoice(), style, {})
    before = "" if style.whole else "Let me <tool see.\n"
    text = before + style.written(CALLS)
    assert fits(grammars, free, text)
    expected: list[Part] = [Said(before)] if before else []
    for index, call in enumerate(CALLS):
        expected += [Called(index, call.name), Arguments(index, call.arguments)]
    for step in (1, 3, 7, len(text)):
        assert read(style, text, step) == expected
    words = "It is warm, I think: 3 < 4."
    assert fits(grammars, free, words) and read(style, words, 2) == [Said(words)]


@every_style
def test_a_call_is_one_of_a_tool_by_its_schema(grammars: Grammars, style: CallStyle) -> None:
    one, two = style.written(CALLS[:1]), style.written(CALLS)
    free = grammar_of_calls(TOOLS, ToolChoice(), style, {})
    for wrong in (
        ToolCall("", "sub", '{"a": 2}'),
        ToolCall("", "add", '{"a": "2"}'),
        ToolCall("", "get_weather", '{"days": 3}'),
        ToolCall("", "get_weather", '{"city": "Rome", "sun": 1}'),
    ):
        assert not fits(grammars, free, style.written([wrong]))
    must = grammar_of_calls(TOOLS, ToolChoice(Calling.REQUIRED), style, {})
    assert fits(grammars, must, one) and fits(grammars, must, two)
    assert not fits(grammars, must, "No.") and not fits(grammars, must, "")
    named = grammar_of_calls(TOOLS, ToolChoice(name="add"), style, {})
    assert fits(grammars, named, one) and not fits(grammars, named, two)
    assert not fits(grammars, named, style.written(CALLS[1:]))
    single = grammar_of_calls(TOOLS, ToolChoice(parallel=False), style, {})
    assert fits(grammars, single, one) and not fits(grammars, single, two)


@every_style
def test_a_reply_that_calls_nothing_may_have_a_structure_too(
    grammars: Grammars, style: CallStyle
) -> None:
    content = Grammar(GrammarKind.JSON_SCHEMA, json.dumps({"enum": ["yes"]}))
    both = grammar_of_calls(TOOLS, ToolChoice(), style, {}, content)
    assert fits(grammars, both, '"yes"') and fits(grammars, both, style.written(CALLS))
    assert not fits(grammars, both, "yes")
    with pytest.raises(InvalidRequest, match="cannot stand beside tools"):
        grammar_of_calls(TOOLS, ToolChoice(), style, {}, Grammar(GrammarKind.REGEX, "a"))


def test_a_cut_call_is_told_as_far_as_it_goes() -> None:
    text = HERMES.written(CALLS[:1])
    cut = text[: text.index("2.5")]
    assert read(HERMES, cut, 1) == [Called(0, "add"), Arguments(0, '{"a": ')]


@every_style
def test_what_is_cut_before_a_calls_arguments_is_not_said(style: CallStyle) -> None:
    """``<tool_call>`` and half a name stood in the reply's text."""
    text = style.written(CALLS[:1])
    for end in range(len(style.trigger) or 1, text.index(CALLS[0].arguments)):
        assert read(style, text[:end], 3) == []
        if not style.whole:
            assert read(style, f"Let me see.{text[:end]}", 1) == [Said("Let me see.")]
    for end in range(1, len(text)):
        assert not any(isinstance(part, Said) for part in read(style, text[:end], 1, must=True))


def test_what_may_yet_be_text_is_said_where_a_reply_ends() -> None:
    """A reply that is JSON may begin as a call does in a style without a mark for calls."""
    for text in ("1 <", "<tool", "<tool_cal"):
        assert read(HERMES, text, 1) == [Said(text)]
    person = '{"name": "Ann"}'
    assert read(LLAMA, person, 1, structured=True) == [Said(person)]
    assert read(LLAMA, person[:8], 1, structured=True, must=True) == []


ADD = '{"name": "add", "arguments": {"a": 2.5}}'
FENCED = f"```json\n{ADD}\n```"
OFFERED = [tool.name for tool in TOOLS]


def test_a_reply_that_begins_with_the_json_of_a_call_is_one_however_it_comes() -> None:
    """Qwen2.5-Coder writes so what its template has in ``<tool_call>``."""
    call: list[Part] = [Called(0, "add"), Arguments(0, '{"a": 2.5}')]
    city = CALLS[1].arguments
    other = f'```\n{{"name" : "get_weather","arguments":\n{city} }}```'
    both = [*call, Called(1, "get_weather"), Arguments(1, city)]
    for step in (1, 3, 7, 999):
        for style in (HERMES, GEMMA):
            for text in (ADD, FENCED, f" \n{FENCED}\n", f"{FENCED}\nIt is 3.", FENCED[:-2]):
                assert read(style, text, step, offered=OFFERED) == call
            assert read(style, f"{FENCED}\n{other}\n", step, offered=OFFERED) == both
            assert read(style, f"{ADD}\n{other}", step, offered=OFFERED) == both
            assert read(style, f"{ADD}{other}", step, offered=OFFERED, several=False) == call
        for text in (ADD, FENCED):
            assert read(HERMES, text, step) == [Said(text)]
            assert read(HERMES, text, step, offered=["sub"]) == [Said(text)]
            assert read(HERMES, text, step, offered=OFFERED, structured=True) == [Said(text)]
            assert read(HERMES, f"So: {text}", step, offered=OFFERED) == [Said(f"So: {text}")]
    for text in (ADD.replace("2.5", "NaN"), ADD.replace('"a"', "'a'"), f'{ADD[:-1]}, "id": 1}}'):
        assert read(HERMES, text, 5, offered=OFFERED) == [Said(text)]
    marked = HERMES.written(CALLS)
    assert read(HERMES, marked, 2, offered=OFFERED) == read(HERMES, marked, 2)
    assert next(CallReader(HERMES, offered=OFFERED).read('{"names'), None) == Said('{"names')


@given(
    pieces=st.lists(
        st.sampled_from(
            [
                *("```", "json", "\n", " ", "{", "}", '"', '"name": ', '"add"', '"a', ", ", "é"),
                *('"arguments": ', '{"name": "add", "arguments": ', "{}", '{"a": "}"}', "{'a': 1}"),
            ]
        ),
        max_size=12,
    ),
    steps=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_what_calls_nothing_is_said_unchanged_in_whatever_pieces(
    pieces: list[str], steps: list[int]
) -> None:
    text = "".join(pieces)
    whole = read(HERMES, text, len(text) + 1, offered=OFFERED)
    for step in steps:
        assert read(HERMES, text, step, offered=OFFERED) == whole
    if not any(isinstance(part, Called) for part in whole):
        assert "".join(part.text for part in whole if isinstance(part, Said)) == text


def test_a_style_is_known_by_its_template() -> None:
    hermes = "{% if tools %}<tool_call>{% endif %}"
    coder = "{% if tools %}<tool_call><function=f>{% endif %}"
    llama = '{% if tools %}{"name": n, "parameters": p}{% endif %}<|eot_id|>'
    assert style_of(hermes) == (HERMES, True)
    assert style_of(llama) == (LLAMA, True)
    assert style_of("{{ tools }}[TOOL_CALLS]") == (MISTRAL_LIST, True)
    assert style_of("{{ tools }}[TOOL_CALLS][ARGS]") == (MISTRAL, True)
    assert style_of("<start_of_turn>") == (GEMMA, False)
    for other in (None, "{{ messages }}", coder):
        assert style_of(other) == (HERMES, False)


def test_a_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'sub', which is not among the tools"):
        grammar_of_calls(TOOLS, ToolChoice(name="sub"), HERMES, {})
    with pytest.raises(InvalidRequest, match="letters"):
        Tool('x", "')
