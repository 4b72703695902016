"""Compile a request's grammar into a matcher.

llguidance compiles: a schema, a regular expression, or a grammar in Lark's or GBNF's notation. Each is
tried in a worker process first, compiled and followed for some tokens, and compiled here only if it
passed there: native recursion may overflow a stack, and a short expression may take gigabytes. The
worker's stacks are smaller than any that the app uses for the same work, so what passes there has room
here. A vocabulary is read once, at the first request that needs it; grammars are kept as long as there
is room for them.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import psutil

from engine.errors import InvalidRequest
from engine.grammar import bounds
from engine.grammar.matcher import Bits, Matcher, ParserFailed
from engine.grammar.parsing import STATES, on_stack, parse, read_tokenizer
from engine.machine import memory
from engine.machine.worker_process import Interrupted, LimitExceeded, Limits, WorkerPool
from engine.values.grammar import Grammar, GrammarKind

T = TypeVar("T")

LIMITS = Limits(seconds=2.0, memory=256 << 20, answer=1 << 16)
"""Of one trial."""
MOST_BYTES = 48 << 20
"""Most memory that a grammar may take, compiled and after its first tokens."""
_STEP_S = 0.1
"""Most processor time for what one token takes: other replies wait, or all of the app does."""
COMPILE_STACK, _USE_STACK = 8 << 20, 512 << 10

_vocabulary: dict[str, Any] = {}  # what the first value told, its tokenizer read


def run(value: Any) -> Any:
    """Return {"bytes": memory taken} for [kind, text, strict, tokens to follow], or {"refused": why}.

    The first value is {"tokenizer": tokenizer.json, "vocabulary": rows, "ends": tokens}.
    """
    if isinstance(value, dict):
        read = read_tokenizer(value["tokenizer"], value["vocabulary"], value["ends"])
        _vocabulary.update(value, tokenizer=read)
        return None
    tokenizer, vocabulary, ends = (_vocabulary[key] for key in ("tokenizer", "vocabulary", "ends"))
    kind, text, strict, steps = value
    grammar = Grammar(GrammarKind(kind), text, strict)
    before = _held()
    try:
        parser = on_stack(COMPILE_STACK, lambda: parse(tokenizer, grammar))
        matcher = Matcher(parser.deep_copy(), vocabulary, ends)
        on_stack(_USE_STACK, lambda: _follow(matcher, ends, steps))
    except ValueError as error:
        return {"refused": str(error)}
    except ParserFailed as error:
        if error.is_dead_end:
            after = f" from token {error.read + 1} on" if error.read else ""
            return {"refused": f"no text matches it{after}; a rule may require itself"}
        return {"refused": f"it fails after {error.read} tokens ({error.why})"}
    taken = max(0, _held() - before)
    if taken > MOST_BYTES:
        return {"refused": f"it uses {taken >> 20} MB of memory (at most {MOST_BYTES >> 20})"}
    return {"bytes": taken}


def _follow(matcher: Matcher, ends: Sequence[int], steps: int) -> None:
    """Read ``steps`` tokens that may follow each other. Raises ValueError and ParserFailed."""
    draw = random.Random(0)
    for _ in range(steps):
        mask = _timed(matcher.mask)
        assert mask is not None
        forced = _timed(matcher.forced)
        token = forced[0] if forced else _drawn(mask, draw)
        if token is None or token in ends:
            return
        _timed(partial(matcher.count_fitting, [token] * 4))
        _timed(partial(matcher.consume, [token]))


def _drawn(mask: Bits, draw: random.Random) -> int | None:
    """Return some token that ``mask`` allows; None if it allows none. To list all would take longer."""
    words = np.flatnonzero(mask)
    if not len(words):
        return None
    word = int(draw.choice(words))
    bits = int(mask[word])
    return 32 * word + draw.choice([bit for bit in range(32) if bits >> bit & 1])


def _timed(work: Callable[[], T]) -> T:
    began = time.thread_time()
    found = work()
    if (took := time.thread_time() - began) > _STEP_S:
        raise ValueError(f"one token takes {1000 * took:.0f} ms (at most {1000 * _STEP_S:.0f})")
    return found


def _held() -> int:
    """Return the bytes of memory that this process holds, freed ones given back to the system first."""
    memory.trim()  # else what an earlier trial freed would be used again, and not counted
    return int(psutil.Process().memory_info().rss)


_ROOM = 512 << 20
"""Bytes for compiled grammars that are kept: agents send the same tools with every turn."""
_GROWS = STATES * 512
"""Bytes by which a compiled grammar may grow while texts are read: its lexer's states."""
_FACTOR = 2
"""What one takes here, beside what the trial measured: resident memory is counted in pages, and a
measurement misses what the allocator had left over."""
_STARTS = 64
"""Texts after which a kept grammar is compiled anew: all that it was used for added to its states."""
_TRIED = 1024
"""Most grammars whose trial results are cached."""
_STEPS = 8
"""Tokens that a trial follows a grammar for before it is used."""
_STACK = 2 * COMPILE_STACK


class CompiledGrammar:
    """A grammar that passed its trial, ready to start matchers; ``bytes`` is its largest size."""

    def __init__(self, parser: Any, size: int, begin: Callable[[Any], Matcher]) -> None:
        self.bytes, self.starts = size, 0
        self._parser, self._begin = parser, begin

    def start(self) -> Matcher:
        """Return a matcher at the start of a text. Quick, so any thread may call it."""
        self.starts += 1
        return self._begin(self._parser.deep_copy())


class GrammarCompiler:
    """Compiles grammars for one tokenizer. Threads may share it."""

    def __init__(
        self, tokenizer: Callable[[], str], vocabulary: int, ends: Collection[int]
    ) -> None:
        """``tokenizer``: its tokenizer.json; ``vocabulary``: rows of the model; ``ends``: tokens that end
        a text."""
        self._json, self._vocabulary, self._ends = tokenizer, vocabulary, tuple(ends)
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._tokenizer: Any = None
        self._compiled: OrderedDict[bytes, CompiledGrammar] = OrderedDict()
        self._tried: OrderedDict[bytes, int | str] = OrderedDict()  # bytes taken, or why not
        self._trials = WorkerPool("engine.grammar.compiler:run", LIMITS, first=self._first)

    def compiled(self, grammar: Grammar) -> CompiledGrammar:
        """Return ``grammar`` ready to use. Raises InvalidRequest where it cannot be compiled or followed.

        It may take a second, and is for a thread on which nobody else waits.
        """
        key = _key(grammar, _STEPS)
        with self._lock:
            found = self._compiled.get(key)
            if found is not None and found.starts < _STARTS:
                self._compiled.move_to_end(key)
                return found
        taken, tokenizer = self._try(grammar, key, _STEPS), self._known()
        try:
            parser = on_stack(_STACK, lambda: parse(tokenizer, grammar))
        except ValueError as error:
            raise _refused(grammar, str(error)) from error
        size = _FACTOR * taken + _GROWS
        found = CompiledGrammar(parser, size, partial(self._begun, key))
        with self._lock:
            self._compiled[key] = found
            self._compiled.move_to_end(key)
            room = _ROOM - sum(each.bytes for each in self._compiled.values())
            while len(self._compiled) > 1 and room < 0:
                _, oldest = self._compiled.popitem(last=False)
                room += oldest.bytes
        return found

    def check(self, grammar: Grammar) -> None:
        """Raise InvalidRequest where ``grammar`` cannot be compiled, or no text matches it."""
        self._try(grammar, _key(grammar, 1), 1)

    def names_special(self, token: int) -> bool:
        """True if a grammar must name this token, because no text of a grammar matches it."""
        return bool(self._known().is_special_token(token))

    def close(self) -> None:
        """End the worker process."""
        self._trials.close()

    def _try(self, grammar: Grammar, key: bytes, steps: int) -> int:
        """Return the bytes that ``grammar`` took in its trial. Raises InvalidRequest if it failed."""
        with self._lock:
            found = self._tried.get(key)
        if found is None:
            found = bounds.exceeded(grammar) or self._outcome(grammar, steps)
            with self._lock:
                self._tried[key] = found
                if len(self._tried) > _TRIED:
                    self._tried.popitem(last=False)
        if isinstance(found, str):
            raise _refused(grammar, found)
        return found

    def _outcome(self, grammar: Grammar, steps: int) -> int | str:
        """Return what to cache. Raises InvalidRequest where another trial may end otherwise."""
        self._trials.start()  # reads the vocabulary while this process does
        self._known()
        try:
            found = self._trials.call([grammar.kind.value, grammar.text, grammar.strict, steps])
        except LimitExceeded as error:
            self._trials.start()
            if isinstance(error, Interrupted):  # not cached
                raise InvalidRequest(
                    "grammar",
                    f"grammar could not be tried: its trial {error} on a busy machine. Try again, or "
                    "simplify it.",
                ) from error
            return f"its trial {error}"
        taken: int | str = found.get("refused") or found["bytes"]
        return taken

    def _begun(self, key: bytes, parser: Any) -> Matcher:
        return Matcher(parser, self._vocabulary, self._ends, partial(self._forget, key))

    def _forget(self, key: bytes) -> None:
        """Drop a grammar whose parser gave up: all texts of one share a lexer, which stays in error."""
        with self._lock:
            self._compiled.pop(key, None)

    def _first(self) -> dict[str, Any]:
        return {"tokenizer": self._json(), "vocabulary": self._vocabulary, "ends": self._ends}

    def _known(self) -> Any:
        """Return llguidance's vocabulary. To read a large one holds the GIL for a second, so that is done
        with the first grammar, while the worker reads it too, not at each load: requests wait then."""
        with self._reading:
            if self._tokenizer is None:
                self._tokenizer = self._read()
            return self._tokenizer

    def _read(self) -> Any:
        if not self._ends:
            raise InvalidRequest(
                "grammar",
                "grammar cannot be used: this model has no end token, so no text could end. "
                "Load another model.",
            )
        try:
            return read_tokenizer(self._json(), self._vocabulary, self._ends)
        except Exception as error:  # its parser raises nothing more exact
            raise InvalidRequest(
                "grammar",
                f"grammar cannot be used: llguidance cannot read this model's tokenizer ({error}). "
                "Load another model.",
            ) from error


def _key(grammar: Grammar, steps: int) -> bytes:
    """Return a digest: the texts of many grammars are too large to store."""
    text = f"{steps} {grammar.kind.value} {grammar.strict} {grammar.text}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _refused(grammar: Grammar, why: str) -> InvalidRequest:
    return InvalidRequest(
        "grammar", f"grammar cannot be compiled as {grammar.kind.value}: {why}. Correct it."
    )
