"""Heads that draft inside rounds: the words of ``none``, and what they draft from scratch."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.backends import linear_factory
from engine.backends.cuda.graphs import Runner
from engine.backends.cuda.trial import verdicts
from engine.backends.linear_factory import LEAST_INT8, LinearFactory
from engine.decoding.context import Context
from engine.decoding.proposer import RoundProposer
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.text.codec import TextCodec
from engine.drafting import heads, proposers
from engine.drafting.heads.base import Head
from engine.drafting.resources import Resources
from engine.errors import KernelsFailed
from engine.events import Budget
from engine.local.session import Session
from engine.models.checkpoints.checkpoint import inspect
from engine.request import Control, Speculation
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.backends.cuda.small import load
from tests.engine.backends.cuda.test_rounds import DRAWN, GREEDY, NONE, PROMPT, run, words
from tests.engine.backends.cuda.wrong_kernels import put_wrong, refuse
from tests.engine.kernels.cuda.where import DEVICE, INTERPRETED
from tests.support.heads import WRITERS, block, dflash2, mtp_plan, peagle, write_head

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

USUAL, OTHERS = ("eagle3",), ("block", "mtp", "medusa", "mlp", "lstm")
FORMS: dict[str, Any] = {
    "block": lambda shape: block(shape, rank=8, read=(-1, 0)),
    "DFlash": lambda shape: block(shape, read=(-1, 0)),
    "DFlash2": lambda shape: dflash2(shape, read=(-1, 0)),
    "P-EAGLE": peagle,
}
"""Heads that are made otherwise than ``WRITERS`` does, for a target of one layer or in another form."""
RARELY = pytest.mark.exhaustive if INTERPRETED else pytest.mark.gpu
some_kinds = pytest.mark.parametrize(
    "kind", [*USUAL, *(pytest.param(kind, marks=RARELY) for kind in OTHERS)]
)
"""Interpreted, a round takes seconds."""
HOT = Sampling(temperature=5.0, seed=3)
"""Target and draft share their noise, which decides here: so some drafts are accepted."""
MOST = 7 if INTERPRETED else 60
PLANNED: dict[str, int] = {}
"""The steps that are planned for each kind."""
NewSession = Callable[[str], Session]


@pytest.fixture(scope="module")
def load_head(
    folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Head]:
    """Return a function that loads a random head of a kind."""
    shape = inspect(folders[0])

    def load(kind: str) -> Head:
        # A GPU is "cuda" in a plan and "cuda:0" in a tensor: here too they are not equal.
        linears = LinearFactory("bf16", torch.device(DEVICE.type, 0), triton=True)
        folder = tmp_path_factory.mktemp(kind)
        if kind in FORMS:
            write_head(folder, *FORMS[kind](shape))
        elif kind not in heads.INSIDE:
            WRITERS[kind](folder, shape)
        plan = mtp_plan(shape) if kind in heads.INSIDE else heads.inspect(folder, shape)
        PLANNED[kind] = plan.steps
        return heads.load(plan, linears)

    return load


@pytest.fixture(scope="module")
def new_session(folders: tuple[Path, Path], load_head: Callable[[str], Head]) -> NewSession:
    """Return a function that makes a session with the same head of a kind."""
    target, head = folders[0], cache(load_head)
    model = load(target)
    return lambda kind: Session(model, TextCodec(target), Resources(heads={kind: head(kind)}))


@pytest.fixture(scope="module")
def session_of(new_session: NewSession) -> NewSession:
    """Return the one session of a kind, whose memory grows old."""
    return cache(new_session)


def asked(kind: str, depth: int = 3, **more: object) -> Speculation:
    return Speculation(proposer=kind, depth=depth, **more)  # type: ignore[arg-type]


class Beside(Target):
    """A target whose heads draft in torch's executor."""

    def head_operations(self) -> None:
        return None


@pytest.mark.parametrize(
    ("kind", "least_int8"),
    [
        *((kind, LEAST_INT8) for kind in (*USUAL, *OTHERS)),
        *(pytest.param(kind, LEAST_INT8, marks=RARELY) for kind in sorted({*FORMS} - {*OTHERS})),
        ("eagle3", 0),
    ],
)
def test_its_logits_are_nearly_torchs(
    folders: tuple[Path, Path], load_head: Callable[[str], Head], kind: str, least_int8: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Both round, in different places."""
    model, found = load(folders[0]), []
    monkeypatch.setattr(linear_factory, "LEAST_INT8", least_int8)
    head = load_head(kind)
    for make in (Target, Beside):
        target = make(model, head.aux_layers)
        target.extend(PROMPT[:-1])
        context = Context(PROMPT)
        sampler = Sampler(GREEDY, AcceptanceRule.GREEDY, 0, context, model.info.vocabulary)
        resources = Resources(heads={head.kind: head}, backbone=target)
        proposer: Any = proposers.create(head.kind, {}, resources)
        proposer.begin(context, sampler)
        list(proposer.prepare(context))
        proposer.propose(context, Budget(3, 3))
        draft = proposer.drafts.draft
        assert proposer.drafts.steps == PLANNED[kind]
        draft.begin(PROMPT[-1], read=False)
        for step, token in enumerate((40, 50, 60)):
            found.append(draft.logits(step).cpu().clone())
            draft.chain[step + 1] = token
    for drafted, expected in zip(found[:3], found[3:], strict=True):
        both = drafted.isfinite() & expected.isfinite()  # a selector leaves some tokens
        assert int(both.sum()) >= 0.8 * int(expected.isfinite().sum())
        assert float((drafted - expected)[both].norm() / expected[both].norm()) < 0.05


@some_kinds
@pytest.mark.parametrize("sampling", [HOT] if INTERPRETED else [GREEDY, HOT], ids=str)
def test_words_do_not_depend_on_a_head(
    session_of: NewSession, kind: str, sampling: Sampling
) -> None:
    session = session_of(kind)
    alone = words(session, NONE, sampling, max_tokens=MOST)
    rounds, done = run(session, asked(kind), sampling, max_tokens=MOST)
    assert done.token_ids == alone
    assert isinstance(proposer := session._slots.first.proposer(asked(kind)), RoundProposer)
    assert proposer.device_drafting() is not None
    accepted = [len(round.accepted_path) for round in rounds]
    assert sampling is GREEDY or max(accepted) > 0


@some_kinds
def test_a_round_drafts_what_a_new_head_drafts_for_its_text(
    session_of: NewSession, new_session: NewSession, kind: str
) -> None:
    """So it has read what was accepted, and forgotten what was not."""
    session, text = session_of(kind), list(PROMPT)
    rounds, _ = run(session, asked(kind), HOT, max_tokens=MOST)
    for round in rounds[:-1]:
        if len(text) > len(PROMPT):
            fresh, _ = run(new_session(kind), asked(kind), HOT, token_ids=text, max_tokens=4)
            drafted = len(round.tree)
            assert fresh[0].tree.tokens[:drafted] == round.tree.tokens
            assert fresh[0].q[:drafted] == round.q
        text += round.tokens


@some_kinds
def test_a_head_catches_up(session_of: NewSession, kind: str) -> None:
    """After rounds that drafted nothing, and in a text that goes on."""
    session = session_of(kind)
    text = [*PROMPT, *words(session, NONE, HOT, max_tokens=5)]
    follow = {"token_ids": (*text, 11, 12), "reuse_cache": True, "max_tokens": MOST}
    rounds, done = run(session, asked(kind, 7, controller=Control.AUTO), HOT, **follow)
    assert any(round.tree.tokens for round in rounds)
    assert done.token_ids == words(session, NONE, HOT, **follow)


@RARELY
@some_kinds
def test_what_a_head_was_drawn_from_is_weighed(session_of: NewSession, kind: str) -> None:
    session, rejecting = session_of(kind), asked(kind, 2, acceptance=AcceptanceRule.REJECTION)
    rounds, first = run(session, rejecting, DRAWN, max_tokens=6)
    assert all(0 < q <= 1 for round in rounds for q in round.q if q is not None)
    assert run(session, rejecting, DRAWN, max_tokens=6)[1].token_ids == first.token_ids


def test_a_head_that_the_kernels_do_not_compute_drafts_from_the_host(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert new_session("eagle3").heads_on_host == ()
    monkeypatch.setattr("engine.backends.cuda.heads.wrong_width", lambda _: "It is too wide.")
    session = new_session("eagle3")
    assert session.heads_on_host == ("eagle3",)
    rounds, done = run(session, asked("eagle3"), HOT, max_tokens=4)
    assert done.token_ids == words(session, NONE, HOT, max_tokens=4)
    assert any(round.tree.tokens for round in rounds)


@RARELY
@some_kinds
def test_what_a_load_reads_with_a_head_is_forgotten(
    new_session: NewSession, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load on a GPU prefills, so that no reply compiles what a prompt is read with."""
    session = new_session(kind)
    model: Any = session.target.model
    with monkeypatch.context() as patch:
        patch.setattr(Runner, "prepare", lambda _: "")
        patch.setattr(model, "_info", replace(model.info, device="cuda"))
        session.prepare_rounds()
    proposer: Any = session._slots.first.proposer(asked(kind))
    assert not session.uncaptured and not session.target.keys and not proposer.tokens
    rounds, done = run(session, asked(kind), HOT, max_tokens=4)
    expected, _ = run(new_session(kind), asked(kind), HOT, max_tokens=4)
    assert [each.tree for each in rounds] == [each.tree for each in expected]
    assert done.token_ids == words(session, NONE, HOT, max_tokens=4)


def test_a_head_that_is_replaced_is_freed(new_session: NewSession) -> None:
    """A runner's graphs hold what they draft with."""
    session = new_session("eagle3")
    proposer: Any = session._slots.first.proposer(asked("eagle3"))
    drafter = proposer.device_drafting().draft.drafter
    session.target.round_runner(drafter)
    before = weakref.ref(drafter)
    del proposer, drafter
    session.use_head(session.resources.heads["eagle3"])
    gc.collect()
    assert before() is None


def test_a_heads_launch_that_fails_at_the_load_is_told_and_noted(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(verdicts, "_file", lambda: tmp_path / "gpu-trials.json")
    session = new_session("eagle3")
    model: Any = session.target.model
    monkeypatch.setattr(model, "verdict", verdicts.Verdict("gpu", "small", "shape", "bf16"))
    put_wrong(monkeypatch, "rope_and_store", refuse)
    with pytest.raises(KernelsFailed, match="OutOfResources"):
        session.prepare_rounds()
    (kept,) = verdicts.kept()
    assert kept.fault is not None
