"""The loop whose rounds run ahead of it, on a device that is a script: nothing is lost, nothing is shown
that was not asked for, and at most one round is computed for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decoding.context import Context
from engine.decoding.device import DeviceLauncher, deepest
from engine.decoding.loop import StoppingCriteria
from engine.decoding.proposer import DeviceDrafting
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting.draft_reader import SameVocabulary
from engine.drafting.proposers.draft import DraftModelProposer
from engine.drafting.proposers.none import NoneProposer
from engine.drafting.resources import Resources
from engine.events import Budget, Origin, Round
from engine.values import MAX_DEPTH, RoundResult
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.decoding import decode
from tests.support.fakes import Scripted, TableModel

VOCABULARY = 7
EOS = 0
DEPTHS = (0, 1, 2, 3, 5, 7, 15)


@dataclass
class Device:
    """Says ``text`` whatever is drafted; what is drafted agrees where ``agrees`` says.

    ``valid`` counts the text's tokens in the draft's cache, as a real one would hold them.
    """

    text: list[int]
    agrees: list[bool]
    at: int
    valid: int = 0
    launched: int = 0
    unread: int = 0

    depths = DEPTHS
    chain: Sequence[int] = ()

    def begin(
        self,
        sampling: Sampling,
        rule: AcceptanceRule,
        seed: int,
        tokens: Sequence[int],
        prompt_length: int,
        bias: Sequence[tuple[int, float]] = (),
        top_tokens: int = 0,
    ) -> None:
        assert tokens == self.text[: self.at] and prompt_length == self.at

    def drafted(self, at: int, depth: int) -> tuple[int, ...]:
        places = range(at, at + depth)
        return tuple((self.text[i] + (not self.agrees[i])) % VOCABULARY for i in places)

    def put(self, drafted: Sequence[int], q: Any, parents: Any = None) -> None:
        self.chain = drafted

    def launch(
        self, depth: int, *, drafts: bool = False, sampled: bool = False, masked: bool = False,
        tree: bool = False, levels: int = 0, logits: Any = None,
    ) -> Any:  # fmt: skip
        assert not (masked or tree or levels) and logits is None
        assert depth in DEPTHS
        self.launched += 1
        self.unread += 1
        assert self.unread <= 2
        chain = tuple(self.chain)
        if drafts:
            assert self.at >= 2 and self.valid >= self.at - 2, "the draft has not read the text"
            chain = self.drafted(self.at, depth)
        chain = chain[:depth]
        behind = self.text[self.at :]
        count = next((i for i, x in enumerate(chain) if x != behind[i]), depth)
        before, self.at = self.at, self.at + count + 1
        if drafts:
            self.valid = min(before + depth - 1, self.at - 1)
        p = (0.5,) * depth
        parents = tuple(range(-1, depth - 1))
        result = RoundResult(count, tuple(behind[: count + 1]), chain, parents, p, p, 0.5, 1.0, 3.0)
        return SimpleNamespace(read=lambda: self.read(result))

    def read(self, result: RoundResult) -> RoundResult:
        self.unread -= 1
        return result


class Counted(SameVocabulary):
    """A draft whose tokens are counted by the device above."""

    def __init__(self, device: Device, context: int) -> None:
        super().__init__(TableModel(lambda tokens: [0.0] * VOCABULARY, VOCABULARY, context=context))
        self.device = device
        # An attribute of the instance: the model of this test runs no rounds itself.
        self.drafter = SimpleNamespace(steps=MAX_DEPTH, context=context)  # type: ignore[assignment]

    def set_tokens(self, keys: Sequence[int]) -> None:
        self.state.tokens[:] = keys  # type: ignore[attr-defined]
        super().set_tokens(keys)
        self.device.valid = len(keys)

    def prepare(self, context: Context) -> Any:
        yield from super().prepare(context)
        assert self.tokens == context.tokens[: len(self.tokens)]
        self.device.valid = len(self.tokens)


class OnDevice(DraftModelProposer):
    """Drafts with it."""

    def __init__(self, device: Device, context: int) -> None:
        self.reader: Counted = Counted(device, context)

    def device_drafting(self) -> DeviceDrafting:
        return DeviceDrafting(self.reader)

    @property
    def tokens(self) -> list[int]:
        return self.reader.tokens


class There(Target):
    """A target whose rounds the device runs; only its lengths are looked at."""

    def __init__(self, device: Device) -> None:
        super().__init__(TableModel(lambda tokens: [0.0] * VOCABULARY, VOCABULARY, context=200))
        self.device = device
        self.extend(device.text[: device.at - 1])

    def round_runner(self, drafter: Any) -> Any:
        return self.device

    def advance(self, tokens: Sequence[int]) -> None:
        self.state.tokens[:] = [*self.keys, *tokens]  # type: ignore[attr-defined]
        super().advance(tokens)


class Wanting:
    """A controller that wants what it was told, round by round, and sees rounds in order."""

    def __init__(self, depths: list[int]) -> None:
        self.depths, self.asked, self.seen = depths, 0, 0

    def budget(self) -> Budget:
        depth = self.depths[self.asked % len(self.depths)]
        self.asked += 1
        return Budget(depth, depth)

    def observe(self, round: Round) -> None:
        assert round.index == self.seen
        self.seen += 1


def right(device: Device, at: int, depth: int) -> int:
    """How many of ``depth`` tokens drafted behind ``at`` of the text are right."""
    return next((n for n in range(depth) if not device.agrees[at + n]), depth)


texts = st.lists(st.integers(0, VOCABULARY - 1), min_size=90, max_size=90)
depths = st.lists(st.sampled_from([0, 1, 2, 4, 6, MAX_DEPTH]), min_size=1, max_size=5)


@given(
    text=texts,
    agrees=st.lists(st.booleans(), min_size=90, max_size=90),
    wanted=depths,
    prompt=st.integers(1, 5),
    limit=st.integers(1, 40),
    eos=st.booleans(),
    who=st.sampled_from(["draft", "host", "none"]),
    draft_context=st.sampled_from([4, 16, 200]),
    stop_after=st.none() | st.integers(1, 6),
)
def test_rounds_say_the_text_and_no_more(
    text: list[int], agrees: list[bool], wanted: list[int], prompt: int, limit: int, eos: bool,
    who: str, draft_context: int, stop_after: int | None,
) -> None:  # fmt: skip
    device = Device(text, agrees, prompt)
    context = Context(text[:prompt])
    sampler = Sampler(Sampling(), AcceptanceRule.GREEDY, 0, context, VOCABULARY)
    proposer: Any = NoneProposer(NoneProposer.Options(), Resources())
    if who == "draft":
        proposer = OnDevice(device, draft_context)
    elif who == "host":
        proposer = Scripted(lambda tokens, depth: device.drafted(len(tokens), min(depth, 9)))
    proposer.begin(context, sampler)
    list(proposer.prepare(context))
    target = There(device)
    launcher = DeviceLauncher(context, target, proposer, sampler)
    controller = Wanting(wanted)
    loop = decode(
        context, launcher, controller, StoppingCriteria(limit, (EOS,) if eos else ()), who
    )
    rounds: list[Round] = []
    for round in loop:
        behind = len(context.tokens) - round.emitted
        assert len(round.accepted_path) == right(device, behind, len(round.tree))
        rounds.append(round)
        if len(rounds) == stop_after:
            loop.close()
    said = [token for round in rounds for token in round.tokens[: round.emitted]]
    expected = text[prompt : prompt + limit]
    if eos and EOS in expected:
        expected = expected[: expected.index(EOS) + 1]
    assert said == (expected if stop_after is None else expected[: len(said)])
    assert context.tokens == [*text[:prompt], *said]
    assert target.keys == context.tokens[:-1] and target.state.length == target.length
    assert all(round.emitted == len(round.tokens) for round in rounds[:-1])
    assert device.launched - len(rounds) <= (0 if who == "host" else 1)
    assert controller.seen in (len(rounds), len(rounds) - 1)  # closed before or behind the last
    if who == "draft":
        assert proposer.tokens == context.tokens[: len(proposer.tokens)]


@pytest.mark.parametrize("who", ["draft", "host"])
def test_of_what_is_drafted_some_stands_and_some_falls(who: str) -> None:
    """Else the test above, whose texts are drawn, might look at empty drafts alone."""
    device = Device(list(range(7)) * 10, [True, True, False, True, True] * 16, 2)
    context = Context(device.text[:2])
    sampler = Sampler(Sampling(), AcceptanceRule.GREEDY, 0, context, VOCABULARY)
    proposer: Any = OnDevice(device, 200)
    if who == "host":
        proposer = Scripted(lambda tokens, depth: device.drafted(len(tokens), depth))
    proposer.begin(context, sampler)
    list(proposer.prepare(context))
    launcher = DeviceLauncher(context, There(device), proposer, sampler)
    rounds = list(decode(context, launcher, Wanting([3]), StoppingCriteria(30, ()), who))
    drafted = sum(len(round.tree) for round in rounds)
    assert 0 < sum(len(round.accepted_path) for round in rounds) < drafted
    assert {round.origin for round in rounds} == {Origin.CORRECTION, Origin.BONUS}


def test_a_round_tells_what_was_judged() -> None:
    """Two of four tokens stand; behind the first rejected one the target's p means nothing."""
    device = Device(list(range(1, 7)) * 4, [True] * 4 + [False] * 20, 2)
    context = Context(device.text[:2])
    sampler = Sampler(Sampling(), AcceptanceRule.GREEDY, 0, context, VOCABULARY)
    proposer = OnDevice(device, 50)
    proposer.begin(context, sampler)
    list(proposer.prepare(context))
    launcher = DeviceLauncher(context, There(device), proposer, sampler)
    loop = decode(context, launcher, Wanting([5]), StoppingCriteria(9, ()), "draft")
    first = next(loop)
    assert first.accepted_path == (0, 1) and first.tokens == (3, 4, 5)
    assert first.p == (0.5, 0.5, 0.5, None, None)
    assert first.origin is Origin.CORRECTION
    took = first.timing
    assert took.verify_s == 2.0 and took.draft_s >= 1.0
    assert took.total_s == pytest.approx(took.draft_s + took.verify_s)


@pytest.mark.parametrize("limit", range(MAX_DEPTH + 1))
def test_a_depth_is_one_that_has_a_graph(limit: int) -> None:
    depth = deepest(Device([], [], 0), limit)
    assert depth in DEPTHS
    assert depth <= limit and not any(depth < other <= limit for other in DEPTHS)
