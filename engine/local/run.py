"""A request, resolved once against the loaded model."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass

from engine.decoding.loop import StoppingCriteria
from engine.decoding.thinking import Thinking
from engine.grammar.compiler import CompiledGrammar
from engine.models.base import ModelInfo
from engine.request import Request, Speculation
from engine.values.prompt import Prompt
from engine.values.sampling import AcceptanceRule, Sampling, resolve_rule


@dataclass(frozen=True, slots=True)
class Run:
    """A request with its prompt encoded, its rule and seed chosen, and its limits computed.

    ``thinking``: how its thought is limited, or kept from its grammar. For other fields see ``Request``.
    """

    prompt: Prompt
    sampling: Sampling
    rule: AcceptanceRule
    seed: int
    speculation: Speculation
    stopping: StoppingCriteria
    stop: tuple[str, ...]
    reuse_cache: bool
    predicted: str
    logit_bias: tuple[tuple[int, float], ...]
    top_logprobs: int
    grammar: CompiledGrammar | None
    reply_prefix: tuple[int, ...] = ()
    thinking: Thinking | None = None

    @property
    def keys(self) -> list[int]:
        """The content keys of all tokens but the pending one."""
        return [*self.prompt.keys, *self.reply_prefix][:-1]

    @classmethod
    def resolve(
        cls,
        request: Request,
        prompt: Prompt,
        model: ModelInfo,
        grammar: CompiledGrammar | None = None,
        thinking: Thinking | None = None,
    ) -> Run:
        """Resolve ``request`` for ``model``; draw a seed if it has none."""
        sampling, room = request.sampling, model.context - len(prompt.tokens)
        limit = room
        if request.max_tokens is not None:
            limit = min(len(request.reply_prefix) + request.max_tokens, room)
        eos: Collection[int] = () if request.ignore_eos else {*model.eos, *request.end_tokens}
        return cls(
            prompt=prompt,
            sampling=sampling,
            rule=resolve_rule(request.speculation.acceptance, sampling.temperature),
            seed=secrets.randbits(53) if sampling.seed is None else sampling.seed,
            speculation=request.speculation,
            stopping=StoppingCriteria(limit, eos),
            stop=request.stop,
            reuse_cache=request.reuse_cache,
            predicted=request.predicted,
            logit_bias=request.logit_bias,
            top_logprobs=request.top_logprobs,
            grammar=grammar,
            reply_prefix=request.reply_prefix,
            thinking=thinking,
        )
