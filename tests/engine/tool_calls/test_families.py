"""What a family's template renders of calls is what its grammar allows and its reader reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer

from engine.decoding.text.channels import GemmaChannels, Harmony, channels_of
from engine.decoding.text.chat import Chat, ChatTemplate
from engine.errors import InvalidRequest
from engine.grammar.compiler import GrammarCompiler
from engine.models.checkpoints import template_environment
from engine.models.checkpoints.tokenizer import load_tokenizer
from engine.thoughts import opens_thought, split
from engine.tool_calls.forms.parameters import kinds_of
from engine.tool_calls.lark import grammar_of_calls
from engine.tool_calls.reading import Arguments, CallReader, CallStart, Content
from engine.tool_calls.styles import told
from engine.values.grammar import Grammar
from engine.values.messages import Message
from engine.values.tools import Calling, Tool, ToolCall, ToolChoice
from tests.engine.tool_calls.templates import FAMILIES, Family
from tests.support.places import PIP

END = 0  # what ends a text here: Pip's own is called as one of gpt-oss' marks
CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["C", "F"]},
        "at": {"type": "array", "items": {"type": "number"}},
        "with": {
            "type": "object",
            "properties": {"sea": {"type": "string"}, "wind": {"type": "integer"}},
        },
        "note": {"type": ["string", "null"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = (Tool("get_weather", "", json.dumps(CITY)), Tool("ring-bell.2", "", json.dumps(NOTHING)))
ASK = Message("user", "And the weather?")
WHOLE = {
    "city": 'Aix-en-Provence, "Sud" (13) <b>',
    "days": 3,
    "unit": "C",
    "at": [1, 2.5],
    "with": {"sea": "calm", "wind": 4},
    "note": "two\nlines",
}
ARGUMENTS = [{"city": "Rome"}, {"city": "Zürich\n", "days": -1}, WHOLE]
MARKS = (*Harmony.NAMES, *GemmaChannels.NAMES)
CONTROL = tuple(
    dict.fromkeys([*MARKS, *(name for each in FAMILIES for name in each.style.control)])
)
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Pip's, with the control tokens of all families."""
    made = Tokenizer.from_str(load_tokenizer(PIP / "target").backend.to_str())
    made.add_special_tokens([AddedToken(name, normalized=False) for name in CONTROL])
    return made


@pytest.fixture(scope="module")
def grammars(tokenizer: Tokenizer) -> GrammarCompiler:
    return GrammarCompiler(tokenizer.to_str, tokenizer.get_vocab_size(), (END,))


def template_of(family: Family) -> ChatTemplate:
    def render(messages: Any, tools: Any, values: Any) -> str:
        chat = {
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": True,
            "bos_token": "<s>",
        }
        return template_environment.render(
            {**values, **chat, "eos_token": "</s>", "template": family.template}
        )

    return ChatTemplate(render, family.template)


def prompt(
    family: Family, messages: Iterable[Message], thinking: str = "", tools: bool = True
) -> str:
    definitions = tuple(tool.definition for tool in TOOLS) if tools else ()
    return template_of(family).render(Chat(tuple(messages), definitions, thinking))


def calls_of(family: Family, *arguments: dict[str, Any]) -> tuple[ToolCall, ...]:
    if family.name == "lfm2.5":  # its template escapes nothing
        arguments = tuple({**each, "city": each["city"].replace("\n", " ")} for each in arguments)
    made = [
        ToolCall(f"call{at:05}", "get_weather", json.dumps(each))
        for at, each in enumerate(arguments)
    ]
    return (*made, ToolCall("call00009", "ring-bell.2", "{}")) if family.parallel else tuple(made)


def answered(calls: Sequence[ToolCall]) -> list[Message]:
    return [Message("tool", "It is fine.", tool_call_id=call.id, name=call.name) for call in calls]


def written(family: Family, reply: Message) -> str:
    """What a model writes, by how its template renders it in the next prompt."""
    before = prompt(family, [ASK], "on" if family.thinks else "")
    after = prompt(family, [ASK, reply, *answered(reply.tool_calls)], "on" if family.thinks else "")
    assert after.startswith(before), (before, after)
    text = after.removeprefix(before)
    ends = [family.end] if family.end else ["<|observation|>"]
    ends += ["<|tool_response>"] if family.name == "gemma 4" else []
    return text[: min(at for end in ends if (at := text.find(end)) >= 0)] + (
        "<|call|>" if family.end == "<|call|>" else ""
    )


def in_reply(family: Family, text: str) -> str:
    """The text of a reply whose control tokens are read by its channels."""
    names = {"gpt-oss": Harmony.NAMES, "gemma 4": GemmaChannels.NAMES}.get(family.name, ())
    channels = channels_of(lambda name: MARKS.index(name) if name in names else None)
    if channels is None:
        return text
    parts = re.split(f"({'|'.join(map(re.escape, MARKS))})", text)
    read = (
        channels.read(MARKS.index(part), "") if part in MARKS else channels.read(99, part)
        for part in parts
    )
    return "".join(mark + said for mark, said in read)


def read(family: Family, text: str, step: int) -> tuple[str, list[tuple[str, Any]]]:
    reader = CallReader(told(family.style), schemas={tool.name: tool.schema for tool in TOOLS})
    said, found = "", list[list[str]]()
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    for part in [part for piece in pieces for part in reader.read(piece)] + [*reader.end()]:
        match part:
            case Content(more):
                said += more
            case CallStart(_, name):
                found.append([name, ""])
            case Arguments(index, more):
                found[index][1] += more
    return said.strip(), [(name, json.loads(arguments)) for name, arguments in found]


@every_family
def test_calls_go_round_through_the_template(
    family: Family, grammars: GrammarCompiler, tokenizer: Tokenizer
) -> None:
    special = {name: tokenizer.token_to_id(name) for name in family.style.control}

    for arguments in ARGUMENTS:
        calls = calls_of(family, arguments)
        thought = "I look it up." if family.thinks else ""
        reply = Message("assistant", "", calls, reasoning=thought)
        text = written(family, reply)
        opened = opens_thought(prompt(family, [ASK], "on" if family.thinks else ""))
        parts = split(in_reply(family, text), opened=opened)
        assert parts.thought == thought, text
        for step in (1, 3, 9999):
            said, found = read(family, parts.answer, step)
            assert found == [(call.name, call.object) for call in calls], parts.answer
            assert not said
        raw = parts.answer if family.style is told(family.style) else text.removesuffix("<|call|>")
        for choice in (ToolChoice(), ToolChoice(Calling.REQUIRED)):
            grammar = grammar_of_calls(TOOLS, choice, family.style, special)

            def fits(text: str, grammar: Grammar = grammar) -> bool:
                tokens = [*tokenizer.encode(text, add_special_tokens=False).ids, END]
                return grammars.compiled(grammar).start().count_fitting(tokens) == len(tokens)

            assert fits(raw), raw
            if choice.must or family.style.form != "json":
                assert not fits(raw.replace("get_weather", "get_whether"))


@every_family
def test_several_turns_keep_calls_and_results_and_drop_old_thoughts(family: Family) -> None:
    calls = (
        calls_of(family, {"city": "Rome"}, {"city": "Oslo"})
        if family.parallel
        else calls_of(family, {"city": "Rome"})
    )
    chat = [
        ASK,
        Message("assistant", "", calls, reasoning="OLD THOUGHT"),
        *answered(calls),
        Message("assistant", "Fine.", reasoning="OLDER"),
        Message("user", "Thanks."),
    ]
    text = prompt(family, chat)
    assert "OLD" not in text
    assert text.count("It is fine.") == len(calls) and text.count("Rome") == 1
    running = prompt(family, chat[:-2])
    assert ("OLD THOUGHT" in running) == family.thinks
    assert running.index("Rome") < running.index("It is fine.")


def test_several_calls_of_one_message_become_single_ones_for_gpt_oss() -> None:
    family = next(each for each in FAMILIES if each.name == "gpt-oss")
    calls = calls_of(family, {"city": "Rome"}, {"city": "Oslo"})
    results = [
        Message("tool", f"{call.object['city']} is fine.", tool_call_id=call.id) for call in calls
    ]
    text = prompt(family, [ASK, Message("assistant", "Look.", calls, reasoning="Hm."), *results])
    places = [
        text.index(part) for part in ("Hm.\n\nLook.", '"Rome"', "Rome is", '"Oslo"', "Oslo is")
    ]
    assert places == sorted(places)


@every_family
def test_how_much_to_think_is_told_as_the_template_has_it(family: Family) -> None:
    assert template_of(family).thinking == family.choices
    told_apart = {prompt(family, [ASK], choice) for choice in family.choices}
    assert len(told_apart) == len(family.choices)
    if family.choices[:1] == ("off",):
        assert prompt(family, [ASK], "high") == prompt(family, [ASK], "on")
        assert opens_thought(prompt(family, [ASK], "on")) == (family.name == "qwen3.5")
        assert not opens_thought(prompt(family, [ASK], "off"))
    else:
        assert prompt(family, [ASK]) == prompt(family, [ASK], "on")


RECORDED = [
    ("qwen3.5", "I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n"
     "<parameter=note>\nNone\n</parameter>\n</function>\n</tool_call>", {"city": "Rome", "note": None}),
    ("gemma 4", '<|tool_call>call:get_weather{at:[1,2],city:<|"|>Ro}me,"<|"|>,with:{sea:<|"|>a<|"|>}}'
     "<tool_call|>",
     {"at": [1, 2], "city": 'Ro}me,"', "with": {"sea": "a"}}),
    ("lfm2.5", '<|tool_call_start|>[get_weather(city="Ro\\"m)e", days=3, note=None)]<|tool_call_end|>',
     {"city": 'Ro"m)e', "days": 3, "note": None}),
    ("lfm2.5", "<|tool_call_start|>[get_weather(city='\\ud83d\\ude00 \\ud83d')]<|tool_call_end|>",
     {"city": "😀 \ufffd"}),
    ("glm 4.5", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>12</arg_value>\n"
     "</tool_call>", {"city": "12"}),
    ("glm 4.5", "<tool_call>get_weather\n<arg_key>at</arg_key>\n<arg_value>[1, 1e999]</arg_value>\n"
     "</tool_call>", {"at": "[1, 1e999]"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "arguments"), RECORDED)
def test_recorded_replies_are_read(name: str, text: str, arguments: dict[str, Any]) -> None:
    family = next(each for each in FAMILIES if each.name == name)
    for step in (1, 5, 9999):
        _, found = read(family, text, step)
        assert found == [("get_weather", arguments)]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_call_that_is_cut_tells_no_more_than_was_written(family: Family) -> None:
    """Wherever it stops: no exception, and arguments that the next piece only adds to."""
    text = split(
        in_reply(family, written(family, Message("assistant", "", calls_of(family, WHOLE))))
    ).answer
    for end in range(0, len(text), 7):
        reader = CallReader(told(family.style), schemas={tool.name: tool.schema for tool in TOOLS})
        parts = [*reader.read(text[:end]), *reader.end()]
        assert not any(isinstance(part, Content) and "Aix" in part.text for part in parts)


def test_a_reference_may_lead_into_a_list() -> None:
    """It was taken for a value of any type, so that a grammar let a number be text."""
    either = {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}
    schema = {"properties": {"either": either, "number": {"$ref": "#/properties/either/anyOf/0"}}}
    assert kinds_of(schema["properties"]["number"], schema) == {"integer"}


SELF = {
    "$defs": {"tree": {"anyOf": [{"$ref": "#/$defs/tree"}] * 50 + [{"$ref": "#/$defs/node"}]},
              "node": {"type": "object", "properties": {
                  name: {"$ref": "#/$defs/node"} for name in "abcdefgh"}}},
    "type": "object",
    "properties": {name: {"$ref": f"#/$defs/{name}"} for name in ("tree", "node", "lost")},
}  # fmt: skip


@every_family
def test_a_strangers_schema_and_a_models_odd_text_have_bounds(family: Family) -> None:
    """References to themselves, names with marks, quotes without end: no hang, no other exception."""
    schemas = {"get_weather": SELF}
    grammar = grammar_of_calls(
        (Tool("get_weather", "", json.dumps(SELF)),), ToolChoice(), family.style, {}
    )
    assert len(grammar.text) < 2_000_000
    opened = {"gpt-oss": '{"name": "get_weather", "arguments": '}.get(family.name, "")
    style = told(family.style)
    begun = style.opening + style.head + "get_weather" + style.middle + opened
    for odd in ('\\"' * 20_000, "{" * 20_000, "<" * 20_000, "[(" * 10_000 + "'", "\n" * 20_000):
        reader = CallReader(style, schemas=schemas)
        [*reader.read(begun)]
        for at in range(0, len(odd), 40):
            [*reader.read(odd[at : at + 40])]
        [*reader.end()]
    if family.style.form in ("parameters", "arg_keys", "tight_arg_keys"):
        named = {"type": "object", "properties": {"a>\n<b": {"type": "string"}}}
        with pytest.raises(InvalidRequest, match="cannot write a parameter named"):
            grammar_of_calls((Tool("a", "", json.dumps(named)),), ToolChoice(), family.style, {})
    if family.style.form != "json":
        limited = {"type": "object", "properties": {"a": {"type": "string", "pattern": "a+"}}}
        with pytest.raises(InvalidRequest, match="pattern cannot be enforced"):
            grammar_of_calls(
                (Tool("a", "", json.dumps(limited), strict=True),), ToolChoice(), family.style, {}
            )
