"""Trees on a device, drafted there or by the host: a branch's bits, and the words of ``none``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda import graphs
from engine.backends.cuda.capture import capture
from engine.backends.cuda.round import DeviceRound
from engine.decoding.text.codec import TextCodec
from engine.drafting.heads.base import Head
from engine.drafting.proposers.branches import BranchingProposer
from engine.drafting.resources import Resources
from engine.events import Emitted, Round, Tree
from engine.local.session import Session
from engine.models.hidden_states import NORMED, AuxLayer
from engine.request import Control, Speculation
from engine.values.grammar import Grammar, GrammarKind
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.backends.cuda.replays import Replay
from tests.engine.backends.cuda.small import CONTEXT, load, tokens
from tests.engine.backends.cuda.test_heads import HOT, MOST, load_head
from tests.engine.backends.cuda.test_rounds import GREEDY, NONE, PROMPT, request_of, run, words
from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support import sameness
from tests.support.crowd import Client
from tests.support.crowd import run as run_crowd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]
__all__ = ["load_head"]

PENALISED = Sampling(temperature=5.0, seed=3, repetition_penalty=1.3)
KINDS = ("medusa", pytest.param("eagle3", marks=pytest.mark.exhaustive if INTERPRETED else ()))


def asked(kind: str, nodes: int = 7, **more: Any) -> Speculation:
    return Speculation(proposer=kind, depth=3, options={"tree_nodes": nodes}, **more)


@pytest.fixture(scope="module")
def new_session(
    folders: tuple[Path, Path], load_head: Callable[[str], Head]
) -> Callable[..., Session]:
    target = folders[0]
    model = load(target)

    def make(kind: str, parallel: int = 1) -> Session:
        resources = Resources(heads={kind: load_head(kind)})
        return Session(model, TextCodec(target), resources, parallel=parallel)

    return make


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Interpreted, rounds have dry runs too, and their replays checked; note each mode."""
    modes: list[str] = []

    def noting(run: Callable[[], object], what: str, pool: Any) -> Any:
        modes.append(what)
        if not INTERPRETED:
            return capture(run, what, pool)
        return Replay(run)

    monkeypatch.setattr(graphs, "capture", noting)
    if INTERPRETED:
        always = property(lambda _: True, lambda _, value: None)
        monkeypatch.setattr(graphs.Runner, "captures", always, raising=False)
        monkeypatch.setattr("torch.cuda.graph_pool_handle", lambda: None)
    return modes


@pytest.fixture
def from_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let heads draft on the host, as under a grammar."""
    monkeypatch.setattr(BranchingProposer, "device_drafting", lambda _: None)


@pytest.mark.parametrize(
    ("dtype", "cached"),
    [("bf16", "auto"), pytest.param("int8", "fp8", marks=pytest.mark.exhaustive)],
)
def test_a_row_of_a_tree_has_the_bits_of_its_branch(
    folders: tuple[Path, Path], dtype: str, cached: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits, hidden states, and what follows after some of it was kept."""
    if INTERPRETED:
        monkeypatch.setattr(sameness, "_MOST_ROWS", 5)
        monkeypatch.setattr(sameness, "_TREES", 2)
    monkeypatch.setattr(sameness, "_ROOM", 64)
    model = load(folders[0], dtype, kv_cache_dtype=cached)
    sameness.check_tree(model, tokens(5), seed=1)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_round_leaves_what_a_chain_would(
    folders: tuple[Path, Path], captured: list[str], elsewhere: bool
) -> None:
    """Rows are moved once, in spite of the dry run; ``elsewhere``: the logits are a shared pass's."""
    model, aux = load(folders[0]), (AuxLayer(0), NORMED)
    state, chain = model.new_state(64, aux), model.new_state(64, aux)
    for each in (state, chain):
        model.forward(PROMPT[:-1], each, last=0)
    right, pending = list[int](), PROMPT[-1]
    for _ in range(4):
        right.append(int(model.forward([pending], chain, last=1).argmax()))
        pending = right[-1]
    wrong = [(token + 1) % 40 for token in right]
    tree = Tree(
        (wrong[0], right[0], wrong[1], right[1], wrong[2], right[2], 9), (-1, -1, 1, 1, 3, 3, 5)
    )
    ids = [PROMPT[-1], *tree.tokens]
    runner = graphs.Runner(DeviceRound(model, state))
    runner.begin(GREEDY, AcceptanceRule.GREEDY, 0, PROMPT, len(PROMPT))
    runner.put(tree.tokens, None, tree.row_parents)
    logits = model.forward_tree(ids, tree.row_parents, state) if elsewhere else None
    result = runner.launch(len(tree), tree=True, logits=logits).read()
    assert result.tokens == tuple(right) and tree.path_of(right[:-1]) == (1, 3, 5)
    assert len(captured) == (not elsewhere)
    end = len(PROMPT) + 3
    assert state.aux is not None and chain.aux is not None
    assert torch.equal(state.aux.rows[:, :end], chain.aux.rows[:, :end])
    for ours, theirs in zip(state.static.slots, chain.static.slots, strict=True):
        for one, other in zip(ours.tensors, theirs.tensors, strict=True):
            assert torch.equal(one[:, :end], other[:, :end])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [PENALISED] if INTERPRETED else [GREEDY, HOT, PENALISED])
def test_words_do_not_depend_on_trees(
    new_session: Callable[..., Session], kind: str, sampling: Sampling
) -> None:
    """Nor do the words of a text that goes on, and of later rounds that draft chains on the device."""
    session = new_session(kind)
    alone = words(session, NONE, sampling, max_tokens=MOST)
    rounds, done = run(session, asked(kind), sampling, max_tokens=MOST)
    assert done.token_ids == alone
    trees = [round for round in rounds if not round.tree.is_chain]
    assert trees and all(round.tree.depth <= 3 for round in rounds)
    assert sampling is GREEDY or any(round.accepted_path for round in trees)
    if sampling is PENALISED:
        text: dict[str, Any] = {"token_ids": (5, 6, 7, 8, *alone, 11), "max_tokens": 3}
        after = words(session, NONE, sampling, **text)
        for speculation in (asked(kind), Speculation(proposer=kind, depth=2)):
            run(session, asked(kind), sampling, max_tokens=MOST)
            assert words(session, speculation, sampling, **text, reuse_cache=True) == after


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("greedy", [pytest.param(True, marks=pytest.mark.exhaustive), False])
def test_a_round_drafts_the_tree_of_a_new_head_on_the_host(
    new_session: Callable[..., Session], kind: str, greedy: bool, request: pytest.FixtureRequest
) -> None:
    """So it has read what was accepted, whose rows were moved, and forgotten what was not."""
    heat = 0.5 if kind == "medusa" else 1.0  # so trees have levels, and branches are accepted
    sampling = GREEDY if greedy else Sampling(temperature=heat, seed=3, repetition_penalty=1.3)
    text, more = list(PROMPT), 2 * MOST
    rounds, _ = run(new_session(kind), asked(kind), sampling, max_tokens=more)
    request.getfixturevalue("from_the_host")
    compared = 0
    for round in rounds:
        if round.budget.depth == 3 and compared < (4 if INTERPRETED else 40):
            limits = {"token_ids": text, "max_tokens": 5}
            host = run(new_session(kind), asked(kind), sampling, **limits)[0][0]
            drafted, expected = _by_branch(round), _by_branch(host)
            assert drafted.keys() == expected.keys() and len(drafted) == 7
            if not greedy:
                assert drafted == pytest.approx(expected, rel=1e-4)
            compared += 1
        text += round.tokens
    assert compared > 2
    if not greedy:
        assert any(round.accepted_path[:1] > (0,) for round in rounds[: compared - 1])
        assert max(round.tree.depth for round in rounds[:compared]) == 3


def _by_branch(round: Round) -> dict[tuple[int, ...], float | None]:
    """Return the q of each node by the tokens down to it; siblings of equal q have no order."""
    found = dict[tuple[int, ...], float | None]()
    branches: list[tuple[int, ...]] = [()]
    for token, parent, q in zip(round.tree.tokens, round.tree.parents, round.q, strict=True):
        branches.append((*branches[parent + 1], token))
        found[branches[-1]] = q
    return found


def test_a_rule_that_weighs_q_has_chains(new_session: Callable[..., Session]) -> None:
    speculation = asked("medusa", acceptance=AcceptanceRule.REJECTION)
    rounds, _ = run(new_session("medusa"), speculation, HOT, max_tokens=3)
    assert all(round.tree.is_chain for round in rounds)


def test_a_grammar_holds_in_trees(new_session: Callable[..., Session]) -> None:
    pytest.importorskip("llguidance")
    limits: dict[str, Any] = {
        "grammar": Grammar(GrammarKind.REGEX, "[a-z ]+!"), "ignore_eos": False, "max_tokens": MOST
    }  # fmt: skip
    session = new_session("medusa")
    alone = words(session, NONE, HOT, **limits)
    rounds, done = run(session, asked("medusa"), HOT, **limits)
    assert done.token_ids == alone
    assert any(not round.tree.is_chain for round in rounds)


@pytest.mark.usefixtures("from_the_host")
def test_trees_beside_others_change_no_words(
    new_session: Callable[..., Session], captured: list[str]
) -> None:
    """Passes for several requests, in which one has a tree and one a chain; then rounds alone."""
    session = new_session("medusa", 2)
    speculations = asked("medusa"), Speculation(proposer="ngram", depth=2)
    wanted = [request_of(each, HOT, max_tokens=MOST) for each in speculations]
    clients = [Client(each) for each in wanted]
    run_crowd(session, clients)
    alone = words(session, NONE, HOT, max_tokens=MOST)
    for client in clients:
        assert client.error is None
        assert tuple(each.id for event in client.emitted for each in event.tokens) == alone
    found = [event.round for event in clients[0].emitted if isinstance(event, Emitted)]
    assert any(round is not None and not round.tree.is_chain for round in found)
    rounds, done = run(session, asked("medusa"), HOT, max_tokens=MOST)
    assert done.token_ids == alone
    assert any(not round.tree.is_chain for round in rounds)
    assert any("tree=True" in mode for mode in captured)


@pytest.mark.parametrize("kind", KINDS)
def test_trees_are_captured_before_the_first_token(
    new_session: Callable[..., Session], captured: list[str], kind: str
) -> None:
    """Of all levels, since a reply ends with fewer of them; and each passes its trial."""
    session, seen = new_session(kind), list[int]()
    request = request_of(asked(kind, 4), HOT, max_tokens=6)
    for event in session.run(request, lambda: False):
        if isinstance(event, Emitted):
            seen.append(sum("drafts=True" in mode and "tree=True" in mode for mode in captured))
    assert seen[0] == seen[-1] == (4 if kind == "eagle3" else 3)
    runners: list[Any] = list(session.target._runners.values())
    assert not any(each._uncaptured for each in runners)


def test_trees_end_with_the_context(new_session: Callable[..., Session]) -> None:
    session, length = new_session("medusa"), CONTEXT - 7
    limits: dict[str, Any] = {"token_ids": tuple(range(length)), "max_tokens": 7}
    rounds, done = run(session, asked("medusa", 15), HOT, **limits)
    assert done.token_ids == words(session, NONE, HOT, **limits)
    assert any(len(round.tree) > 4 for round in rounds)
    for round in rounds:
        assert length + len(round.tree) <= CONTEXT
        length += len(round.tokens)


@pytest.mark.skipif(INTERPRETED, reason="a graph is a device's")
def test_auto_may_draft_trees(new_session: Callable[..., Session]) -> None:
    session = new_session("eagle3")
    alone = words(session, NONE, HOT, max_tokens=MOST)
    speculation = asked("eagle3", 15, controller=Control.AUTO)
    assert words(session, speculation, HOT, max_tokens=MOST) == alone
