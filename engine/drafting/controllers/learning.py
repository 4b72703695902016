"""The controllers of a loaded target's requests: each starts from what the earlier ones taught."""

from __future__ import annotations

from engine.decoding.controller import Controller
from engine.decoding.proposer import ChoosingProposer, Proposer
from engine.decoding.sampling import Sampler
from engine.drafting import controllers
from engine.drafting.controllers.auto import Auto
from engine.drafting.controllers.batch import BatchController, BatchMember
from engine.drafting.controllers.choice import Choice
from engine.drafting.controllers.controller_statistics import ControllerStatistics, Drafter
from engine.request import Control, Speculation
from engine.values.sampling import AcceptanceRule


class Learning:
    """What was learnt by proposer and rule, as long as the pair is loaded."""

    def __init__(self, *, stops_early: bool = True) -> None:
        """``stops_early``: whether drafts may (see ``Budget.floor``): in captured rounds they cannot."""
        self.statistics = ControllerStatistics()
        self.batch = BatchController(self.statistics)
        self.stops_early = stops_early
        self._drafters: dict[tuple[str, AcceptanceRule], Drafter] = {}

    def controller(self, wanted: Speculation, proposer: Proposer, sampler: Sampler) -> Controller:
        """For one request. One that measures chooses among the proposers that ``proposer`` has."""
        if wanted.control is Control.AUTO and isinstance(proposer, ChoosingProposer):
            recall, *autos = (
                Auto(wanted.deepest, self._of(name, sampler))
                for name in (proposer.recall_name, *proposer.members)
            )
            if autos:
                members = dict(zip(proposer.members, autos, strict=True))
                return Choice(members, (proposer.recall_name, recall))
        statistics = self._of(wanted.proposer, sampler)
        return controllers.create(wanted.control, wanted.deepest, statistics)

    def batch_member(
        self, wanted: Speculation, proposer: Proposer, sampler: Sampler
    ) -> BatchMember:
        """As ``controller``, for a request beside which others may run.

        One that may learn nothing from others drafts nothing beside them: what it draws may be what they
        drew, and how far it drafts would follow from how theirs stood.
        """
        return BatchMember(
            self.controller(wanted, proposer, sampler),
            self._of(wanted.proposer, sampler),
            self.batch,
            wanted.deepest,
            measures=wanted.control is Control.AUTO,
            may_draft=sampler.may_use_history,
        )

    def drafter(self, proposer: str, rule: AcceptanceRule) -> Drafter:
        """What was learnt of a proposer under a rule."""
        # Rules that weigh q ask for whole drafts: see drawing.py.
        stops_early = self.stops_early and not rule.weighs_q
        return self._drafters.setdefault((proposer, rule), Drafter(stops_early=stops_early))

    def _of(self, proposer: str, sampler: Sampler) -> ControllerStatistics:
        drafter = self.drafter(proposer, sampler.rule)
        if not sampler.may_use_history:
            drafter = Drafter(drafter.drafts, stops_early=drafter.stops_early)
        return self.statistics.of(drafter)
