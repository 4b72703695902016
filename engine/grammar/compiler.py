"""From a request's grammar to what follows a text by it.

llguidance compiles: a schema, a regular expression, or a grammar in Lark's or GBNF's notation. A
vocabulary is read once, at the first request that needs it; a grammar once as long as it is among the
last ones.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any

from engine.errors import InvalidRequest
from engine.grammar.matcher import Matcher
from engine.request import Grammar, GrammarKind
from engine.tool_calls.lark import json_options

_KEPT = 256
"""Compiled grammars that are kept: agents send the same tools with every turn."""


class Grammars:
    """Compiles grammars for one tokenizer. Threads may share it."""

    def __init__(
        self, tokenizer: Callable[[], str], vocabulary: int, ends: Collection[int]
    ) -> None:
        """``tokenizer``: its tokenizer.json; ``vocabulary``: rows of the model; ``ends``: tokens that end
        a text."""
        self._json, self._vocabulary, self._ends = tokenizer, vocabulary, tuple(ends)
        self._compiling = threading.Lock()
        self._tokenizer: Any = None
        self._compiled: OrderedDict[Grammar, Any] = OrderedDict()

    def start(self, grammar: Grammar) -> Matcher:
        """Stands at the beginning of a text. Raises InvalidRequest where it cannot be compiled."""
        with self._compiling:
            found = self._compiled.get(grammar)
            if found is None:
                found = self._compiled[grammar] = self._compile(grammar)
                if len(self._compiled) > _KEPT:
                    self._compiled.popitem(last=False)
            self._compiled.move_to_end(grammar)
            return Matcher(found.deep_copy(), self._vocabulary, self._ends)

    def names_special(self, token: int) -> bool:
        """Whether a grammar must name this token, because no text of a grammar matches it."""
        with self._compiling:
            return bool(self._known().is_special_token(token))

    def _compile(self, grammar: Grammar) -> Any:
        from llguidance import LLMatcher

        tokenizer = self._known()
        try:
            compiled = LLMatcher(tokenizer, _source(grammar), log_level=0)
        except ValueError as error:
            raise _refused(grammar, str(error)) from error
        if compiled.is_error():
            raise _refused(grammar, compiled.get_error())
        return compiled

    def _known(self) -> Any:
        """The vocabulary as llguidance has it; it takes about a second to read a large one."""
        if self._tokenizer is None:
            from llguidance import LLTokenizer

            if not self._ends:
                raise InvalidRequest(
                    "grammar",
                    "grammar cannot be used: this model has no token that ends a text, so none could "
                    "end. Load another model.",
                )
            try:
                self._tokenizer = LLTokenizer(
                    self._json(), n_vocab=self._vocabulary, eos_token=list(self._ends)
                )
            except Exception as error:  # its parser raises nothing more exact
                raise InvalidRequest(
                    "grammar",
                    f"grammar cannot be used: llguidance cannot read this model's tokenizer ({error}). "
                    "Load another model.",
                ) from error
        return self._tokenizer


def _source(grammar: Grammar) -> str:
    """As llguidance takes it. Raises ValueError for what is no JSON or no GBNF."""
    from llguidance import LLMatcher, grammar_from

    options: Any = json_options(grammar.strict)
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            found: str = LLMatcher.grammar_from_json_schema(grammar.text, defaults=options)
        case GrammarKind.JSON_OBJECT:
            schema = json.dumps({"type": "object"})
            found = LLMatcher.grammar_from_json_schema(schema, defaults=options)
        case GrammarKind.REGEX:
            found = LLMatcher.grammar_from_regex(grammar.text)
        case GrammarKind.LARK:
            found = LLMatcher.grammar_from_lark(grammar.text)
        case GrammarKind.GBNF:
            found = grammar_from("gbnf", grammar.text)
    return found


def _refused(grammar: Grammar, why: str) -> InvalidRequest:
    """llguidance adds the state of its parser behind the first lines."""
    said = " ".join(why.split("<state>", maxsplit=1)[0].split())[:400]
    return InvalidRequest(
        "grammar", f"grammar cannot be compiled as {grammar.kind.value}: {said}. Correct it."
    )
