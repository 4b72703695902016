"""This engine, as the app uses it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.bench.answering import isolated_options
from engine.decoding.context import Context, chunks
from engine.decoding.host import HostLauncher
from engine.decoding.loop import StoppingCriteria, decode
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.verifier import Verifier
from engine.drafting import controllers
from engine.drafting.controllers.controller_statistics import ControllerStatistics
from engine.drafting.controllers.warm_up import warm_up
from engine.drafting.proposers.draft import DraftModelProposer
from engine.drafting.resources import Resources
from engine.events import Emitted
from engine.loading.loader import load_planned, plan_model
from engine.loading.planning.choices import draft_quantization
from engine.loading.request import LoadRequest
from engine.local.engine import LocalEngine
from engine.machine import devices
from engine.models.base import Model
from engine.models.checkpoints.checkpoint import inspect
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.stats import Tally
from engine.values.sampling import AcceptanceRule, Sampling
from tools.peers.base import (
    DRAFT,
    NGRAM,
    PLAIN,
    Case,
    Contender,
    Entrant,
    Reply,
    Source,
)
from tools.peers.simulated import SimulatedProposer

NAME = "foretoken"
_PROPOSERS = {PLAIN: "none", DRAFT: "draft", NGRAM: "ngram"}
_WARM_UP_TOKENS = 8


class Own:
    """Always there."""

    name = NAME

    def absent(self) -> str | None:
        return None

    def contenders(self, case: Case, workspace: Path) -> list[Contender]:
        """Plain decoding, then every way of drafting that the case allows. They share the weights."""
        engine = LocalEngine()
        try:
            return self._load(engine, case)
        except BaseException:
            engine.close()
            raise

    def _load(self, engine: LocalEngine, case: Case) -> list[Contender]:
        simulated = case.acceptance is not None
        draft = None if simulated else case.draft  # the engine is to have nothing of it
        engine.load(
            LoadRequest(
                target=str(case.target),
                draft="" if draft is None else str(draft),
                quantization=case.quantization,
                device=case.device,
                native=case.native,
                cuda_graphs=case.cuda_graphs,
                threads=case.threads,
            )
        )
        plain = OwnContender(engine, PLAIN, case)
        if simulated:
            return [plain, SimulatedContender(engine, plain, case)] if case.draft else [plain]
        settings = (DRAFT, NGRAM) if case.draft else (NGRAM,)
        return [plain, *(OwnContender(engine, setting, case) for setting in settings)]


class OwnContender:
    """One proposer through the engine's door."""

    def __init__(self, engine: LocalEngine, setting: str, case: Case) -> None:
        assert engine.loaded is not None
        self.engine, self.case, self.proposer = engine, case, _PROPOSERS[setting]
        self.entrant = Entrant(NAME, setting, engine.loaded.quantization, _detail(setting, case))
        self.answer((0,), _WARM_UP_TOKENS)

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        request = Request(
            token_ids=tuple(prompt),
            sampling=Sampling(seed=self.case.seed),
            speculation=Speculation(
                proposer=self.proposer,
                depth=None if self.proposer == "none" else self.case.depth,
                options=isolated_options(self.engine, self.proposer),
            ),
            max_tokens=limit,
            reuse_cache=False,
        )
        said = ReplyState.of(self.engine.generate(request))
        statistics = said.statistics
        return Reply(said.token_ids or (), statistics.completion_tokens, statistics.decode_s)

    def close(self) -> None:
        self.engine.close()


class SimulatedContender:
    """The same loop, target and controller; what the draft says is simulated, its time is real."""

    def __init__(self, engine: LocalEngine, plain: OwnContender, case: Case) -> None:
        assert case.draft is not None and case.acceptance is not None
        self.engine, self.plain, self.case = engine, plain, case
        place = devices.choose(case.device, native=case.native, threads=case.threads)
        held = draft_quantization(inspect(case.draft), case.quantization, place)
        plan = plan_model(inspect(case.draft), place, held, context=case.longest)
        draft = load_planned(plan)
        self.proposer = SimulatedProposer(
            DraftModelProposer(DraftModelProposer.Options(), Resources(draft=draft)),
            case.acceptance,
            case.seed,
            inspect(case.target).vocabulary,
        )
        self.entrant = Entrant(
            NAME,
            DRAFT,
            plain.entrant.quantization,
            f"{_detail(DRAFT, case)}, {case.acceptance:g} right",
            Source.SIMULATED,
        )
        self.acceptance_rate: float | None = None
        """Of the last reply, as it came out."""
        self.statistics = ControllerStatistics()
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}
        engine.measure(lambda model: warm_up(model, self.statistics.verify))

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        key = (*prompt, limit)
        if key not in self._known:
            self._known[key] = self.plain.answer(prompt, limit).tokens or ()
        self.proposer.expect(self._known[key])
        return self.engine.measure(lambda model: self._decode(model, prompt, limit))

    def close(self) -> None:
        self.proposer.close()

    def _decode(self, model: Model, prompt: Sequence[int], limit: int) -> Reply:
        """On the engine's thread."""
        context, speculation = Context(prompt), Speculation(depth=self.case.depth)
        sampling, rule = Sampling(seed=self.case.seed), AcceptanceRule.GREEDY
        sampler = Sampler(
            sampling,
            rule,
            self.case.seed,
            context,
            model.info.vocabulary,
            native_step=self.case.native,
        )
        target = Target(model)
        for chunk in chunks(context.tokens[:-1]):
            target.extend(chunk)
        self.proposer.begin(Context(()), sampler)  # forgets the last text, as a request may ask
        self.proposer.begin(context, sampler)
        for _ in self.proposer.prepare(context):
            pass
        rounds = decode(
            context,
            HostLauncher(context, target, self.proposer, Verifier(sampler)),
            controllers.create(speculation.control, speculation.deepest, self.statistics),
            StoppingCriteria(limit, model.info.eos),
            "simulated",
        )
        tally = Tally()
        for round in rounds:
            tally.add(Emitted(text="", round=round))
        found = tally.statistics()
        self.acceptance_rate = found.acceptance_rate
        return Reply(tuple(context.output), found.completion_tokens, found.decode_s)


def _detail(setting: str, case: Case) -> str:
    if setting == PLAIN:
        return ""
    return "auto" if case.depth is None else f"depth {case.depth}"
