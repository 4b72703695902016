"""The grammar of a reply that may, or must, call tools: llguidance's Lark.

Where calls are the model's own choice, what it writes is free until it opens one; from there on the name
is one of the tools' and the arguments are JSON by its schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import InvalidRequest
from engine.tool_calls.styles import CallStyle
from engine.tool_calls.unmarked import MIDDLE, NAME
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
    if not offered:
        raise InvalidRequest(
            "tool_choice",
            f"tool_choice names {choice.name!r}, which is not among the tools: "
            f"{', '.join(tool.name for tool in tools)}.",
        )
    several = choice.parallel and choice.name is None

    def lark(text: str) -> str:
        return _quoted(text, special)

    first = lark(style.opening + style.head)
    rules = [
        f"next: {lark(style.between + style.head)} body",
        "body: " + " | ".join(f"tool_{at}" for at in range(len(offered))),
        *(
            f"tool_{at}: {lark(tool.name + style.middle)} %json {_schema(tool)} {lark(style.tail)}"
            for at, tool in enumerate(offered)
        ),
    ]
    behind = f"body {'next*' if several else ''} {lark(style.closing)}"
    if choice.must:
        start = f"start: {first} {behind}"
    elif content is not None:
        start = f"start: content | {first} {behind}"
        rules.append(f"content: {_json(content)}")
    elif style.whole:
        start = f"start: TEXT | {first} {behind}"
        rules.append(f"TEXT: {_NO_BRACE}")
    else:
        rest = lark((style.opening + style.head).removeprefix(style.trigger))
        # A model may also spell out what it has a token for.
        token = f"text {lark(style.trigger)} | " if style.trigger in special else ""
        start = f"start: text | ({token}open | bare other) {rest} {behind} | bare bare_call"
        trigger = _quoted(style.trigger, {})
        rules += [f"open[lazy]: TEXT {trigger}", f"other[lazy]: OTHER {trigger}"]
        rules += ["text: TEXT | bare OTHER", f"TEXT: {_ANYTHING}", *_bare(offered, several)]
    return Grammar(GrammarKind.LARK, "\n".join(["%llguidance {}", start, *rules]) + "\n")


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
            f'bare_{at}: /{re.escape(tool.name)}{MIDDLE}/ " "? %json {_schema(tool)} {behind}'
            for at, tool in enumerate(offered)
        ),
        f"BARE_END: /{_BARE_END}/",
        f"BARE_NEXT: /{_BARE_BETWEEN}{NAME}/",
    ]


def json_options(strict: bool) -> dict[str, Any]:
    """Return llguidance's options for a JSON schema; the schema's own "x-guidance" takes
    precedence.

    JSON in one line as ``json.dumps`` writes it: what models were trained to write in calls, what leaves
    most to be forced, and what no model can fill up with spaces without end.
    """
    one_line = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return {**one_line, "lenient": not strict}


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


def _schema(tool: Tool) -> str:
    return json.dumps({"x-guidance": json_options(tool.strict), **tool.arguments})


def _json(content: Grammar) -> str:
    match content.kind:
        case GrammarKind.JSON_OBJECT:
            return "%json " + json.dumps({"x-guidance": json_options(True), "type": "object"})
        case GrammarKind.JSON_SCHEMA:
            options = json_options(content.strict)
            return "%json " + json.dumps({"x-guidance": options, **json.loads(content.text)})
        case _:
            raise InvalidRequest(
                "grammar",
                f"grammar is of the kind {content.kind.value}, which cannot stand beside tools. Give a "
                "JSON schema, or leave the tools out.",
            )
