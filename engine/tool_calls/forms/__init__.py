"""How the arguments of a call are written: as JSON, as tagged parameters, or as literals.

Each form has the rules of a grammar for one tool's arguments, and a reader that turns them into JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from engine.tool_calls.forms import literals, parameters
from engine.tool_calls.forms.json_form import JsonArguments, json_rule

Schema = Mapping[str, Any]
Quoted = Callable[[str], str]
"""Writes a text in Lark, with the names of control tokens in it as tokens."""


class ArgumentsReader(Protocol):
    """Reads the arguments of one call."""

    ended: bool

    def read(self, text: str) -> tuple[int, str]:
        """Return how many characters of ``text`` are read for good, and the JSON that they add."""


JSON, GEMMA, PYTHON = "json", "gemma", "python"
_TAGS = {
    "parameters": parameters.QWEN,
    "tight_parameters": parameters.SEED,
    "arg_keys": parameters.GLM,
    "tight_arg_keys": parameters.GLM_TIGHT,
}
PARAMETERS, TIGHT_PARAMETERS, ARG_KEYS, TIGHT_ARG_KEYS = _TAGS
_LITERALS = {GEMMA: literals.GEMMA, PYTHON: literals.PYTHON}


def reader_of(form: str, schema: Schema) -> ArgumentsReader:
    """Return a reader of one call of a tool with this ``schema``, which may be empty."""
    if form in _TAGS:
        return parameters.TaggedReader(_TAGS[form], schema)
    return literals.LiteralReader(_LITERALS[form]) if form in _LITERALS else JsonArguments()


def rules_of(form: str, name: str, schema: Schema, quoted: Quoted, strict: bool) -> list[str]:
    """Return Lark rules; the first one, ``name``, matches arguments by ``schema``.

    Raises InvalidRequest for a parameter's name that the form cannot write.
    """
    if form in _TAGS:
        return parameters.rules(_TAGS[form], name, schema, quoted, strict)
    if form in _LITERALS:
        return literals.Rules(_LITERALS[form], name, schema, quoted, strict).made
    return [f"{name}: {json_rule(schema, strict)}"]
