"""The rounds of the fake engine: given words, drafted, accepted and corrected as in a real reply."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from engine.api import Capabilities
from engine.events import Budget, Emitted, Origin, Round, Timing, Token, Tree

VOCABULARY = 100_000


def split(text: str) -> list[str]:
    """Tokens: words with their leading space, numbers and signs on their own."""
    return re.findall(r" ?[A-Za-z]+| ?\d+|\s+|.", text, re.DOTALL)


def before_stop(tokens: Sequence[str], stops: Sequence[str]) -> list[str]:
    """The tokens up to the first of the stop strings; the last one may be a part of a token."""
    text = "".join(tokens)
    found = [at for at in map(text.find, stops) if at >= 0]
    if not found:
        return list(tokens)
    left, kept = min(found), []
    for token in tokens:
        if left <= 0:
            break
        kept.append(token[:left])
        left -= len(token)
    return kept


def token_id(token: str) -> int:
    """A token's number."""
    return zlib.crc32(token.encode()) % VOCABULARY


def recited(
    tokens: Sequence[str],
    proposals: Sequence[Sequence[str]] | None,
    *,
    proposer: str,
    depth: int,
    seconds: float,
    begun: int = 0,
) -> Iterator[Emitted]:
    """Rounds that emit ``tokens`` behind the first ``begun``, ``seconds`` each; for ``proposals`` see
    ``tests.support.fake_engine.Script``."""
    chance = random.Random(7)
    done, index, start = begun, 0, sum(map(len, tokens[:begun]))
    while done < len(tokens):
        left = tokens[done:]
        if proposals is None:
            drafts = _guesses(left, depth, chance)
        else:
            drafts = list(proposals[index][:depth]) if index < len(proposals) else []
        right = 0
        while right < min(len(drafts), len(left) - 1) and drafts[right] == left[right]:
            right += 1
        said = left[: right + 1]
        yield Emitted(
            text="".join(said),
            tokens=_tokens(said, start, drafts),
            round=_round(index, proposer, depth, drafts, said, seconds),
            drafted=tuple(drafts),
            next_text=said[-1],
            top_texts=tuple(_top_tokens(said, drafts)),
        )
        start += sum(map(len, said))
        done += len(said)
        index += 1


def as_shown(emitted: Emitted, capabilities: Capabilities, at: float) -> Emitted:
    """Without what an engine of these ``capabilities`` does not show; ``at``: seconds since the start."""
    tokens = emitted.tokens if capabilities.tokens else None
    if not capabilities.rounds:
        if tokens is not None:
            tokens = tuple(replace(token, origin=None, p=None) for token in tokens)
        return Emitted(text=emitted.text, tokens=tokens, at=at)
    if capabilities.probabilities or emitted.round is None:
        return replace(emitted, tokens=tokens)
    nothing = (None,) * len(emitted.round.tree)
    return replace(
        emitted,
        tokens=None if tokens is None else tuple(replace(token, p=None) for token in tokens),
        top_texts=(),
        round=replace(emitted.round, p=nothing, q=nothing, next_p=None, top_tokens=()),
    )


def _guesses(left: Sequence[str], depth: int, chance: random.Random) -> list[str]:
    """Right ones first, as chance has it, and wrong ones behind them."""
    right = 0
    while right < min(depth, len(left) - 1) and chance.random() < 0.8:
        right += 1
    return [*left[:right], *(f" guess{n}" for n in range(depth - right))]


def _tokens(said: Sequence[str], start: int, drafts: Sequence[str]) -> tuple[Token, ...]:
    """What a round said behind ``start`` characters of the reply: accepted drafts, then its own."""
    starts = accumulate(map(len, said), initial=start)
    origins = [Origin.DRAFT] * (len(said) - 1) + [_origin(said, drafts)]
    return tuple(
        Token(token_id(text), text, at, origin, 0.9)
        for text, at, origin in zip(said, starts, origins, strict=False)
    )


def _origin(said: Sequence[str], drafts: Sequence[str]) -> Origin:
    """Of the last token said."""
    return Origin.CORRECTION if len(said) <= len(drafts) else Origin.BONUS


def _top_tokens(said: Sequence[str], drafts: Sequence[str]) -> dict[str, float]:
    """What the target might have said in the last place, by text: what it said, then what it rejected."""
    rejected = drafts[len(said) - 1 : len(said)]
    return {said[-1]: 0.9, **dict.fromkeys(rejected, 0.04), " maybe": 0.02}


def _round(
    index: int,
    proposer: str,
    depth: int,
    drafts: Sequence[str],
    said: Sequence[str],
    seconds: float,
) -> Round:
    """The round that drafted ``drafts``, of which all of ``said`` but the last were accepted."""
    right = len(said) - 1
    return Round(
        index=index,
        proposer=proposer,
        budget=Budget(depth, depth, plain_s=seconds or None),
        tree=Tree.chain([token_id(token) for token in drafts]),
        accepted_path=tuple(range(right)),
        next_token=token_id(said[-1]),
        origin=_origin(said, drafts),
        p=tuple(
            max(0.97 - 0.1 * at, 0.05) if at < right else (0.04 if at == right else None)
            for at in range(len(drafts))
        ),
        q=tuple(max(0.8 - 0.05 * at, 0.05) for at in range(len(drafts))),
        next_p=0.9,
        timing=Timing(seconds / 4, seconds / 2, seconds),
        emitted=len(said),
        top_tokens=tuple((token_id(text), p) for text, p in _top_tokens(said, drafts).items()),
    )
