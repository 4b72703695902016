"""llguidance with this app's limits: a vocabulary, and parsers of grammars over it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from engine.tool_calls.forms.json_form import json_options
from engine.values.grammar import Grammar, GrammarKind

T = TypeVar("T")

STATES = 50_000
"""Most states of a parser's lexer, which grow with the texts it reads; 0.5 KB each were measured."""
_LIMITS: dict[str, Any] = {
    "initial_lexer_fuel": 300_000,
    "max_lexer_states": STATES,
    "max_grammar_size": 200_000,
    "verbose_errors": False,
}
_STACKS = threading.Lock()


def read_tokenizer(content: str, vocabulary: int, ends: Collection[int]) -> Any:
    """Return llguidance's form of a tokenizer.json. It holds the GIL, for a second if it is large."""
    from llguidance import LLTokenizer

    return LLTokenizer(content, n_vocab=vocabulary, eos_token=list(ends))


def parse(tokenizer: Any, grammar: Grammar) -> Any:
    """Return an ``LLMatcher`` at the beginning of a text. Raises ValueError, its message on one line."""
    from llguidance import LLMatcher, LLParserLimits

    try:
        parser = LLMatcher(
            tokenizer, _source(grammar), log_level=0, limits=LLParserLimits(**_LIMITS)
        )
    except ValueError as error:
        raise ValueError(on_one_line(str(error))) from error
    if parser.is_error():
        raise ValueError(on_one_line(parser.get_error()))
    return parser


def on_one_line(error: str) -> str:
    """Return an error of llguidance without the state of its parser, which stands behind it."""
    why = error.split("<state>", maxsplit=1)[0].replace("<non-verbose/>", "")
    return " ".join(why.split())[:400].rstrip(".")


def on_stack(size: int, work: Callable[[], T]) -> T:
    """Return what ``work`` returns or raises on a thread whose stack has ``size`` bytes."""
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="grammar")
    with _STACKS:
        before = threading.stack_size(size)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if failed:
        raise failed.pop()
    return found.pop()


def _source(grammar: Grammar) -> str:
    """Return the text that llguidance takes. Raises ValueError for what is no JSON or no GBNF."""
    from llguidance import LLMatcher, grammar_from

    options: Any = json_options(grammar.strict)
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA | GrammarKind.JSON_OBJECT:
            schema = grammar.text or '{"type": "object"}'
            found: str = LLMatcher.grammar_from_json_schema(schema, defaults=options)
        case GrammarKind.REGEX:
            found = LLMatcher.grammar_from_regex(grammar.text)
        case GrammarKind.LARK:
            found = LLMatcher.grammar_from_lark(grammar.text)
        case GrammarKind.GBNF:
            found = grammar_from("gbnf", grammar.text)
    return found
