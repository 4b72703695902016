"""Every style: what its grammar allows is what its reader reads, and what is written is what is read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from engine.grammar.compiler import GrammarCompiler
from engine.models.checkpoints.tokenizer import load_tokenizer
from engine.tool_calls.lark import grammar_of_calls
from engine.tool_calls.reading import Arguments, CallReader, CallStart, Content, Part
from engine.tool_calls.styles import (
    GEMMA_CODE,
    HERMES,
    LLAMA,
    MISTRAL,
    MISTRAL_LIST,
    QWEN3_CODER,
    CallStyle,
    style_of,
)
from engine.values.grammar import Grammar, GrammarKind
from engine.values.tools import Calling, Tool, ToolCall, ToolChoice
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
    "style", [HERMES, LLAMA, MISTRAL_LIST, MISTRAL, GEMMA_CODE], ids=lambda style: style.head
)


@pytest.fixture(scope="module")
def grammars() -> GrammarCompiler:
    return GrammarCompiler(TOKENIZER.to_str, 4096, (END,))


def fits(grammars: GrammarCompiler, grammar: Grammar, text: str) -> bool:
    """Whether ``text`` is whole by the grammar."""
    tokens = [*TOKENIZER.encode(text, add_special_tokens=False).ids, END]
    return grammars.compiled(grammar).start().count_fitting(tokens) == len(tokens)


def read(style: CallStyle, text: str, step: int, **told: Any) -> list[Part]:
    """Its parts, neighbours of a kind joined."""
    reader, found = CallReader(style, **told), list[Part]()
    for at in range(0, len(text), step):
        found += reader.read(text[at : at + step])
    found += reader.end()
    assert reader.calls == sum(isinstance(part, CallStart) for part in found)
    return list(joined(found))


def joined(parts: Iterable[Part]) -> Iterable[Part]:
    last: Part | None = None
    for part in parts:
        match last, part:
            case Content(one), Content(other):
                last = Content(one + other)
            case Arguments(index, one), Arguments(_, other):
                last = Arguments(index, one + other)
            case _:
                if last is not None:
                    yield last
                last = part
    if last is not None:
        yield last


@every_style
def test_what_may_be_written_is_read_however_it_comes(
    grammars: GrammarCompiler, style: CallStyle
) -> None:
    free = grammar_of_calls(TOOLS, ToolChoice(), style, {})
    before = "" if style.whole else "Let me <tool see.\n"
    text = before + style.written(CALLS)
    assert fits(grammars, free, text)
    expected: list[Part] = [Content(before)] if before else []
    for index, call in enumerate(CALLS):
        expected += [CallStart(index, call.name), Arguments(index, call.arguments)]
    for step in (1, 3, 7, len(text)):
        assert read(style, text, step) == expected
    words = "It is warm, I think: 3 < 4."
    assert fits(grammars, free, words) and read(style, words, 2) == [Content(words)]


def test_a_call_without_arguments_ends() -> None:
    """The rest of the reply was taken for its arguments."""
    text = HERMES.written([ToolCall("", "add", ""), CALLS[0]])
    expected = [CallStart(0, "add"), CallStart(1, "add"), Arguments(1, CALLS[0].arguments)]
    for step in (1, 3, len(text)):
        assert read(HERMES, text, step) == expected


@every_style
def test_a_call_is_one_of_a_tool_by_its_schema(grammars: GrammarCompiler, style: CallStyle) -> None:
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
    grammars: GrammarCompiler, style: CallStyle
) -> None:
    content = Grammar(GrammarKind.JSON_SCHEMA, json.dumps({"enum": ["yes"]}))
    both = grammar_of_calls(TOOLS, ToolChoice(), style, {}, content)
    assert fits(grammars, both, '"yes"') and fits(grammars, both, style.written(CALLS))
    assert not fits(grammars, both, "yes")
    with pytest.raises(InvalidRequest, match="cannot be combined with tools"):
        grammar_of_calls(TOOLS, ToolChoice(), style, {}, Grammar(GrammarKind.REGEX, "a"))


def test_a_cut_call_is_told_as_far_as_it_goes() -> None:
    text = HERMES.written(CALLS[:1])
    cut = text[: text.index("2.5")]
    assert read(HERMES, cut, 1) == [CallStart(0, "add"), Arguments(0, '{"a": ')]


@every_style
def test_what_is_cut_before_a_calls_arguments_is_not_said(style: CallStyle) -> None:
    """``<tool_call>`` and half a name stood in the reply's text."""
    text = style.written(CALLS[:1])
    for end in range(len(style.trigger) or 1, text.index(CALLS[0].arguments)):
        assert read(style, text[:end], 3) == []
        if not style.whole:
            assert read(style, f"Let me see.{text[:end]}", 1) == [Content("Let me see.")]
    for end in range(1, len(text)):
        assert not any(
            isinstance(part, Content) for part in read(style, text[:end], 1, required=True)
        )


def test_what_may_yet_be_text_is_said_where_a_reply_ends() -> None:
    """A reply that is JSON may begin as a call does in a style without a mark for calls."""
    for text in ("1 <", "<tool", "<tool_cal"):
        assert read(HERMES, text, 1) == [Content(text)]
    person = '{"name": "Ann"}'
    assert read(LLAMA, person, 1, structured=True) == [Content(person)]
    assert read(LLAMA, person[:8], 1, structured=True, required=True) == []


ADD = '{"name": "add", "arguments": {"a": 2.5}}'
FENCED = f"```json\n{ADD}\n```"
OFFERED = [tool.name for tool in TOOLS]


DOUBLED = '{{"name": "add", "arguments": {"a": 2.5}}}'
CITY_CALL = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
ADDED: list[Part] = [CallStart(0, "add"), Arguments(0, '{"a": 2.5}')]
WEATHER: list[Part] = [CallStart(1, "get_weather"), Arguments(1, '{"city": "Oslo"}')]
WRITTEN: dict[str, tuple[str, list[Part]]] = {
    "single": (ADD, ADDED),
    "doubled": (DOUBLED, ADDED),
    "doubled, closed once": (DOUBLED[:-1], ADDED),
    "doubled, closed too often": (f"{DOUBLED}}}\n```", ADDED),
    "block": (FENCED, ADDED),
    "block in many lines": (
        '```json\n{\n  "name": "add",\n  "arguments": {"a": 2.5}\n}\n```',
        ADDED,
    ),
    "spelled mark, doubled": (f"<tool_call>\n{DOUBLED}\n</tool_call>", ADDED),
    "response": (f"<response>{DOUBLED}</response>", ADDED),
    "tool_response": (f"<tool_response>\n{ADD}\n</tool_response>", ADDED),
    "tools": (f"<tools>\n{ADD}\n</tools>", ADDED),
    "behind a sentence": (
        f"Here is the JSON:\n\n{FENCED}",
        [Content("Here is the JSON:\n"), *ADDED],
    ),
    "two in one block": (f"```json\n{ADD}\n{CITY_CALL}\n```", [*ADDED, *WEATHER]),
    "two in one pair of braces": (f"{{{ADD}, {CITY_CALL}}}", [*ADDED, *WEATHER]),
    "two in a list": (f"[{ADD}, {CITY_CALL}]", [*ADDED, *WEATHER]),
    "two, the first of which is repeated": (f"{ADD}\n{CITY_CALL}\n{ADD}", [*ADDED, *WEATHER]),
    "twice": (f"{DOUBLED}\n{DOUBLED}", ADDED),
}
"""What Qwen2.5-Coder 1.5B wrote for a call at temperatures 0 and 0.7, and what is read."""


@pytest.mark.parametrize("case", WRITTEN)
def test_a_call_without_its_styles_mark_is_read_however_it_comes(
    grammars: GrammarCompiler, case: str
) -> None:
    """Qwen2.5-Coder copies the doubled braces of its own template: that was text, and agents stopped."""
    text, parts = WRITTEN[case]
    for step in (1, 3, 7, 999):
        assert read(HERMES, text, step, tools=OFFERED) == parts
    if "mark" not in case:
        assert read(GEMMA_CODE, text, 2, tools=OFFERED) == parts
    assert fits(grammars, grammar_of_calls(TOOLS, ToolChoice(), HERMES, {}), text) is (
        case != "spelled mark, doubled"  # behind the mark a grammar leaves one way to write
    )


@pytest.mark.parametrize(
    "text",
    [
        f"So: {ADD}",
        '{\n  "name": "my-package",\n  "version": "1"\n}',
        '```json\n{"name": "sub", "arguments": {"a": 2.5}}\n```',
        '{"name": "add"}',
        '{{"name": "Ann"}}',
        '<div>\n{"name": "add", "arguments": 3}\n</div>',
        "```python\nprint({})\n```\n\n",
    ],
)
def test_json_that_calls_no_tool_is_text(grammars: GrammarCompiler, text: str) -> None:
    for step in (1, 3, 999):
        assert read(HERMES, text, step, tools=OFFERED) == [Content(text)]
    free = grammar_of_calls(TOOLS, ToolChoice(), HERMES, {})
    assert fits(grammars, free, text) is ('"arguments": 3' not in text)


def test_json_is_text_where_no_tool_or_a_schema_was_asked_for() -> None:
    for text in (ADD, DOUBLED, FENCED):
        assert read(HERMES, text, 3) == [Content(text)]
        assert read(HERMES, text, 3, tools=["sub"]) == [Content(text)]
        assert read(HERMES, text, 3, tools=OFFERED, structured=True) == [Content(text)]
        two = f"{text}\n{CITY_CALL}"
        assert read(HERMES, two, 3, tools=OFFERED, parallel=False) == ADDED
    marked = HERMES.written(CALLS)
    assert read(HERMES, marked, 2, tools=OFFERED) == read(HERMES, marked, 2)
    assert next(CallReader(HERMES, tools=OFFERED).read('{"names'), None) == Content('{"names')


def test_a_call_that_began_without_its_mark_matches_its_schema(grammars: GrammarCompiler) -> None:
    """The model wrote arguments in single quotes, and the call was text."""
    free = grammar_of_calls(TOOLS, ToolChoice(), HERMES, {})
    for wrong in ("'{\"a\": 2.5}'", '{"a": "2"}', "{\"a\": '2'}", "{}", '[{"a": 2}]'):
        assert not fits(grammars, free, ADD.replace('{"a": 2.5}', wrong))
    assert not fits(grammars, free, f'{ADD}\n{{"name": "sub"')
    single = grammar_of_calls(TOOLS, ToolChoice(parallel=False), HERMES, {})
    assert fits(grammars, single, FENCED) and not fits(grammars, single, f"{ADD}\n{CITY_CALL}")
    package = '{"name": "x", "version": "1"}'
    marked = HERMES.written(CALLS[:1])
    assert fits(grammars, free, f"{package}\n{marked}")  # text with a name, and then a call
    assert not fits(grammars, free, f"{package}\n{marked.replace('2.5', 'x')}")


def test_a_call_without_its_mark_that_was_cut_is_no_text() -> None:
    for end in range(DOUBLED.index('"add"') + 1, DOUBLED.index("{", 3)):
        assert read(HERMES, DOUBLED[:end], 1, tools=OFFERED) == []
    cut = DOUBLED[: DOUBLED.index("5")]
    assert read(HERMES, cut, 1, tools=OFFERED) == [CallStart(0, "add"), Arguments(0, '{"a": 2.')]


@every_style
def test_a_call_that_repeats_one_of_the_reply_is_left_out(style: CallStyle) -> None:
    """Agents ran it twice."""
    other = ToolCall("", "add", '{"a": 2.75}')
    text = style.written([CALLS[0], other, CALLS[1], CALLS[0]])
    alone = style.written([CALLS[0], other, CALLS[1]])
    for step in (1, 4, 999):
        assert read(style, text, step) == read(style, alone, step)
        assert read(style, text[:-12], step) == read(style, alone, step)  # cut in the repeated one
    reader = CallReader(style)
    for character in alone:
        assert not [*reader.read(character)] or not reader.repeated
    assert not reader.repeated and reader.calls == 3


@given(
    pieces=st.lists(
        st.sampled_from(
            [
                *("```", "json", "\n", " ", "{", "}", '"', '"name": ', '"add"', '"a', ", ", "é"),
                *('"arguments": ', '{"name": "add", "arguments": ', "{}", '{"a": "}"}', "{'a': 1}"),
                *("{{", "<", "<tools>", "[", "name"),
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
    whole = read(HERMES, text, len(text) + 1, tools=OFFERED)
    for step in steps:
        assert read(HERMES, text, step, tools=OFFERED) == whole
    if not any(isinstance(part, CallStart) for part in whole):
        said = "".join(part.text for part in whole if isinstance(part, Content))
        assert text.startswith(said)
        assert said == text or '"name"' in text[len(said) :]  # a call that was cut


def test_a_style_is_known_by_its_template() -> None:
    hermes = "{% if tools %}<tool_call>{% endif %}"
    coder = "{% if tools %}<tool_call><function=f>{% endif %}"
    llama = '{% if tools %}{"name": n, "parameters": p}{% endif %}<|eot_id|>'
    assert style_of(hermes) == (HERMES, True)
    assert style_of(llama) == (LLAMA, True)
    assert style_of("{{ tools }}[TOOL_CALLS]") == (MISTRAL_LIST, True)
    assert style_of("{{ tools }}[TOOL_CALLS][ARGS]") == (MISTRAL, True)
    assert style_of("<start_of_turn>") == (GEMMA_CODE, False)
    assert style_of(coder) == (QWEN3_CODER, True)
    for other in (None, "{{ messages }}"):
        assert style_of(other) == (HERMES, False)


def test_a_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'sub', which is not among the tools"):
        grammar_of_calls(TOOLS, ToolChoice(name="sub"), HERMES, {})
    with pytest.raises(InvalidRequest, match="letters"):
        Tool('x", "')


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_parameters_that_json_cannot_say_are_refused(number: float) -> None:
    """With the choice none they were refused by the store, after the reply."""
    schema = json.dumps({**SUM, "minimum": number})
    with pytest.raises(InvalidRequest, match="the parameters of 'add' are no JSON"):
        Tool("add", "", schema)
