"""A loaded pair and its conversation memory: requests in, events out.

Owns the target's cache and the proposers between requests, so that a follow-up prefills only what is
new. Not thread-safe: one thread runs one request at a time (see service.py).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from engine.backends.cuda.decoder import CudaDecoder
from engine.decoding.context import Context
from engine.decoding.controller import Controller
from engine.decoding.judge import Judge
from engine.decoding.loop import Ending, decode
from engine.decoding.narrator import Narrator
from engine.decoding.prefix import chunks
from engine.decoding.proposer import Proposer
from engine.decoding.sampling import Sampler, resolve_rule
from engine.decoding.target import Target
from engine.decoding.text import TextCodec
from engine.drafting import controllers, proposers
from engine.drafting.controllers.auto import Auto
from engine.drafting.controllers.choice import Choice
from engine.drafting.controllers.experience import Drafter, Experience
from engine.drafting.controllers.warm_up import warm_up
from engine.drafting.proposers.best import BestProposer
from engine.drafting.proposers.suffix import RECALLING
from engine.drafting.resources import Resources
from engine.errors import ContextExceeded, InvalidRequest
from engine.events import Event, Finished, FinishReason, Prefilled, Round, Started
from engine.machine.devices import Place
from engine.machine.failures import device_errors
from engine.models.base import Model
from engine.request import AcceptanceRule, Control, Request

if TYPE_CHECKING:
    from engine.backends.cuda.graphs import Runner

_Options = tuple[tuple[str, object], ...]


class Session:
    """Runs requests on one target, with one draft or none."""

    def __init__(
        self, model: Model, codec: TextCodec, resources: Resources, place: Place | None = None
    ) -> None:
        """``place``: where the model runs, and what may be used there; None: whatever there is."""
        self.native = place is None or place.native
        self.cuda_graphs = place is None or place.cuda_graphs
        self.target = Target(model, resources.taps)
        self.codec = codec
        self.resources = replace(resources, backbone=self.target) if resources.heads else resources
        self._proposers: dict[str, tuple[_Options, Proposer]] = {}
        self._experience = Experience()
        self._drafters: dict[tuple[str, AcceptanceRule], Drafter] = {}
        # All of such a target's requests are judged on the device, whoever drafts: its noise and the
        # host's differ in their last bits, and a seed's words must not depend on the proposer.
        self._on_device = isinstance(model, CudaDecoder)
        self._runner: Runner | None = None

    def prepare(self, request: Request) -> list[int]:
        """The prompt's tokens. Raises InvalidRequest or ContextExceeded; any thread may ask."""
        tokens = self.codec.encode_request(request)
        if not tokens:
            raise InvalidRequest("messages", "The prompt is empty: write something first.")
        vocabulary = self.target.model.info.vocabulary
        strange = next((token for token in tokens if not 0 <= token < vocabulary), None)
        if strange is not None:
            raise InvalidRequest(
                "prompt", f"Token id {strange} is outside this model's vocabulary of {vocabulary}."
            )
        if len(tokens) + 1 > self.target.context:
            raise ContextExceeded(len(tokens), self.target.context)
        wanted = request.speculation
        proposers.check(wanted.proposer, wanted.options, self.resources)
        return tokens

    def run(
        self, request: Request, cancelled: Callable[[], bool], prompt: list[int] | None = None
    ) -> Iterator[Event]:
        """Yields Started, Prefilled, Emitted..., Finished.

        ``prompt``: what ``prepare`` gave for this request, if it was asked already. Raises as it does,
        DeviceLost where the GPU is gone, and ModelError for a model that computes no numbers.
        """
        if prompt is None:
            prompt = self.prepare(request)
        with device_errors(torch.device(self.target.model.info.device)):
            yield from self._run(request, cancelled, prompt)

    def _run(
        self, request: Request, cancelled: Callable[[], bool], prompt: list[int]
    ) -> Iterator[Event]:
        context = Context(prompt)
        rule = resolve_rule(request.speculation.acceptance, request.sampling.temperature)
        seed = request.sampling.seed
        seed = secrets.randbits(53) if seed is None else seed
        info = self.target.model.info
        name = request.speculation.proposer
        if request.speculation.control is Control.AUTO:
            self._warm_up()
        yield Started(info.name, name, rule, tuple(prompt), seed)

        sampler = Sampler(
            request.sampling, rule, seed, context, info.vocabulary, native_step=self.native
        )
        proposer = self._proposer(request)
        if not request.reuse_cache:
            # An empty text shares nothing with what the proposer holds, so all of it is dropped.
            proposer.begin(Context(()), sampler)
        proposer.begin(context, sampler)
        yield self._prefill(context, proposer, request.reuse_cache, cancelled)
        if cancelled():
            yield Finished(FinishReason.CANCELLED, "", "", ())
            return
        ending = self._ending(request, len(prompt))
        rounds = self._decode(context, proposer, sampler, request, ending)
        narrator = Narrator(self.codec, prompt, request, ending)
        with contextlib.closing(rounds):
            yield from narrator.narrate(rounds, cancelled)
        # What was not shown is forgotten: which tokens a follow-up finds in the cache must not depend
        # on who drafted, for a prompt's keys need not have the bits of a decoded token's.
        self.target.reuse([*prompt, *narrator.tokens][:-1])

    def _decode(
        self,
        context: Context,
        proposer: Proposer,
        sampler: Sampler,
        request: Request,
        ending: Ending,
    ) -> Generator[Round]:
        """Rounds on the device where the target is there."""
        name = request.speculation.proposer
        if not self._on_device:
            judge, controller = Judge(sampler), self._controller(request, sampler, proposer)
            return decode(context, self.target, proposer, controller, judge, ending, name)
        from engine.local.device_decode import decode_on_device, runner_for  # it needs Triton

        controller = self._controller(request, sampler)
        runner = self._runner = runner_for(self.target, proposer, self._runner, self.cuda_graphs)
        return decode_on_device(
            context, self.target, proposer, controller, sampler, runner, ending, name
        )

    def close(self) -> None:
        """Releases the proposers' memory."""
        for _, proposer in self._proposers.values():
            proposer.close()
        self._proposers.clear()

    def _prefill(
        self, context: Context, proposer: Proposer, reuse: bool, cancelled: Callable[[], bool]
    ) -> Prefilled:
        """Brings all tokens but the pending one into the target's cache, then the proposer's."""
        started = perf_counter()
        known = context.tokens[:-1]
        if not reuse:
            self.target.clear()
        reused = self.target.reuse(known)
        for _ in chain(self._extend(known[reused:]), proposer.prepare(context)):
            if cancelled():
                break
        return Prefilled(len(context.tokens), reused, perf_counter() - started)

    def _extend(self, tokens: list[int]) -> Iterator[None]:
        """Yields before each part, as ``Proposer.prepare`` does."""
        for chunk in chunks(tokens):
            yield
            self.target.extend(chunk)

    def _warm_up(self) -> None:
        """Before the first request that needs to know what verifying takes.

        On a device the first round tells, and all depths are taken to cost the same until tried.
        """
        if not self._on_device and not self._experience.verify.known:
            warm_up(self.target.model, self._experience.verify)

    def _controller(
        self, request: Request, sampler: Sampler, proposer: Proposer | None = None
    ) -> Controller:
        """Starts from what earlier requests with this proposer and rule have taught.

        ``proposer``: given where the controller may choose among those that it has.
        """
        wanted = request.speculation
        members = tuple(proposer.members) if isinstance(proposer, BestProposer) else ()
        if members and wanted.control is Control.AUTO:
            recall, *autos = (
                Auto(wanted.deepest, self._experience_of(name, sampler))
                for name in (RECALLING, *members)
            )
            return Choice(dict(zip(members, autos, strict=True)), (RECALLING, recall))
        experience = self._experience_of(wanted.proposer, sampler)
        return controllers.create(wanted.control, wanted.deepest, experience)

    def _experience_of(self, proposer: str, sampler: Sampler) -> Experience:
        # Rules that weigh q ask for whole drafts (see drawing.py), and a graph has one depth.
        cuts = not (sampler.rule.weighs_q or self._on_device)
        drafter = self._drafters.setdefault((proposer, sampler.rule), Drafter(cuts=cuts))
        if not sampler.may_recall:
            drafter = Drafter(drafter.drafts, cuts=cuts)
        return self._experience.of(drafter)

    def _ending(self, request: Request, prompt_length: int) -> Ending:
        room = self.target.context - prompt_length
        limit = room if request.max_tokens is None else min(request.max_tokens, room)
        return Ending(limit, () if request.ignore_eos else self.target.model.info.eos)

    def _proposer(self, request: Request) -> Proposer:
        """The proposer of the last request that named it, unless its options have changed."""
        wanted = request.speculation
        options = tuple(sorted(wanted.options.items()))
        known, proposer = self._proposers.get(wanted.proposer, (None, None))
        if proposer is None or known != options:
            if proposer is not None:
                proposer.close()
            proposer = proposers.create(wanted.proposer, wanted.options, self.resources)
            self._proposers[wanted.proposer] = options, proposer
        return proposer
