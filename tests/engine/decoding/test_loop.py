"""The loop, on fakes: one for every proposer, and its output is the target's own."""

from __future__ import annotations

import ast
import functools
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.context import Context
from engine.decoding.host import HostLauncher
from engine.decoding.loop import StoppingCriteria
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.verifier import Verifier
from engine.drafting import proposers
from engine.drafting.controllers.factory import ControllerFactory, Fixed
from engine.drafting.heads.base import Head
from engine.drafting.resources import Resources
from engine.events import Origin, Round, Tree
from engine.request import Control, Speculation
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.decoding import decode
from tests.support.fakes import Scripted, TableModel
from tests.support.heads import FakeShape, random_heads
from tests.support.pairwise import all_pairs
from tests.support.places import ROOT

VOCABULARY = 7
PROMPT = (1, 2, 3, 1, 2)
GREEDY = Sampling()
RULES = [
    GREEDY,
    Sampling(temperature=1.0, seed=5),
    Sampling(temperature=1.5, seed=6, top_p=0.9, repetition_penalty=1.2, frequency_penalty=0.3),
]


def table(tokens: Sequence[int], salt: int = 0) -> list[float]:
    """Logits that depend on the last two tokens; every other text has a clear favourite."""
    return list(_row(tuple(tokens[-2:]), salt))


@functools.cache
def _row(last: tuple[int, ...], salt: int) -> tuple[float, ...]:
    chance = random.Random(hash((*last, salt)))
    logits = [chance.gauss(0, 1) for _ in range(VOCABULARY)]
    logits[chance.randrange(VOCABULARY)] += 2.0
    return tuple(logits)


def draft_table(tokens: Sequence[int]) -> list[float]:
    """The target's table with some noise: right more often than not."""
    return [a + 0.7 * b for a, b in zip(table(tokens), table(tokens, 1), strict=True)]


@functools.cache
def heads() -> dict[str, Head]:
    """One of every kind, for the table."""
    return random_heads(FakeShape(TableModel.HIDDEN, VOCABULARY, TableModel.LAYERS))


def loaded(
    kind: type[TableModel], context: int = 64, draft_context: int = 64
) -> tuple[Target, Resources]:
    """The target, and what every proposer needs."""
    draft = kind(draft_table, VOCABULARY, context=draft_context)
    known = Resources(draft=draft, heads=heads())
    target = Target(kind(table, VOCABULARY, context=context), known.aux_layers)
    return target, replace(known, backbone=target)


@dataclass
class Run:
    """One generation on fakes, round by round."""

    context: Context
    target: Target
    rounds: list[Round]

    @property
    def output(self) -> list[int]:
        return self.context.output


def generate(
    proposer: Any,
    *,
    depth: int = 4,
    limit: int = 30,
    sampling: Sampling = GREEDY,
    rule: AcceptanceRule | None = None,
    eos: Collection[int] = (),
    stop_after: int | None = None,
    controller: Control = Control.FIXED,
    options: dict[str, Any] | None = None,
) -> Run:
    target, resources = loaded(TableModel)
    context = Context(PROMPT)
    target.extend(context.tokens[:-1])
    if rule is None:
        rule = AcceptanceRule.COUPLED if sampling.temperature else AcceptanceRule.GREEDY
    sampler = Sampler(sampling, rule, sampling.seed or 0, context, VOCABULARY)
    if isinstance(proposer, str):
        proposer = proposers.create(proposer, options or {}, resources)
    proposer.begin(context, sampler)
    wanted = Speculation(proposer="ngram", controller=controller, depth=depth)
    control = ControllerFactory().controller(wanted, proposer, sampler)
    launcher = HostLauncher(context, target, proposer, Verifier(sampler))
    rounds = decode(context, launcher, control, StoppingCriteria(limit, eos), "it")
    return Run(context, target, list(islice(rounds, stop_after)))


def oracle(tokens: Sequence[int], depth: int) -> list[int]:
    """Drafts what the greedy target will say."""
    text = list(tokens)
    for _ in range(depth):
        logits = table(text)
        text.append(logits.index(max(logits)))
    return text[len(tokens) :]


def contrary(tokens: Sequence[int], depth: int) -> list[int]:
    """Drafts what the greedy target will not say."""
    return [(token + 1) % VOCABULARY for token in oracle(tokens, depth)]


def test_the_engine_has_one_loop() -> None:
    """Whoever verifies drafts elsewhere has written a second one."""
    engine = ROOT / "engine"
    callers = {
        path.name
        for path in engine.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "verify"
        and "backends" not in path.parts  # a device's round verifies by a kernel
    }
    assert callers == {"work.py", "top_tokens.py"}  # the latter verifies no drafts: an empty tree


@functools.cache
def plain(sampling: Sampling, limit: int) -> tuple[int, ...]:
    """What is said without drafts."""
    return tuple(generate("none", sampling=sampling, limit=limit).output)


@pytest.mark.parametrize("name", proposers.names())
def test_every_proposer_at_every_third_depth_gives_the_output_of_none(name: str) -> None:
    """Over all proposers at each depth, with each of the samplings."""
    number = proposers.names().index(name)
    for depth in range(1 + number % 3, 16, 3):
        sampling = RULES[(number + depth) % len(RULES)]
        run = generate(name, depth=depth, sampling=sampling, limit=20)
        assert tuple(run.output) == plain(sampling, 20), (depth, sampling)
        assert len(run.output) == 20


CONTROLLED = all_pairs(proposers.names(), tuple(Control), RULES, (1, 4, 15))


@pytest.mark.parametrize("name", proposers.names())
def test_every_proposer_under_every_controller_gives_the_output_of_none(name: str) -> None:
    cases = [case[1:] for case in CONTROLLED if case[0] == name]
    assert {controller for controller, _, _ in cases} == set(Control)
    for controller, sampling, depth in cases:
        run = generate(name, depth=depth, sampling=sampling, controller=controller)
        assert tuple(run.output) == plain(sampling, 30), (controller, sampling, depth)
        assert max(len(turn.tree) for turn in run.rounds) <= depth


@settings(max_examples=40, deadline=None)
@given(
    drafts=st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=15), min_size=1, max_size=8),
    sampling=st.sampled_from(RULES),
    limit=st.integers(1, 25),
    eos=st.sets(st.integers(0, VOCABULARY - 1), max_size=2),
)
def test_no_draft_whatsoever_changes_the_output(
    drafts: list[list[int]], sampling: Sampling, limit: int, eos: set[int]
) -> None:
    scripted = Scripted(lambda tokens, depth: drafts[len(tokens) % len(drafts)])
    alone = generate("none", sampling=sampling, limit=limit, eos=eos)
    drafted = generate(scripted, depth=15, sampling=sampling, limit=limit, eos=eos)
    assert drafted.output == alone.output


@pytest.mark.parametrize("nodes", [1, 4, 15])
def test_medusas_trees_give_the_output_of_none(nodes: int) -> None:
    cases = [case[1:] for case in all_pairs((1, 4, 15), tuple(Control), RULES) if case[0] == nodes]
    for controller, sampling in [*cases, (Control.FIXED, GREEDY)]:
        run = generate(
            "medusa",
            depth=4,
            sampling=sampling,
            limit=20,
            controller=controller,
            options={"tree_nodes": nodes},
        )
        assert tuple(run.output) == plain(sampling, 20), (controller, sampling)
        assert all(len(turn.tree) <= nodes and turn.tree.depth <= 4 for turn in run.rounds)
        if controller is Control.FIXED and nodes == 15:
            assert any(not turn.tree.is_chain for turn in run.rounds)


def pruned(tree: Tree, depth: int) -> Tree:
    """Without what lies deeper than ``depth``."""
    kept = [node for node, at in enumerate(tree.depths) if at <= depth]
    number = {node: index for index, node in enumerate(kept)} | {-1: -1}
    return Tree(
        tuple(tree.tokens[node] for node in kept),
        tuple(number[tree.parents[node]] for node in kept),
    )


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    size = draw(st.integers(0, 15))
    parents = [draw(st.integers(max(-1, node - 4), node - 1)) for node in range(size)]
    tokens = st.lists(st.integers(0, VOCABULARY - 1), min_size=size, max_size=size)
    return Tree(tuple(draw(tokens)), tuple(parents))


@settings(max_examples=60, deadline=None)
@given(
    drafts=st.lists(trees(), min_size=1, max_size=8),
    sampling=st.sampled_from(RULES),
    limit=st.integers(1, 25),
    eos=st.sets(st.integers(0, VOCABULARY - 1), max_size=2),
)
def test_no_tree_whatsoever_changes_the_output(
    drafts: list[Tree], sampling: Sampling, limit: int, eos: set[int]
) -> None:
    scripted = Scripted(lambda tokens, depth: pruned(drafts[len(tokens) % len(drafts)], depth))
    alone = generate("none", sampling=sampling, limit=limit, eos=eos)
    drafted = generate(scripted, depth=15, sampling=sampling, limit=limit, eos=eos)
    assert drafted.output == alone.output
    assert drafted.target.state.length == len(drafted.target.keys)


@pytest.mark.parametrize("wrong", range(4))
def test_a_right_branch_is_found_among_wrong_ones(wrong: int) -> None:
    def bushy(tokens: Sequence[int], depth: int) -> Tree:
        """Wrong tokens first at every place, and behind them the right one, which goes on."""
        nodes: list[int] = []
        parents: list[int] = []
        at = -1
        for token in oracle(tokens, min(depth, 3)):
            others = [(token + 1 + other) % VOCABULARY for other in range(wrong)]
            nodes += [*others, token]
            parents += [at] * (wrong + 1)
            at = len(nodes) - 1
        return Tree(tuple(nodes), tuple(parents))

    run = generate(Scripted(bushy), depth=3, limit=33)
    assert run.output == generate("none", limit=33).output
    assert all(len(turn.accepted_path) == turn.tree.depth for turn in run.rounds)
    assert [turn.origin for turn in run.rounds] == [Origin.BONUS] * len(run.rounds)


@pytest.mark.parametrize("depth", [1, 4, 15])
def test_a_perfect_draft_is_accepted_whole_and_a_wrong_one_never(depth: int) -> None:
    right = generate(Scripted(oracle), depth=depth, limit=33)
    assert all(len(turn.accepted_path) == len(turn.tree) for turn in right.rounds)
    assert all(turn.origin is Origin.BONUS for turn in right.rounds)
    assert len(right.rounds) == -(-33 // (depth + 1))
    wrong = generate(Scripted(contrary), depth=depth, limit=33)
    assert all(not turn.accepted_path for turn in wrong.rounds)
    assert all(turn.origin is Origin.CORRECTION for turn in wrong.rounds[:-1])
    assert right.output == wrong.output


@settings(max_examples=40, deadline=None)
@given(stop_after=st.integers(1, 9), depth=st.integers(1, 15), wrong=st.booleans())
def test_between_two_rounds_cache_and_context_agree(
    stop_after: int, depth: int, wrong: bool
) -> None:
    run = generate(Scripted(contrary if wrong else oracle), depth=depth, stop_after=stop_after)
    assert run.target.keys == run.context.tokens[:-1]
    assert run.target.state.length == len(run.target.keys)


def test_rounds_joined_are_the_output() -> None:
    run = generate("draft", depth=5, eos={4}, limit=40)
    joined = [token for turn in run.rounds for token in turn.tokens[: turn.emitted]]
    assert joined == run.output
    assert [turn.index for turn in run.rounds] == list(range(len(run.rounds)))


def test_an_end_inside_a_burst_cuts_the_round_there() -> None:
    expected = plain(GREEDY, 40)
    end = expected[9]
    at = expected.index(end)
    for depth in range(1, 16):
        run = generate(Scripted(oracle), depth=depth, limit=40, eos={end})
        assert tuple(run.output) == expected[: at + 1], depth
        last = run.rounds[-1]
        assert last.tokens[last.emitted - 1] == end, depth
        assert all(turn.emitted == len(turn.tokens) for turn in run.rounds[:-1]), depth


@pytest.mark.parametrize("name", proposers.names())
def test_no_more_tokens_come_than_asked_for_and_none_is_drafted_in_vain(name: str) -> None:
    for limit in (1, 3, 8):
        run = generate(name, depth=5, limit=limit)
        assert len(run.output) == limit
        assert all(turn.emitted == len(turn.tokens) for turn in run.rounds)
        left = limit
        for turn in run.rounds:
            assert len(turn.tree) <= turn.budget.depth <= left - 1
            left -= turn.emitted


@pytest.mark.parametrize("name", proposers.names())
def test_the_context_is_filled_to_its_end_and_never_beyond(name: str) -> None:
    class Strict(TableModel):
        """Refuses positions behind the context, as a static cache would."""

        def forward(self, tokens, state, **wanted):  # type: ignore[no-untyped-def]
            assert state.end + len(tokens) <= self.info.context
            return super().forward(tokens, state, **wanted)

    room = 24 - len(PROMPT)
    target, resources = loaded(Strict, 24, 16)
    context = Context(PROMPT)
    target.extend(context.tokens[:-1])
    sampler = Sampler(GREEDY, AcceptanceRule.GREEDY, 0, context, VOCABULARY)
    proposer = proposers.create(name, {}, resources)
    proposer.begin(context, sampler)
    launcher = HostLauncher(context, target, proposer, Verifier(sampler))
    list(decode(context, launcher, Fixed(7), StoppingCriteria(room, ()), name))
    assert context.output == generate("none", limit=room).output


def test_a_round_tells_the_targets_and_the_drafts_probabilities() -> None:
    sampling = Sampling(temperature=1.0, seed=5)
    run = generate("draft", depth=4, sampling=sampling)
    text = list(PROMPT)
    seen_rejection = False
    for turn in run.rounds:
        reached = len(turn.accepted_path)
        for node, token in enumerate(turn.tree.tokens):
            before = text + list(turn.tree.tokens[:node])
            q = torch.softmax(torch.tensor(draft_table(before)), -1)[token]
            assert turn.q[node] == pytest.approx(float(q), abs=1e-6)
            if node > reached:
                assert turn.p[node] is None
                seen_rejection = True
            else:
                p = torch.softmax(torch.tensor(table(before)), -1)[token]
                assert turn.p[node] == pytest.approx(float(p), abs=1e-6)
        before = text + list(turn.tree.tokens[:reached])
        p = torch.softmax(torch.tensor(table(before)), -1)[turn.next_token]
        assert turn.next_p == pytest.approx(float(p), abs=1e-6)
        text += turn.tokens[: turn.emitted]
    assert seen_rejection


def test_times_of_a_round_add_up() -> None:
    for turn in generate("draft").rounds:
        timing = turn.timing
        assert timing.draft_s > 0 and timing.verify_s > 0
        assert timing.draft_s + timing.verify_s <= timing.total_s


@pytest.mark.parametrize("rule", [AcceptanceRule.REJECTION, AcceptanceRule.BLOCK])
def test_rules_that_weigh_q_go_through_the_same_loop_and_repeat_for_a_seed(
    rule: AcceptanceRule,
) -> None:
    # A depth that follows times cannot repeat: under this rule the words depend on it.
    for name in proposers.names():
        sampling = Sampling(temperature=1.0, seed=8)
        runs = [generate(name, sampling=sampling, rule=rule, limit=15).output for _ in range(2)]
        assert runs[0] == runs[1]
        assert len(runs[0]) == 15
