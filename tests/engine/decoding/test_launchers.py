"""What holds wherever rounds run: every proposer on the host, and on a device that is a table."""

from __future__ import annotations

import functools
import random
from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import pytest

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.device import DeviceLauncher
from engine.decoding.host import HostLauncher
from engine.decoding.loop import Launcher, RoundLoop, StoppingCriteria
from engine.decoding.proposer import Proposer, RoundProposer
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.verifier import Verifier
from engine.decoding.work import VerifyWork
from engine.drafting import proposers
from engine.drafting.controllers.factory import ControllerFactory
from engine.drafting.resources import DRAFT, Resources
from engine.events import Round
from engine.models.base import TreeModel
from engine.request import PLAIN, Control, Speculation
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.decoding.test_loop import GREEDY, PROMPT, VOCABULARY, draft_table, heads, table
from tests.support.decoding import decode
from tests.support.fakes import TableModel
from tests.support.lossless import tree_options
from tests.support.rounds import RoundTable, TableRounds

COUPLED = Sampling(temperature=1.0, seed=5, repetition_penalty=1.2)
LENGTH = 40
KINDS = {"host": TableModel, "device": RoundTable}
everywhere = pytest.mark.parametrize("where", KINDS)
everybody = pytest.mark.parametrize("name", proposers.names())


class Watch:
    """A controller that forwards to another, and notes what it is asked and told."""

    def __init__(self, controller: Any) -> None:
        self.controller = controller
        self.observed: list[Round] = []

    def budget(self) -> Any:
        return self.controller.budget()

    def observe(self, round: Round) -> None:
        self.observed.append(round)
        self.controller.observe(round)


class Beside:
    """Other requests, which come and go between rounds, and the passes for all."""

    def __init__(self, chance: random.Random | None) -> None:
        self.chance, self.here = chance, False

    def is_alone(self) -> bool:
        return not self.here

    def decode(self, rounds: RoundLoop) -> Generator[Round]:
        """Yield the rounds. A pass computes most of those beside others; of the rest it failed."""
        assert self.chance is not None
        with closing(rounds):
            while not rounds.ended:
                self.here = self.chance.random() < 0.6
                work = rounds.launch()
                assert work is None or self.here
                if isinstance(work, VerifyWork) and self.chance.random() < 0.8:
                    part = work.entry()
                    model, rows = work.target.model, len(part.tokens)
                    if part.parents is None:
                        logits = model.forward(part.tokens, part.state, last=rows, final=False)
                    else:
                        assert isinstance(model, TreeModel)
                        logits = model.forward_tree(part.tokens, part.parents, part.state)
                    work.finish(logits, perf_counter())
                yield rounds.finish()


@dataclass
class Pair:
    """A target and a proposer that several requests share, as a session's do."""

    target: Target
    proposer: Proposer
    name: str
    observed: list[Acceptance]

    @classmethod
    def load(
        cls,
        where: str,
        name: str,
        context: int = 64,
        draft_context: int = 64,
        options: dict[str, Any] | None = None,
    ) -> Pair:
        draft = KINDS[where](draft_table, VOCABULARY, context=draft_context)
        known = Resources(draft=draft, heads=heads())
        target = Target(KINDS[where](table, VOCABULARY, context=context), known.aux_layers)
        assert target.runs_rounds == (where == "device")
        proposer = proposers.create(name, options or {}, replace(known, backbone=target))
        observed: list[Acceptance] = []
        observe = proposer.observe

        def noting(acceptance: Acceptance) -> None:
            observed.append(acceptance)
            observe(acceptance)

        proposer.observe = noting  # type: ignore[method-assign]
        return cls(target, proposer, name, observed)

    def reply(
        self,
        prompt: Sequence[int] = PROMPT,
        sampling: Sampling = GREEDY,
        *,
        limit: int = 16,
        depth: int = 4,
        control: Control = Control.FIXED,
        eos: Collection[int] = (),
        stop_after: int | None = None,
        others: random.Random | None = None,
    ) -> tuple[Context, list[Round]]:
        """Checks what holds of every reply. ``others``: by it others come and go on a device."""
        context, target, proposer = Context(prompt), self.target, self.proposer
        rule = AcceptanceRule.COUPLED if sampling.temperature else AcceptanceRule.GREEDY
        sampler = Sampler(sampling, rule, sampling.seed or 0, context, VOCABULARY)
        proposer.begin(context, sampler)
        reused = target.reuse(context.tokens[:-1])
        target.extend(context.tokens[reused:-1])
        for _ in proposer.prepare(context):
            pass
        wanted = Speculation(proposer=self.name, depth=depth, controller=control)
        factory = ControllerFactory(stops_early=not target.runs_rounds)
        controller = Watch(factory.controller(wanted, proposer, sampler))
        launcher: Launcher
        if target.runs_rounds:
            beside = Beside(others)
            launcher = DeviceLauncher(context, target, proposer, sampler, is_alone=beside.is_alone)
        else:
            launcher = HostLauncher(context, target, proposer, Verifier(sampler))
        self.observed.clear()
        rounds: list[Round] = []
        stopping = StoppingCriteria(limit, eos)
        if others is None:
            loop = decode(context, launcher, controller, stopping, self.name)
        else:
            loop = beside.decode(RoundLoop(context, launcher, controller, stopping, self.name))
        for round in loop:
            rounds.append(round)
            # Whoever learns has learnt of this round, and of none behind it.
            assert controller.observed == rounds
            assert [each.path for each in self.observed] == [each.accepted_path for each in rounds]
            said = [token for each in rounds for token in each.tokens[: each.emitted]]
            assert context.tokens == [*prompt, *said]
            assert len(said) <= limit
            assert round.budget.needed == ()
            if stop_after == len(rounds):
                loop.close()
        assert target.keys == context.tokens[:-1]
        assert target.state.tokens == target.keys  # type: ignore[attr-defined]
        if target.runs_rounds:
            runner = target.round_runner(None)
            assert isinstance(runner, TableRounds)
            ahead = isinstance(proposer, RoundProposer) and proposer.device_drafting() is not None
            assert 0 <= runner.launched - len(rounds) <= ahead
        return context, rounds


@functools.cache
def plain(sampling: Sampling, limit: int = 16) -> list[int]:
    """What is said without drafts; not to be changed."""
    return Pair.load("host", "none").reply(sampling=sampling, limit=limit)[0].output


@everywhere
@everybody
def test_the_words_are_those_of_none(where: str, name: str) -> None:
    """At several depths and under every controller, one after the other: what one text left is no
    harm. On the host ``test_loop.py`` has greedy ones too, from an empty cache."""
    drafted = accepted = 0
    for sampling in (GREEDY, COUPLED) if where == "device" else (COUPLED,):
        pair, expected = Pair.load(where, name), plain(sampling, LENGTH)
        for depth, control in ((1, Control.FIXED), (5, Control.FIXED), (4, Control.AUTO)):
            context, rounds = pair.reply(
                sampling=sampling, depth=depth, control=control, limit=LENGTH
            )
            assert context.output == expected, (sampling, depth, control)
            if control is Control.FIXED:
                assert all(round.tree.depth <= round.budget.depth <= depth for round in rounds)
            drafted += sum(len(round.tree) for round in rounds)
            accepted += sum(len(round.accepted_path) for round in rounds)
    # Else the same words would say nothing of drafts.
    assert 0 < accepted < drafted if name != PLAIN else drafted == 0


@everybody
def test_beside_others_a_device_says_the_same(name: str) -> None:
    """Greedy and drawn, while others come and go; replies may be left between any two rounds."""
    for seed, sampling in enumerate((GREEDY, COUPLED)):
        pair, chance = Pair.load("device", name), random.Random(seed)
        context, _ = pair.reply(sampling=sampling, limit=LENGTH, others=chance)
        assert context.output == plain(sampling, LENGTH)
        context, _ = pair.reply(sampling=sampling, stop_after=3, others=chance)
        assert context.output == plain(sampling, LENGTH)[: context.generated]


@everywhere
@everybody
def test_a_reply_that_is_left_leaves_what_was_shown(where: str, name: str) -> None:
    """Between any two rounds; and a follow-up that goes on from there says what a fresh one does."""
    pair, expected = Pair.load(where, name), plain(GREEDY)
    for stop_after in (1, 2, 3):
        context, rounds = pair.reply(stop_after=stop_after)
        assert len(rounds) <= stop_after
        assert context.output == expected[: context.generated]
        left = len(expected) - context.generated
        again, _ = pair.reply(context.tokens, limit=max(left, 1))
        assert again.output == expected[context.generated :][: max(left, 1)] or not left


@everywhere
@everybody
def test_a_reply_ends_where_it_should(where: str, name: str) -> None:
    """At a limit, whatever runs ahead of it; at an end of text, within a round too."""
    pair, expected = Pair.load(where, name), plain(GREEDY)
    for limit in (1, 5):
        context, rounds = pair.reply(limit=limit, depth=5)
        assert context.output == expected[:limit]
        assert all(round.emitted == len(round.tokens) for round in rounds[:-1])
    end = expected[7]
    context, _ = pair.reply(eos={end}, depth=5)
    assert context.output == expected[: expected.index(end) + 1]


@everybody
def test_the_end_of_a_context_is_no_trouble_on_a_device(name: str) -> None:
    """The draft's ends before the target's. ``test_loop.py`` has it for the host."""
    pair = Pair.load("device", name, context=len(PROMPT) + 16, draft_context=len(PROMPT) + 9)
    assert pair.reply(depth=5)[0].output == plain(GREEDY)


@everywhere
@pytest.mark.parametrize("control", [Control.FIXED, Control.AUTO])
def test_who_drafted_is_told(where: str, control: Control) -> None:
    """By ``best`` too, and where it may choose, its controller says who is to draft."""
    pair = Pair.load(where, "best")
    members = {"suffix", *proposers.neural()}
    _, rounds = pair.reply(limit=40, control=control)
    drafted = [round for round in rounds if round.tree.tokens]
    assert drafted and all(round.proposer in members for round in drafted)
    assert all((round.budget.proposer is not None) == (control is Control.AUTO) for round in rounds)


@pytest.mark.parametrize("nodes", [0, 7])
@everybody
def test_who_drafts_on_the_host_has_the_same_rounds_everywhere(name: str, nodes: int) -> None:
    """Chains and trees, but for what the device's clock says. A device's own rounds run ahead."""
    options = tree_options(name, nodes)
    if nodes and not options:
        return
    pairs = [Pair.load(where, name, options=options) for where in KINDS]
    if name in (PLAIN, DRAFT):
        assert isinstance(pairs[0].proposer, RoundProposer)
        return
    here, there = (
        [
            (round.proposer, round.tree, round.accepted_path, round.next_token, round.origin)
            for round in pair.reply((*PROMPT, *PROMPT), COUPLED, depth=5)[1]
        ]
        for pair in pairs
    )
    assert here == there
    assert any(not tree.is_chain for _, tree, *_ in here) == bool(nodes)
    assert any(path != tuple(range(len(path))) for _, _, path, *_ in here) == bool(nodes)


@pytest.mark.parametrize("name", [name for name in proposers.names() if tree_options(name, 1)])
def test_trees_beside_others_change_no_words(name: str) -> None:
    for seed, sampling in enumerate((GREEDY, COUPLED)):
        pair = Pair.load("device", name, options=tree_options(name, 7))
        context, rounds = pair.reply(sampling=sampling, limit=LENGTH, others=random.Random(seed))
        assert context.output == plain(sampling, LENGTH)
        assert any(not round.tree.is_chain for round in rounds)


def test_two_runners_of_a_text_are_kept() -> None:
    """Who drafts in two ways in turn captures each once; and rounds without a draft take any runner."""
    target = Target(RoundTable(lambda tokens: [0.0] * 8, 8, context=20))
    model: Any = target.model
    one, other, third = (model.round_drafter(target.state) for _ in range(3))
    first = target.round_runner(None)
    runners = [target.round_runner(each) for each in (one, other)]
    assert len({id(each) for each in (first, *runners)}) == 3
    assert (
        first not in target._runners.values()
    )  # its memory is free: a drafter's serves its rounds too
    assert target.round_runner(one) is runners[0] is target.round_runner(None)
    assert target.round_runner(other) is runners[1]
    target.round_runner(third)
    assert target.round_runner(other) is runners[1]
    assert target.round_runner(one) is not runners[0]
    target.forget_runner(one)
    assert target.round_runner(None) is runners[1]
    target.forget_runner(other)
    assert target.round_runner(other) is not runners[1]
