"""Replay recorded replies on a simulated machine: the engine's loop, controllers and proposers, no model.

Rounds take the seconds of the machine with some noise. So the same code gives the same figures on any
computer, however busy.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.loop import RoundLoop, RoundOutput, StoppingCriteria
from engine.decoding.proposer import DraftProposal, Proposer
from engine.decoding.verifier import VerifierOutput
from engine.drafting import proposers
from engine.drafting.controllers.factory import ControllerFactory
from engine.drafting.controllers.warm_up import ROWS
from engine.drafting.proposers.best import BestProposer, HybridProposer
from engine.drafting.proposers.drawing import BaseProposer, Floors, above_floors
from engine.drafting.resources import Resources
from engine.events import Budget, Origin, Round, Timing
from engine.request import Speculation
from engine.values import MAX_DEPTH
from engine.values.sampling import AcceptanceRule
from tools.drafts.record import Draft, Text

_NOISE = 0.04
_CATCH_UP = 0.05
"""What reading a token that it missed takes a drafter, in drafted tokens."""
_LOOK_UP = 0.0015
"""What drafting from past text takes, in plain rounds."""


@dataclass(frozen=True, slots=True)
class Machine:
    """``verify_s``: seconds of a pass of 1, 2, ... rows. ``token_s``: of a drafted token, by drafter."""

    verify_s: Sequence[float]
    token_s: Mapping[str, float]

    @classmethod
    def of(cls, ratios: Mapping[int, float], token: float, plain_s: float = 0.027) -> Machine:
        """Return a machine from T(rows)/T(1), interpolated, and from a draft's token over T(1)."""
        known = sorted(ratios.items())
        seconds = []
        for rows in range(1, known[-1][0] + 1):
            (low, least), (high, most) = next(
                pair for pair in pairwise(known) if rows <= pair[1][0]
            )
            seconds.append(plain_s * (least + (most - least) * (rows - low) / (high - low)))
        return cls(seconds, {"draft": token * plain_s})


QUIET = Machine.of({1: 1, 2: 1.09, 4: 1.37, 8: 1.84, 16: 2.68}, 0.31)
"""Qwen2.5-Coder 1.5B and 0.5B, four bits, two quiet cores of Zen 5 (docs/log/controllers.md)."""

FIXED = (
    *(("draft", depth) for depth in (1, 2, 3, 4, 5, 6, 8)),
    *(("ngram", depth) for depth in (3, 7)),
    ("suffix", MAX_DEPTH),
    ("hybrid", MAX_DEPTH),
)
"""Settings that drafting is compared with: proposers and their depths."""


class Recorded(BaseProposer):
    """Drafts as the recording says. ``steps``: the tokens drafted, with those that were left out."""

    def __init__(self, drafts: Sequence[Draft], reply: Sequence[int]) -> None:
        self._drafts, self._reply = drafts, reply
        self._read = 0
        self.steps = 0.0

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        place = context.generated
        agreed, q = self._drafts[place]
        q = q[: budget.depth]
        floors = Floors(budget.floor, budget.row_floor)
        drafted = next((n for n in range(1, len(q)) if floors.ended(q[:n])), len(q))
        right = self._reply[place : place + agreed]
        tokens = [*right, *(-1 for _ in q[agreed:])][:drafted]
        self.steps += drafted + (_CATCH_UP * min(place - self._read, 16) if drafted else 0)
        self._read = place if drafted else self._read
        return above_floors(tokens, list(q[:drafted]), floors)


@dataclass(slots=True)
class _Launcher:
    """Verifies with the recorded reply."""

    text: Text
    machine: Machine
    context: Context
    proposer: Proposer
    members: Mapping[str, Recorded]
    chance: random.Random
    ahead: int = 0
    work: None = None
    seconds: float = 0.0
    _output: RoundOutput | None = None

    def launch(self, budget: Budget, started: float) -> bool:
        for member in self.members.values():
            member.steps = 0.0
        self._output = self._verified(budget, self.proposer.propose(self.context, budget))
        return True

    def read(self) -> RoundOutput:
        assert self._output is not None
        return self._output

    def commit(self, output: RoundOutput) -> Timing:
        self.proposer.observe(output.verifier_output.acceptance)
        rows = len(output.proposal.tree)
        draft = sum(
            member.steps * self.machine.token_s[name] for name, member in self.members.items()
        )
        draft += _LOOK_UP * self.machine.verify_s[0]
        draft, verify = draft * self._jitter(), self.machine.verify_s[rows] * self._jitter()
        self.seconds += draft + verify
        return Timing(draft, verify, draft + verify)

    def close(self) -> None: ...

    def _verified(self, budget: Budget, proposal: DraftProposal) -> RoundOutput:
        wanted = self.text.reply[self.context.generated :]
        pairs = zip(proposal.tree.tokens, wanted[:-1], strict=False)
        accepted = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        origin = Origin.BONUS if accepted == len(proposal.tree) else Origin.CORRECTION
        acceptance = Acceptance(tuple(range(accepted)), wanted[accepted], origin)
        unknown = (None,) * len(proposal.tree)
        return RoundOutput(budget, proposal, VerifierOutput(acceptance, unknown, 1.0))

    def _jitter(self) -> float:
        return 1 + _NOISE * self.chance.gauss(0, 1)


@dataclass(slots=True)
class Player:
    """Answers one text after the other with one engine's statistics and past replies."""

    speculation: Speculation
    machine: Machine
    chance: random.Random
    factory: ControllerFactory = field(default_factory=lambda: ControllerFactory(clock=lambda: 0.0))
    on_round: Callable[[Round], None] = lambda round: None
    _proposer: Any = None

    def __post_init__(self) -> None:
        for rows in ROWS:
            self.factory.costs.verify.learn(rows, self.machine.verify_s[rows - 1])

    def play(self, text: Text) -> float:
        """Return the seconds that the reply takes."""
        context = Context(text.prompt)
        members = {name: Recorded(each, text.reply) for name, each in text.drafts.items()}
        members = {name: each for name, each in members.items() if name in self.machine.token_s}
        proposer = self._of(members)
        sampler: Any = SimpleNamespace(
            rule=AcceptanceRule.COUPLED if text.temperature else AcceptanceRule.GREEDY,
            may_use_history=True,
        )
        proposer.begin(context, sampler)
        for _ in proposer.prepare(context):
            pass
        controller = self.factory.controller(self.speculation, proposer, sampler)
        launcher = _Launcher(text, self.machine, context, proposer, members, self.chance)
        stopping = StoppingCriteria(len(text.reply), ())
        rounds = RoundLoop(context, launcher, controller, stopping, self.speculation.proposer)
        while not rounds.ended:
            rounds.launch()
            self.on_round(rounds.finish())
        assert tuple(context.output) == tuple(text.reply)
        return launcher.seconds

    def _of(self, members: Mapping[str, Recorded]) -> Any:
        """Return the proposer; it remembers the replies before."""
        name = self.speculation.proposer
        if name in members:
            return members[name]
        if self._proposer is None and name == "hybrid":
            with patch.object(proposers, "create"):
                self._proposer = HybridProposer(HybridProposer.Options(), Resources())
        elif self._proposer is None:
            self._proposer = proposers.create(name, {}, Resources())
        if isinstance(self._proposer, BestProposer):
            self._proposer.members = dict(members)
            self._proposer._preferred = proposers.preferred(members)
        elif isinstance(self._proposer, HybridProposer):
            self._proposer.neural = members[self._proposer.neural_name]
        return self._proposer


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens of replies of one kind, and the seconds that they took, with the slowest against plain."""

    tokens: int
    seconds: float
    plain_s: float
    slowest: float

    @property
    def speedup(self) -> float:
        return self.plain_s / self.seconds


def replay(
    texts: Sequence[Text],
    speculation: Speculation,
    machine: Machine,
    *,
    cold: bool = False,
    seeds: int = 3,
) -> dict[str, Speed]:
    """Return speeds by kind, and of "all". ``cold``: each reply is the first after a load; else replies
    follow one another in changing order, after one that does not count."""
    found: dict[str, list[tuple[int, float, float]]] = {"all": []}
    for seed in range(seeds):
        chance = random.Random(seed)
        order = list(texts)
        chance.shuffle(order)
        player = Player(speculation, machine, chance)
        if not cold:
            player.play(order[-1])
        for text in order:
            if cold:
                player = Player(speculation, machine, chance)
            elif text is order[-1]:  # its reply must not be found in past replies
                player = Player(speculation, machine, chance)
                player.play(order[0])
            one = len(text.reply), player.play(text), len(text.reply) * machine.verify_s[0]
            found["all"].append(one)
            found.setdefault(text.kind, []).append(one)
    return {
        kind: Speed(
            sum(each[0] for each in ones),
            sum(each[1] for each in ones),
            sum(each[2] for each in ones),
            min(each[2] / each[1] for each in ones),
        )
        for kind, ones in found.items()
    }
