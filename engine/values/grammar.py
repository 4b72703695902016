"""What a reply must match, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.values import require, require_at_most

LONGEST_GRAMMAR = 2**20
"""Most characters of a grammar: it is compiled before the reply begins."""


class GrammarKind(StrEnum):
    """The notation of a grammar.

    A JSON schema; any JSON object, which needs no text; a regular expression in the syntax of Rust's
    regex; a grammar in llguidance's dialect of Lark; or one in llama.cpp's GBNF.
    """

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    REGEX = "regex"
    LARK = "lark"
    GBNF = "gbnf"


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar that the whole reply must match. ``strict``: refuse a schema's keyword that cannot be
    enforced; otherwise ignore it."""

    kind: GrammarKind
    text: str = ""
    strict: bool = True

    def __post_init__(self) -> None:
        require(
            bool(self.text) != (self.kind is GrammarKind.JSON_OBJECT),
            "grammar",
            f"of the kind {self.kind.value} {'has no text' if self.text else 'needs a text'}.",
        )
        require_at_most("grammar", self.text, LONGEST_GRAMMAR, "characters")
