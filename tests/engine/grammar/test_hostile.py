"""Grammars of strangers are refused in words, or end their own reply, and cost nobody else anything."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import psutil
import pytest

from engine.errors import InvalidRequest
from engine.grammar import compiler
from engine.grammar.compiler import GrammarCompiler
from engine.grammar.matcher import Matcher, ParserFailed
from engine.grammar.parsing import on_stack, parse, read_tokenizer
from engine.machine.worker_process import Interrupted
from engine.models.checkpoints.tokenizer import load_tokenizer
from engine.values.grammar import Grammar, GrammarKind
from tests.support.hostile_grammars import HOSTILE, LATE, defs, inside, rules
from tests.support.places import PIP

VOCABULARY, END = 4096, 1
TOKENIZER = load_tokenizer(PIP / "target").backend.to_str()


@pytest.fixture(scope="module")
def grammars() -> Iterator[GrammarCompiler]:
    made = GrammarCompiler(lambda: TOKENIZER, VOCABULARY, (END,))
    yield made
    made.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_grammar_is_refused_in_words(
    grammars: GrammarCompiler, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled in this process, these overflow its stack, keep gigabytes, or seem to have been said."""
    grammar, why = HOSTILE[name]
    before = psutil.Process().memory_info().rss
    with pytest.raises(InvalidRequest, match=f"grammar cannot be compiled as .*{why}") as first:
        grammars.compiled(grammar)
    with monkeypatch.context() as patch, pytest.raises(InvalidRequest) as again:
        patch.setattr(grammars, "_outcome", lambda *_: pytest.fail("its trial is remembered"))
        grammars.compiled(grammar)
    assert str(again.value) == str(first.value)
    assert psutil.Process().memory_info().rss - before < 64 << 20


def test_a_trial_that_the_system_ended_is_not_remembered(
    grammars: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = Grammar(GrammarKind.REGEX, "(cut )+short")

    def killed(value: object) -> None:
        raise Interrupted("crashed its process")

    with monkeypatch.context() as patch, pytest.raises(InvalidRequest, match="its trial crashed"):
        patch.setattr(grammars._trials, "call", killed)
        grammars.compiled(grammar)
    grammars.compiled(grammar)


def test_what_is_as_deep_as_may_be_is_compiled_with_room_on_the_stack(
    grammars: GrammarCompiler,
) -> None:
    for grammar in (
        Grammar(GrammarKind.JSON_SCHEMA, defs(500, lambda ref: ref)),
        Grammar(GrammarKind.JSON_SCHEMA, defs(160, inside)),
        Grammar(GrammarKind.JSON_SCHEMA, defs(160, lambda ref: {"anyOf": [{"type": "null"}, ref]})),
        Grammar(GrammarKind.LARK, rules(500, ":", "start")),
        Grammar(GrammarKind.GBNF, rules(500, " ::=", "root")),
    ):
        parser = on_stack(4 << 20, partial(parse, grammars._known(), grammar))
        assert Matcher(parser, VOCABULARY, (END,)).mask() is not None
        assert grammars.compiled(grammar).start().mask() is not None


def test_a_parser_that_gives_up_on_the_way_says_so_and_is_not_kept(
    grammars: GrammarCompiler,
) -> None:
    """Its masks would allow the end alone, as if the reply were whole."""
    kept = grammars.compiled(LATE)
    matcher, draw = kept.start(), np.random.default_rng(1)
    with pytest.raises(ParserFailed, match=r"first \d+ tokens: .*Simplify it") as failed:
        for _ in range(200):
            mask = matcher.mask()
            assert mask is not None
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
            matcher.consume([int(draw.choice(np.flatnonzero(bits)))])
    assert failed.value.field == "grammar"
    assert grammars.compiled(LATE) is not kept
    assert grammars.compiled(LATE).start().mask() is not None


def test_a_parser_in_error_is_no_end_of_a_text() -> None:
    """Whatever is asked of it: what may follow, what is forced, what fits, the next token."""
    tokenizer = read_tokenizer(TOKENIZER, VOCABULARY, (END,))
    parser = parse(tokenizer, Grammar(GrammarKind.REGEX, r"[^\s\S]"))
    for ask in (
        lambda matcher: matcher.mask(),
        lambda matcher: matcher.forced() or matcher.mask(),
        lambda matcher: matcher.consume([70]),
    ):
        with pytest.raises(ParserFailed):
            ask(Matcher(parser.deep_copy(), VOCABULARY, (END,)))
    broken = parser.deep_copy()
    broken.compute_bitmask()
    with pytest.raises(ParserFailed):
        Matcher(broken, VOCABULARY, (END,)).count_fitting([END])


def test_the_grammars_that_are_kept_have_a_bound_in_bytes(
    grammars: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [Grammar(GrammarKind.REGEX, f"[ab]{{{count}}}c") for count in range(4)]
    kept = [grammars.compiled(grammar) for grammar in some]
    assert all(compiler._GROWS <= each.bytes <= compiler._GROWS + (8 << 20) for each in kept)
    assert grammars.compiled(some[0]) is kept[0]
    monkeypatch.setattr(compiler, "_ROOM", kept[0].bytes + kept[1].bytes)
    grammars.compiled(Grammar(GrammarKind.REGEX, "[ab]{9}c"))
    assert sum(each.bytes for each in grammars._compiled.values()) <= compiler._ROOM
    assert grammars.compiled(some[1]) is not kept[1]


def test_what_a_grammar_takes_is_measured_not_guessed() -> None:
    """The bytes that are counted for it cover what it takes here.

    In a new worker: one that tried other grammars has freed memory left, and takes no more.
    """
    grammars = GrammarCompiler(lambda: TOKENIZER, VOCABULARY, (END,))
    words = json.dumps({"enum": [f"a word {at}" for at in range(15_000)]})
    grammar = Grammar(GrammarKind.JSON_SCHEMA, words)
    taken = grammars._outcome(grammar, 8)
    assert isinstance(taken, int)
    gc.collect()
    before = psutil.Process().memory_info().rss
    found = grammars.compiled(grammar)
    held = psutil.Process().memory_info().rss - before
    grammars.close()
    assert taken > 2 << 20 and held <= found.bytes


def test_while_a_grammar_is_tried_and_compiled_other_threads_go_on(
    grammars: GrammarCompiler,
) -> None:
    grammar = HOSTILE["a? 30,000 times"][0]
    other = Grammar(grammar.kind, f"b{grammar.text}")
    longest, done = 0.0, threading.Event()

    def beat() -> None:
        nonlocal longest
        while not done.is_set():
            began = time.monotonic()
            time.sleep(0.005)
            longest = max(longest, time.monotonic() - began)

    thread = threading.Thread(target=beat)
    thread.start()
    began = time.monotonic()
    with pytest.raises(InvalidRequest):
        grammars.compiled(other)
    whole = time.monotonic() - began
    done.set()
    thread.join()
    assert longest < whole / 2


def test_a_kept_grammar_is_compiled_anew_after_some_texts(grammars: GrammarCompiler) -> None:
    """All texts of one add to its lexer's states, which have an end."""
    grammar = Grammar(GrammarKind.REGEX, "[xy]{3}")
    kept = grammars.compiled(grammar)
    for _ in range(compiler._STARTS):
        kept.start()
    assert grammars.compiled(grammar) is not kept
