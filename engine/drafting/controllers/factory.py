"""Create the controllers of a loaded target's requests; they start from earlier requests' statistics."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from engine.decoding.controller import Controller
from engine.decoding.proposer import ChoosingProposer, Proposer
from engine.decoding.sampling import Sampler
from engine.drafting.controllers.auto import Auto
from engine.drafting.controllers.batch import BatchController, BatchMember
from engine.drafting.controllers.proposer_statistics import ProposerStatistics
from engine.drafting.controllers.times import Costs, MixtureTimes, Times
from engine.events import Budget, Round
from engine.models.base import MixtureModel, Model
from engine.models.sizes.weight_counts import count_weights
from engine.request import Control, Speculation
from engine.values import MAX_DEPTH
from engine.values.sampling import AcceptanceRule


class Fixed:
    """Drafts the same depth every round, and learns nothing."""

    def __init__(self, depth: int) -> None:
        self._budget = Budget(depth, MAX_DEPTH if depth else 0)  # branches: what one pass verifies

    def budget(self) -> Budget:
        return self._budget

    def observe(self, round: Round) -> None: ...

    def skip_round(self) -> None: ...


class Off(Fixed):
    """Decodes plainly; the proposer reads along."""

    def __init__(self) -> None:
        super().__init__(0)


class ControllerFactory:
    """Keeps statistics by proposer and rule as long as the pair is loaded."""

    def __init__(
        self,
        model: Model | None = None,
        *,
        stops_early: bool = True,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """``model``: the target. ``stops_early``: whether drafts may (see ``Budget.floor``); in captured
        rounds they cannot."""
        self.costs = Costs(_times_of(model))
        self.batch = BatchController(self.costs)
        self.stops_early, self._clock = stops_early, clock
        self._proposers: dict[tuple[str, AcceptanceRule], ProposerStatistics] = {}

    def controller(
        self, speculation: Speculation, proposer: Proposer, sampler: Sampler
    ) -> Controller:
        """Return the controller of one request; ``auto`` chooses among the members of ``proposer``."""
        if speculation.control is Control.OFF:
            return Off()
        if speculation.control is Control.FIXED:
            return Fixed(speculation.deepest)
        names, recall = [speculation.proposer], None
        if isinstance(proposer, ChoosingProposer) and proposer.members:
            names = list(proposer.members)
            times = self._statistics(proposer.recall_name, sampler).draft_times
            recall = proposer.recall_name, times
        members = {name: self._statistics(name, sampler) for name in names}
        return Auto(speculation.deepest, self.costs, members, recall, self._clock)

    def batch_member(
        self,
        speculation: Speculation,
        proposer: Proposer,
        sampler: Sampler,
        *,
        within: bool = False,
    ) -> BatchMember:
        """Return the controller of a request beside which others may run.

        If it may not use history, it drafts nothing beside others: their draws may be its own, and its
        depth would depend on the acceptance of their drafts. Nor does it if it drafts ``within`` rounds
        on a device, which it has only alone.
        """
        return BatchMember(
            self.controller(speculation, proposer, sampler),
            self.batch,
            self._statistics(speculation.proposer, sampler),
            speculation.deepest,
            may_draft=sampler.may_use_history and not within,
        )

    def proposer_statistics(self, proposer: str, rule: AcceptanceRule) -> ProposerStatistics:
        """Return the statistics of a proposer under a rule."""
        # Rules that weigh q need whole drafts: see drawing.py.
        stops_early = self.stops_early and not rule.weighs_q
        statistics = ProposerStatistics(stops_early=stops_early)
        return self._proposers.setdefault((proposer, rule), statistics)

    def _statistics(self, proposer: str, sampler: Sampler) -> ProposerStatistics:
        statistics = self.proposer_statistics(proposer, sampler.rule)
        if sampler.may_use_history:
            return statistics
        return ProposerStatistics(statistics.draft_times, stops_early=statistics.stops_early)


def _times_of(model: Model | None) -> Times:
    """Return the times of verification by ``model``, none of which are known yet."""
    if isinstance(model, MixtureModel) and model.architecture.mixtures:
        share = count_weights(model.architecture).expert_share
        return MixtureTimes(share, model.experts_read)
    return Times(proportional=False)
