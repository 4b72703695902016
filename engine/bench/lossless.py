"""Compare every proposer's replies to many prompts with plain decoding's, token for token.

Each prompt is answered by ``none`` and by every proposer, at temperature 0 (``greedy``) and at a drawn
one (``coupled``), drafting a drawn number of tokens a round. Everything is drawn from one seed, so a
divergence comes again when it is asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.api import Engine
from engine.bench.divergence import token_at
from engine.decoding.context import common_prefix
from engine.errors import InvalidRequest
from engine.local.engine import LocalEngine
from engine.models.base import Model
from engine.reply import ReplyState
from engine.request import PLAIN, Request, Speculation
from engine.values import MAX_DEPTH
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling

Messages = tuple[Message, ...]
LONGEST_PROMPT = 600
"""Characters; a long prompt takes time and says no more."""
RULES = (AcceptanceRule.GREEDY, AcceptanceRule.COUPLED)
_TRUNCATIONS: tuple[dict[str, float], ...] = (
    {},
    {},
    {"top_p": 0.9},
    {"top_k": 20, "min_p": 0.02},
    {"repetition_penalty": 1.2, "frequency_penalty": 0.3},
)


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt, the depth, and the sampling under the two rules."""

    messages: Messages
    depth: int
    samplings: tuple[Sampling, Sampling]


@dataclass(frozen=True, slots=True)
class Row:
    """One proposer under one rule: replies compared with plain decoding, and how many differ."""

    quantization: str
    proposer: str
    rule: str
    prompts: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    divergences: int = 0


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first token that differs from plain decoding's, and both logits after the same text.

    ``position`` counts the reply's tokens from 0. A token is None where a reply has ended already.
    """

    quantization: str
    proposer: str
    rule: str
    depth: int
    temperature: float
    seed: int
    prompt: str
    position: int
    expected: int | None
    found: int | None
    expected_logit: float | None
    found_logit: float | None


def cases(
    prompts: Sequence[Messages], count: int, seed: int, longest: int = LONGEST_PROMPT
) -> list[Case]:
    """Return ``count`` different ``prompts`` of at most ``longest`` characters.

    System messages are left out, since some chat templates have no place for them. Raises
    InvalidRequest where there are not as many.
    """
    rng = random.Random(seed)
    fitting = [turns for turns in _without_system(prompts) if _characters(turns) <= longest]
    if count > len(fitting):
        raise InvalidRequest(
            "prompts",
            f"There are {len(fitting):,} prompts of at most {longest} characters, which is what this "
            f"model's context has room for; ask for no more.",
        )
    return [_case(rng, messages) for messages in rng.sample(fitting, count)]


def run(
    engine: LocalEngine,
    prompts: Sequence[Messages],
    count: int,
    *,
    seed: int = 1,
    max_tokens: int = 24,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[Row], list[Divergence]]:
    """Compare on the loaded pair with ``count`` of ``prompts``; return a row for each proposer and rule.

    ``engine`` is this machine's own: where words differ, its model is asked for both logits. Raises
    ForetokenError.
    """
    loaded = engine.loaded
    assert loaded is not None
    names = (PLAIN, *(name for name in loaded.capabilities.names if name != PLAIN))
    rows = {(name, rule): Row(loaded.quantization, name, rule) for name in names for rule in RULES}
    divergences: list[Divergence] = []
    # At worst a character is a token, and the template has some of its own.
    drawn = cases(prompts, count, seed, min(LONGEST_PROMPT, loaded.context // 2))
    for index, case in enumerate(drawn):
        for rule, sampling in zip(RULES, case.samplings, strict=True):
            plain = None
            for name in names:
                reply = _ask(engine, case, name, rule, sampling, max_tokens)
                plain = plain or reply
                rows[name, rule] = _counted(rows[name, rule], reply, plain)
                if reply.token_ids != plain.token_ids:
                    row = rows[name, rule]
                    divergences.append(_divergence(engine, case, row, sampling, plain, reply))
        on_progress(index + 1, count)
    return list(rows.values()), divergences


def as_json(rows: Sequence[Row], divergences: Sequence[Divergence]) -> dict[str, Any]:
    """Return the results as JSON values; the keys are the dataclasses' fields."""
    return {
        "results": [asdict(row) for row in rows],
        "divergences": [asdict(divergence) for divergence in divergences],
    }


def _without_system(prompts: Sequence[Messages]) -> list[Messages]:
    """Return the prompts without system messages, in their order, without repetition."""
    stripped = (tuple(one for one in messages if one.role != "system") for messages in prompts)
    return list(dict.fromkeys(stripped))


def _characters(messages: Messages) -> int:
    return sum(len(message.content) for message in messages)


def _case(rng: random.Random, messages: Messages) -> Case:
    seed = rng.getrandbits(32)
    penalty = rng.choice((1.0, 1.0, 1.0, 1.1))
    truncation: dict[str, Any] = dict(rng.choice(_TRUNCATIONS))
    temperature = round(rng.uniform(0.3, 1.5), 1)
    return Case(
        messages,
        rng.randint(1, MAX_DEPTH),
        (
            Sampling(repetition_penalty=penalty, seed=seed),
            Sampling(temperature=temperature, seed=seed, **truncation),
        ),
    )


def _ask(
    engine: Engine,
    case: Case,
    proposer: str,
    rule: AcceptanceRule,
    sampling: Sampling,
    max_tokens: int,
) -> ReplyState:
    depth = None if proposer == PLAIN else case.depth
    request = Request(
        messages=case.messages,
        sampling=sampling,
        speculation=Speculation(proposer=proposer, depth=depth, acceptance=rule),
        max_tokens=max_tokens,
        ignore_eos=True,
    )
    return ReplyState.of(engine.generate(request))


def _counted(row: Row, reply: ReplyState, plain: ReplyState) -> Row:
    total = reply.statistics
    return replace(
        row,
        prompts=row.prompts + 1,
        tokens=row.tokens + len(reply.token_ids or ()),
        drafted=row.drafted + total.drafted,
        accepted=row.accepted + total.accepted,
        divergences=row.divergences + (reply.token_ids != plain.token_ids),
    )


def _divergence(
    engine: LocalEngine,
    case: Case,
    row: Row,
    sampling: Sampling,
    plain: ReplyState,
    reply: ReplyState,
) -> Divergence:
    replies = plain.token_ids or (), reply.token_ids or ()
    position = common_prefix(*replies)
    text = (*plain.prompt, *replies[0][:position])

    def logits_of(model: Model) -> list[float]:
        """Return the logits after ``text``, its last token alone in the pass, as in plain decoding."""
        cache = model.new_state(model.info.context)
        model.forward(text[:-1], cache, last=0)
        result: list[float] = model.forward(text[-1:], cache, last=1)[0].tolist()
        return result

    logits = engine.measure(logits_of)
    expected, found = (token_at(tokens, position) for tokens in replies)
    return Divergence(
        quantization=row.quantization,
        proposer=row.proposer,
        rule=row.rule,
        depth=case.depth,
        temperature=sampling.temperature,
        seed=sampling.seed or 0,
        prompt=case.messages[-1].content,
        position=position,
        expected=expected,
        found=found,
        expected_logit=None if expected is None else logits[expected],
        found_logit=None if found is None else logits[found],
    )
