"""Drafts that end where they are unlikely: the beginning of what would be drafted otherwise, no other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, chain
from operator import mul

import pytest

from engine.bench.prompts import read
from engine.decoding.context import Context
from engine.decoding.host import HostLauncher
from engine.decoding.loop import StoppingCriteria
from engine.decoding.proposer import DraftProposal, Proposer
from engine.decoding.sampling import Sampler
from engine.decoding.verifier import Verifier
from engine.drafting import proposers
from engine.events import Budget, Round
from engine.local.session import Session
from engine.request import Request
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.checkpoints import open_session
from tests.support.decoding import decode
from tests.support.heads import IN_FOLDERS, heads_of_pip
from tests.support.pairwise import all_pairs
from tests.support.places import PIP

SAMPLINGS = {
    "greedy": (Sampling(temperature=0), AcceptanceRule.GREEDY),
    "coupled": (Sampling(temperature=0.8), AcceptanceRule.COUPLED),
    "coupled, cut and penalised": (
        Sampling(temperature=0.8, top_p=0.9, presence_penalty=0.3),
        AcceptanceRule.COUPLED,
    ),
}
PROMPTS = [prompt.turns[0] for prompt in read() if prompt.turns][::20]


STEPS = ("compiled", "interpreted")
NEURAL = tuple(name for name in proposers.neural() if name in IN_FOLDERS)


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest) -> Session:
    heads = heads_of_pip()
    native = request.param == "compiled"
    return open_session(PIP / "target", PIP / "draft", heads=heads, native=native)


class Floors:
    """Another depth and floor in every round."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def budget(self) -> Budget:
        depth, row_floor = self.chance.randint(1, 15), self.chance.choice((0.0, 0.05, 0.3))
        floor = self.chance.choice((0.0, 0.3, 0.6, 0.9)) or row_floor
        return Budget(depth, 15, floor=floor, row_floor=row_floor)

    def observe(self, round: Round) -> None: ...


class Compared:
    """Drafts with one, and compares it with another of its kind that has no floor."""

    needs = frozenset[str]()

    def __init__(self, cut: Proposer, whole: Proposer) -> None:
        self.cut, self.whole = cut, whole
        self.ended = 0

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler
        self.cut.begin(context, sampler)
        self.whole.begin(context, sampler)

    def prepare(self, context: Context) -> Iterator[int]:
        return chain(self.cut.prepare(context), self.whole.prepare(context))

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        proposal = self.cut.propose(context, budget)
        whole = self.whole.propose(context, replace(budget, floor=0.0, row_floor=0.0))
        if self.sampler.rule.weighs_q:
            assert proposal.tree == whole.tree
            return proposal
        together = list(accumulate((q for q in whole.chosen_q if q is not None), mul))
        # Single and double precision may take the very threshold for either side of it.
        count = len(proposal.tree)
        assert _counted(together, budget, 1.0001) <= count <= _counted(together, budget, 0.9999)
        assert proposal.tree.tokens == whole.tree.tokens[:count]
        assert proposal.chosen_q == pytest.approx(whole.chosen_q[:count], abs=1e-6)
        self.ended += count < len(whole.tree)
        return proposal

    def observe(self, acceptance: object) -> None:
        self.cut.observe(acceptance)  # type: ignore[arg-type]
        self.whole.observe(acceptance)  # type: ignore[arg-type]

    def close(self) -> None: ...


def _counted(together: list[float], budget: Budget, stricter: float) -> int:
    """How many tokens count by a budget whose floors are so much stricter."""
    goes_on = sum(p >= stricter * budget.floor for p in together)
    return sum(p >= stricter * budget.row_floor for p in together[: goes_on + 1])


def answer(
    session: Session, proposer: Proposer, text: str, how: tuple[Sampling, AcceptanceRule]
) -> list[Round]:
    sampling, rule = how
    request = Request(messages=(Message("user", text),), sampling=sampling)
    context, target = Context(session.encode(request)), session.target
    target.clear()
    target.extend(context.tokens[:-1])
    vocabulary = target.model.info.vocabulary
    sampler = Sampler(sampling, rule, 7, context, vocabulary, native_step=session.native)
    proposer.begin(context, sampler)
    for _ in proposer.prepare(context):
        pass
    ending = StoppingCriteria(24, target.model.info.eos)
    launcher = HostLauncher(context, target, proposer, Verifier(sampler))
    return list(decode(context, launcher, Floors(len(text)), ending, "it"))


@pytest.mark.parametrize(
    ("session", "name", "how"),
    all_pairs(STEPS, NEURAL, tuple(SAMPLINGS)),
    indirect=["session"],
)
def test_a_draft_that_ends_is_the_beginning_of_the_whole_one(
    session: Session, name: str, how: str
) -> None:
    """After it too: what was drafted and did not count has left nothing behind. torch's step takes
    seconds where the compiled one takes one: two prompts are enough for it to end drafts."""
    compared = Compared(*(proposers.create(name, {}, session.resources) for _ in range(2)))
    for text in PROMPTS if session.native else PROMPTS[:2]:
        answer(session, compared, text, SAMPLINGS[how])
    assert compared.ended


@pytest.mark.parametrize(
    ("session", "name", "rule"),
    all_pairs(STEPS, NEURAL, (AcceptanceRule.REJECTION, AcceptanceRule.BLOCK)),
    indirect=["session"],
)
def test_where_q_is_weighed_no_token_decides_whether_it_is_drafted(
    session: Session, name: str, rule: AcceptanceRule
) -> None:
    """A token that is only drafted where it is likely is not drawn from q."""
    compared = Compared(*(proposers.create(name, {}, session.resources) for _ in range(2)))
    for text in PROMPTS[:1]:
        answer(session, compared, text, (Sampling(temperature=1.0), rule))
    assert not compared.ended
