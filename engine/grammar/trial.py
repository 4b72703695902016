"""The trial of a grammar in a worker process: compile it, follow it for some tokens, measure both.

What overflows a stack, never ends or fills the memory does so there. The stacks here are smaller than any
that the app uses for the same work, so what passes here has room there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import psutil

from engine.grammar.matcher import Bits, Matcher, ParserFailed
from engine.grammar.parsing import on_stack, parse, read_tokenizer
from engine.machine import memory
from engine.machine.worker_process import Limits
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
