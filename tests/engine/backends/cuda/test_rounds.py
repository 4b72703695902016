"""Whole requests with rounds on the device: the words of ``none``, whichever proposer drafts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.graphs import Runner
from engine.backends.cuda.round import DeviceRound
from engine.decoding.constraint import GRAMMAR
from engine.decoding.context import Context
from engine.decoding.host import HostLauncher
from engine.decoding.loop import StoppingCriteria
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.text.codec import TextCodec
from engine.decoding.verifier import Verifier
from engine.drafting.controllers.factory import Off
from engine.drafting.proposers.none import NoneProposer
from engine.drafting.resources import Resources
from engine.events import Emitted, Finished, FinishReason, Round
from engine.local.session import Session
from engine.request import Control, Request, Speculation
from engine.values.grammar import Grammar, GrammarKind
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.backends.cuda.small import CONTEXT, load, load_reference
from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support.decoding import decode

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

LENGTH = 5 if INTERPRETED else 40
PROMPT = (5, 6, 7, 8)
GREEDY = Sampling()
DRAWN = Sampling(temperature=0.9, seed=3, top_p=0.95)
PENALISED = Sampling(temperature=1.2, seed=4, top_k=40, repetition_penalty=1.3)
SAMPLINGS = (PENALISED,) if INTERPRETED else (GREEDY, DRAWN, PENALISED)
"""Interpreted, what is not drawn is in most of the tests below."""


@pytest.fixture(scope="module")
def session(folders: tuple[Path, Path]) -> Session:
    target, draft = folders
    return Session(load(target), TextCodec(target), Resources(draft=load(draft, "int8")))


def run(
    session: Session, speculation: Speculation, sampling: Sampling = GREEDY, **asked: Any
) -> tuple[list[Round], Finished]:
    """Run a request from an empty cache to its end."""
    events = list(session.run(request_of(speculation, sampling, **asked), lambda: False))
    assert isinstance(events[-1], Finished)
    return [event.round for event in events if isinstance(event, Emitted)], events[-1]


def request_of(speculation: Speculation, sampling: Sampling = GREEDY, **asked: Any) -> Request:
    wish: dict[str, Any] = {
        "token_ids": PROMPT, "max_tokens": LENGTH, "ignore_eos": True, "reuse_cache": False, **asked
    }  # fmt: skip
    return Request(speculation=speculation, sampling=sampling, **wish)


def words(*asked: Any, **more: Any) -> tuple[int, ...]:
    return run(*asked, **more)[1].token_ids


NONE = Speculation(proposer="none")
Plain = Callable[[Sampling], Finished]


@pytest.fixture(scope="module")
def plain(session: Session) -> Plain:
    """Return the reply without drafts, computed once; shorter replies are its beginning."""
    return functools.cache(lambda sampling: run(session, NONE, sampling)[1])


def draft(depth: int, **more: Any) -> Speculation:
    return Speculation(proposer="draft", depth=depth, **more)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_words_do_not_depend_on_who_drafts(
    session: Session, plain: Plain, sampling: Sampling
) -> None:
    alone = plain(sampling).token_ids
    assert len(alone) == LENGTH
    rounds, done = run(session, draft(2), sampling)
    assert done.token_ids == alone
    assert all(len(round.tree) <= 2 for round in rounds)
    assert words(session, Speculation(proposer="ngram", depth=3), sampling) == alone
    if not INTERPRETED:
        for depth in (1, 4, 6, 9, 15):
            assert words(session, draft(depth), sampling) == alone
        assert words(session, draft(7, controller=Control.AUTO), sampling) == alone


@pytest.mark.parametrize("sampling", [DRAWN] if INTERPRETED else [GREEDY, DRAWN], ids=str)
def test_a_grammar_holds_whoever_drafts(session: Session, sampling: Sampling) -> None:
    """The host masks the rows of each round, and drafts forced tokens."""
    pytest.importorskip("llguidance")
    asked: dict[str, Any] = {
        "grammar": Grammar(GrammarKind.REGEX, "so (yes|no), said the (fox|crow)!*"),
        "ignore_eos": False,
    }
    alone = words(session, NONE, sampling, **asked)
    text = session.codec.decode(alone)
    assert text and "so yes, said the fox!".startswith(text[:3])
    for wanted in (draft(2), Speculation(proposer="ngram", depth=3)):
        rounds, done = run(session, wanted, sampling, **asked)
        assert done.token_ids == alone
        assert {GRAMMAR} <= {round.proposer for round in rounds}
    if sampling.temperature:  # a rule that weighs q may choose other words, which fit too
        found = words(session, draft(2, acceptance=AcceptanceRule.REJECTION), sampling, **asked)
        matcher = session.grammars.compiled(asked["grammar"]).start()
        assert found and matcher.count_fitting(found) == len(found)


def test_a_draft_that_is_often_right_is_accepted(folders: tuple[Path, Path], plain: Plain) -> None:
    """The target drafts for itself: every token is accepted, and a bonus token follows."""
    target, _ = folders
    session = Session(load(target), TextCodec(target), Resources(draft=load(target)))
    rounds, done = run(session, draft(2))
    assert [round.accepted_path for round in rounds[:-1]] == [(0, 1)] * (len(rounds) - 1)
    assert done.token_ids == plain(GREEDY).token_ids


def test_rounds_are_those_of_the_ordinary_loop(session: Session) -> None:
    """The same model verified by torch on the host: the same tokens, nearly equal probabilities."""
    rounds, done = run(session, NONE)
    plain = on_host(session, GREEDY, AcceptanceRule.GREEDY)
    assert done.token_ids == tuple(token for round in plain for token in round.tokens)
    for found, expected in zip(rounds, plain, strict=True):
        assert found.tokens == expected.tokens and found.origin == expected.origin
        assert found.next_p == pytest.approx(expected.next_p, rel=1e-3)


def on_host(
    session: Session,
    sampling: Sampling,
    rule: AcceptanceRule,
    bias: Sequence[tuple[int, float]] = (),
    top: int = 0,
) -> list[Round]:
    """Run the ordinary loop without drafts on the session's model: torch samples its logits."""
    model = session.target.model
    context, target = Context(PROMPT), Target(model)
    target.extend(PROMPT[:-1])
    sampler = Sampler(sampling, rule, sampling.seed or 0, context, model.info.vocabulary, bias=bias)
    proposer = NoneProposer(NoneProposer.Options(), Resources())
    launcher = HostLauncher(context, target, proposer, Verifier(sampler, top))
    return list(decode(context, launcher, Off(), StoppingCriteria(LENGTH, ()), "none"))


@pytest.mark.parametrize("sampling", (GREEDY, DRAWN), ids=str)
def test_biases_and_top_tokens_are_those_of_the_host(
    session: Session, plain: Plain, sampling: Sampling
) -> None:
    """Whoever drafts, of all tokens of a round; truncated ones are left out."""
    bias = [(token, -100.0) for token in plain(sampling).token_ids[:2]]
    bias.append(((bias[0][0] + 1) % 40, 1.0))
    asked: dict[str, Any] = {"logit_bias": tuple(bias), "top_logprobs": 3}
    rule = AcceptanceRule.COUPLED if sampling.temperature else AcceptanceRule.GREEDY
    host = on_host(session, sampling, rule, bias, 3)
    expected = [token for round in host for token in round.tokens]
    shown = [row for round in host for row in round.top_logprobs]
    assert not {token for token, _ in bias[:2]} & set(expected)
    for wanted in (NONE, draft(2), Speculation(proposer="ngram", depth=3)):
        request = request_of(wanted, sampling, **asked)
        events = list(session.run(request, lambda: False))
        tokens = [token for event in events if isinstance(event, Emitted) for token in event.tokens]
        assert [token.id for token in tokens] == expected
        for token, row in zip(tokens, shown, strict=True):
            found = [(each.id, each.p) for each in token.top_logprobs]
            assert [id for id, _ in found] == [id for id, _ in row]
            assert [p for _, p in found] == pytest.approx([p for _, p in row], rel=1e-3)
            assert token.p is not None and dict(found).get(token.id, token.p) == token.p


@pytest.mark.parametrize(
    "rule",
    [
        AcceptanceRule.REJECTION,
        pytest.param(AcceptanceRule.BLOCK, marks=pytest.mark.exhaustive),
    ],
)
def test_what_the_draft_was_drawn_from_is_weighed(session: Session, rule: AcceptanceRule) -> None:
    """Acceptance differs, but the same seed gives the same text again."""
    asked = draft(2, acceptance=rule)
    rounds, first = run(session, asked, DRAWN, max_tokens=4 if INTERPRETED else LENGTH)
    assert all(0 < q <= 1 for round in rounds for q in round.q if q is not None)
    if not INTERPRETED:
        assert run(session, asked, DRAWN)[1].token_ids == first.token_ids


@pytest.mark.exhaustive
def test_a_follow_up_reuses_what_was_shown(session: Session) -> None:
    """Rounds that ran ahead leave more rows in the caches, which do not count."""
    _, first = run(session, draft(2), max_tokens=3)
    text = [*PROMPT, *first.token_ids]
    assert session.target.keys == text[:-1]
    assert session.target.state.length == len(text) - 1
    longer: Sequence[int] = (*text, 11, 12)
    follow = {"token_ids": longer, "reuse_cache": True, "max_tokens": 2}
    assert words(session, draft(2), **follow) == words(session, NONE, **follow)


@pytest.mark.exhaustive
def test_a_stop_string_ends_the_reply(session: Session, plain: Plain) -> None:
    alone = plain(GREEDY)
    stop = alone.text[2:4] if len(alone.text) > 4 else alone.text
    for wanted in (draft(2),) if INTERPRETED else (NONE, draft(2)):
        ended = run(session, wanted, stop=(stop,))[1]
        assert ended.reason is FinishReason.STOP
        assert ended.text == alone.text[: alone.text.index(stop)]
        assert ended.token_ids == alone.token_ids[: len(ended.token_ids)]


@pytest.mark.exhaustive
def test_the_end_of_the_context_is_no_trouble(folders: tuple[Path, Path], plain: Plain) -> None:
    """Near the end a round may reach beyond it; those rows are not used."""
    target, own = folders
    session = Session(load(target, context=8), TextCodec(target), Resources(draft=load(own)))
    assert words(session, draft(3), max_tokens=None) == plain(GREEDY).token_ids[:4]


def test_what_a_host_drew_its_tokens_from_is_judged_by(session: Session) -> None:
    """With a head's q on the device, a token of q = 1 is accepted with probability p."""
    model = session.target.model
    assert isinstance(model, CudaDecoder)
    cache, text = model.new_state(CONTEXT), list(PROMPT)
    model.forward(text[:-1], cache, last=0)
    runner = Runner(DeviceRound(model, cache), captures=False)
    q = torch.zeros(2, model.info.vocabulary)
    q[0, 17], q[0, 18], q[1, 19] = 0.75, 0.25, 1.0
    runner.begin(DRAWN, AcceptanceRule.REJECTION, 3, text, len(text))
    runner.put((17, 19), q)
    outcome = runner.launch(2, sampled=True).read()
    assert outcome.chain == (17, 19)
    assert outcome.q == (0.75, 1.0)
    assert outcome.accepted == 0 or outcome.p[0] > 0


def test_a_draft_that_is_elsewhere_changes_no_words(
    folders: tuple[Path, Path], plain: Plain
) -> None:
    """A draft on the CPU drafts on the host, and the device verifies its tokens."""
    target, own = folders
    beside = Session(load(target), TextCodec(target), Resources(draft=load_reference(own, CONTEXT)))
    rounds, done = run(beside, draft(2), PENALISED, max_tokens=4)
    assert done.token_ids == plain(PENALISED).token_ids[:4]
    assert all(round.q and None not in round.q for round in rounds if round.tree.tokens)


@pytest.mark.exhaustive
def test_who_drafted_is_told_and_may_be_chosen(session: Session, plain: Plain) -> None:
    """``best`` can choose on a device too; the first round measures the verification."""
    alone = plain(GREEDY).token_ids[:4]
    for control in (Control.FIXED, Control.AUTO):
        asked = Speculation(proposer="best", depth=2, controller=control)
        rounds, done = run(session, asked, max_tokens=4)
        assert done.token_ids == alone
        assert all(round.proposer in ("draft", "suffix") for round in rounds if round.tree.tokens)
        assert all(
            (round.budget.proposer == "draft") == (control is Control.AUTO) for round in rounds
        )
