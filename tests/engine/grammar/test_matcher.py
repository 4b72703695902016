"""What may follow a text by its grammar, whatever was asked on the way there."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from engine.errors import InvalidRequest
from engine.grammar.compiler import GrammarCompiler
from engine.grammar.matcher import Matcher
from engine.models.checkpoints.tokenizer import load_tokenizer
from engine.values.grammar import LONGEST_GRAMMAR, Grammar, GrammarKind
from tests.support.places import PIP

VOCABULARY, END = 4096, 1
TOKENIZER = load_tokenizer(PIP / "target").backend
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
RECORD = Grammar(GrammarKind.JSON_SCHEMA, json.dumps(SCHEMA))


@pytest.fixture(scope="module")
def grammars() -> GrammarCompiler:
    return GrammarCompiler(TOKENIZER.to_str, VOCABULARY, (END,))


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False).ids


def allowed(matcher: Matcher, drafted: list[int]) -> list[int]:
    mask = matcher.mask(drafted)
    assert mask is not None
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()


def test_the_mask_depends_on_the_tokens_alone(grammars: GrammarCompiler) -> None:
    """Random texts of the grammar, with drafts looked at and dropped on the way: a matcher that read the
    text plainly says the same at every place. Without this a draft could change the words."""
    looked = forced = 0
    for seed in range(12):
        draw, text = random.Random(seed), list[int]()
        matcher = grammars.compiled(RECORD).start()
        while len(text) < 40 and not matcher.ended:
            side: list[int] = []
            while len(side) < draw.randint(0, 4) and END not in side:
                side.append(draw.choice(allowed(matcher, side)))
                matcher.forced(side)
                looked += 1
            assert matcher.count_fitting(side) == len(side)
            plain = grammars.compiled(RECORD).start()
            plain.consume(text)
            mine = allowed(matcher, [])
            assert mine == allowed(plain, []) and matcher.forced() == plain.forced()
            if matcher.forced():
                assert mine == matcher.forced()[:1]
                forced += 1
            token = draw.choice(mine)
            matcher.consume([token])
            text.append(token)
    assert looked > 100 and forced > 20


def test_a_text_ends_exactly_where_the_grammar_accepts(grammars: GrammarCompiler) -> None:
    matcher = grammars.compiled(RECORD).start()
    text = ids('{"name": "Bo", "age": 7, "tags": ["red"]}')
    ends = [matcher.allows(text[:length], END) for length in range(len(text) + 1)]
    assert ends == [False] * len(text) + [True]
    assert matcher.count_fitting([*text, END, text[0]]) == len(text) + 1
    assert matcher.mask([*text, END]) is None  # nobody reads what is behind it
    matcher.consume([*text, END])
    assert matcher.ended and matcher.forced() == []
    with pytest.raises(ValueError, match="may not follow"):
        matcher.consume(text[:1])


def test_what_is_forced_is_all_of_a_key(grammars: GrammarCompiler) -> None:
    assert TOKENIZER.decode(grammars.compiled(RECORD).start().forced()) == '{"name":'


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (GrammarKind.REGEX, "[0-9]{3}", "(["),
        (GrammarKind.LARK, 'start: "yes" | "no"', "start: nowhere"),
        (GrammarKind.GBNF, 'root ::= "yes" | "no"', "root ::= ("),
        (GrammarKind.JSON_SCHEMA, '{"type": "integer"}', '{"type": "nonsense"}'),
        (GrammarKind.JSON_SCHEMA, '{"enum": [1, 2]}', "{"),
    ],
)
def test_what_cannot_be_compiled_is_refused_in_words(
    grammars: GrammarCompiler, kind: GrammarKind, good: str, bad: str
) -> None:
    assert grammars.compiled(Grammar(kind, good)).start().mask() is not None
    with pytest.raises(InvalidRequest, match=f"grammar cannot be compiled as {kind.value}: .+"):
        grammars.compiled(Grammar(kind, bad)).start()


def test_a_keyword_that_cannot_be_enforced_is_refused_where_it_has_to_be(
    grammars: GrammarCompiler,
) -> None:
    text = json.dumps({"type": "array", "uniqueItems": True})
    grammars.compiled(Grammar(GrammarKind.JSON_SCHEMA, text, strict=False)).start()
    with pytest.raises(InvalidRequest, match="uniqueItems"):
        grammars.compiled(Grammar(GrammarKind.JSON_SCHEMA, text)).start()


def test_a_tokenizer_or_a_model_that_cannot_be_held_to_a_grammar_says_so() -> None:
    with pytest.raises(InvalidRequest, match="llguidance cannot read"):
        GrammarCompiler(lambda: '{"model": {}}', VOCABULARY, (END,)).compiled(RECORD).start()
    with pytest.raises(InvalidRequest, match="no end token"):
        GrammarCompiler(TOKENIZER.to_str, VOCABULARY, ()).compiled(RECORD).start()


def test_a_grammar_that_is_too_large_or_too_deep_is_refused(grammars: GrammarCompiler) -> None:
    with pytest.raises(InvalidRequest, match="at most"):
        Grammar(GrammarKind.REGEX, "a" * (LONGEST_GRAMMAR + 1))
    for deep in ("[" * 3000 + "]" * 3000, '{"not":' * 2000 + "{}" + "}" * 2000):
        with pytest.raises(InvalidRequest, match="nested too deeply"):
            grammars.compiled(Grammar(GrammarKind.JSON_SCHEMA, deep)).start()
