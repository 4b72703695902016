"""The grammar of a reply that may, or must, call tools: llguidance's Lark.

Where calls are the model's own choice, what it writes is free until it opens one; from there on the name
is one of the tools' and the arguments are JSON by its schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from engine.errors import InvalidRequest
from engine.tool_calls.forms import JSON, rules_of
from engine.tool_calls.forms.json_form import json_rule
from engine.tool_calls.reading import MIDDLE, NAME
from engine.tool_calls.styles import HARMONY, CallStyle
from engine.values import require
from engine.values.grammar import Grammar, GrammarKind
from engine.values.tools import Tool, ToolChoice

_ANYTHING, _NO_BRACE = r"/(.|\n)*/", r"/([^{](.|\n)*)?/"
_BARE_LEAD = r"((.|\n)*\n)?[ \t]*(```(json)?[ \t]*)?(<[a-z_]+>[ \t]*)?(\[[ \t]*)?"
_BARE_BETWEEN = r"\s*\}[\s`,{}\[\]a-z_<>\/]*"
_BARE_END = r"\s*\}[\s`}\]]*(<\/[a-z_]+>)?[\s`]*"
"""Before, between and behind calls without the style's mark, which begin a line."""


def grammar_of_calls(
    tools: Sequence[Tool],
    choice: ToolChoice,
    style: CallStyle,
    special: Mapping[str, int],
    content: Grammar | None = None,
) -> Grammar:
    """Return the grammar that a reply to a request with ``tools`` matches.

    ``special``: the strings of ``style.control`` that are tokens no text of a grammar matches.
    ``content``: what a reply that calls nothing must match. Raises InvalidRequest where that is no JSON,
    or the tool that is to be called is not among ``tools``.
    """
    offered = [tool for tool in tools if choice.name in (None, tool.name)]
    missing = f"names {choice.name!r}, which is not among the tools: "
    require(bool(offered), "tool_choice", missing + ", ".join(tool.name for tool in tools) + ".")
    several = choice.parallel and choice.name is None
    lark = partial(_quoted, special=special)
    rules = ["body: " + " | ".join(f"tool_{at}" for at in range(len(offered)))]
    for at, tool in enumerate(offered):
        rules.append(
            f"tool_{at}: {lark(tool.name + style.middle)} arguments_{at} {lark(style.tail)}"
        )
        rules += rules_of(style.form, f"arguments_{at}", tool.arguments, lark, tool.strict)
    if style is HARMONY:
        start, more = _in_channels(offered, choice, lark, content)
        return _grammar([start, *more, *rules])
    first = lark(style.opening + style.head)
    rules.append(f"next: {lark(style.between + style.head)} body")
    behind = f"body {'next*' if several else ''} {lark(style.closing)}"
    if choice.must:
        start = f"start: {first} {behind}"
    elif content is not None:
        start = f"start: content | {first} {behind}"
        rules.append(f"content: {_content(content)}")
    elif style.whole:
        start = f"start: TEXT | {first} {behind}"
        rules.append(f"TEXT: {_NO_BRACE}")
    else:
        start, more = _among_text(offered, style, special, behind, several)
        rules += more
    return _grammar([start, *rules])


def _among_text(
    offered: Sequence[Tool],
    style: CallStyle,
    special: Mapping[str, int],
    behind: str,
    several: bool,
) -> tuple[str, list[str]]:
    """Return the first rule of a reply that may call tools behind text, and the rules that it needs."""
    rest = _quoted((style.opening + style.head).removeprefix(style.trigger), special)
    trigger = _quoted(style.trigger, {})
    # A model may also spell out what it has a token for.
    token = f"text {_quoted(style.trigger, special)} | " if style.trigger in special else ""
    rules = [f"open[lazy]: TEXT {trigger}", f"TEXT: {_ANYTHING}"]
    if style.form != JSON:
        return f"start: text | ({token}open) {rest} {behind}", [*rules, "text: TEXT"]
    start = f"start: text | ({token}open | bare other) {rest} {behind} | bare bare_call"
    rules += [f"other[lazy]: OTHER {trigger}", "text: TEXT | bare OTHER", *_bare(offered, several)]
    return start, rules


def _in_channels(
    offered: Sequence[Tool], choice: ToolChoice, lark: Callable[[str], str], content: Grammar | None
) -> tuple[str, list[str]]:
    """Return the first rule of a reply in harmony's channels, and the rules that it needs.

    It thinks as often as it likes, and then answers or makes one call, perhaps behind a preamble.
    """
    following = lark("<|end|><|start|>assistant")
    analysis, final = (lark(f"<|channel|>{name}<|message|>") for name in ("analysis", "final"))
    preamble = lark("<|channel|>commentary<|message|>")
    spelt = lark("<|channel|>commentary json<|message|>")
    rules = [
        f"TEXT: {_ANYTHING}",
        f"analysis: {analysis} TEXT {following}",
        f"preamble: {preamble} TEXT {following}",
        f"call: {lark(HARMONY.head)} body | {lark(' to=functions.')} named",
        "named: " + " | ".join(f"named_{at}" for at in range(len(offered))),
        *(
            f"named_{at}: {lark(tool.name)} {spelt} arguments_{at}"
            for at, tool in enumerate(offered)
        ),
    ]
    answer = "TEXT" if content is None else _content(content)
    ends = "call" if choice.must else f"(call | {final} {answer})"
    return f"start: analysis* (preamble analysis*)? {ends}", rules


def content_in_channels(content: Grammar, special: Mapping[str, int]) -> Grammar:
    """Return the grammar of a reply in harmony's channels whose answer must match ``content``."""
    lark = partial(_quoted, special=special)
    analysis, final = (lark(f"<|channel|>{name}<|message|>") for name in ("analysis", "final"))
    start = (
        f"start: ({analysis} TEXT {lark('<|end|><|start|>assistant')})* {final} {_content(content)}"
    )
    return _grammar([start, f"TEXT: {_ANYTHING}"])


def _grammar(rules: Sequence[str]) -> Grammar:
    return Grammar(GrammarKind.LARK, "\n".join(["%llguidance {}", *rules]) + "\n")


def _bare(offered: Sequence[Tool], several: bool) -> list[str]:
    """Return the rules of calls without the style's mark: JSON that begins a line.

    Behind a tool's name arguments follow that match its schema. JSON whose "name" is no tool's is text.
    """
    names = "|".join(re.escape(tool.name) for tool in offered)
    behind = "(BARE_END | BARE_NEXT bare_call)" if several else "BARE_END"
    return [
        f"bare[lazy]: /{_BARE_LEAD}{NAME}/",
        f"OTHER: {_ANYTHING} & ~/({names}){MIDDLE}(.|\\n)*/",
        "bare_call: " + " | ".join(f"bare_{at}" for at in range(len(offered))),
        *(
            f'bare_{at}: /{re.escape(tool.name)}{MIDDLE}/ " "? arguments_{at} {behind}'
            for at, tool in enumerate(offered)
        ),
        f"BARE_END: /{_BARE_END}/",
        f"BARE_NEXT: /{_BARE_BETWEEN}{NAME}/",
    ]


def _quoted(text: str, special: Mapping[str, int]) -> str:
    """Return ``text`` as Lark strings, with the special tokens in it written as ids."""
    if not text:
        return ""
    if not special:
        return json.dumps(text, ensure_ascii=False)
    parts = re.split(f"({'|'.join(map(re.escape, special))})", text)
    return " ".join(
        f"<[{special[part]}]>" if part in special else json.dumps(part, ensure_ascii=False)
        for part in parts
        if part
    )


def _content(content: Grammar) -> str:
    match content.kind:
        case GrammarKind.JSON_OBJECT:
            return json_rule({"type": "object"}, True)
        case GrammarKind.JSON_SCHEMA:
            return json_rule(json.loads(content.text), content.strict)
        case _:
            raise InvalidRequest(
                "grammar",
                f"grammar of kind {content.kind.value} cannot be combined with tools or "
                "channels. Use a JSON schema, or leave the tools out.",
            )
