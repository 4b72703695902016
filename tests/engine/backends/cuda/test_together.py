"""Several requests at once on a device: passes for all of them, and prefixes that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda import passes
from engine.backends.cuda.capture import capture
from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.graphs import Runner
from engine.backends.cuda.state import DeviceState
from engine.decoding.text.codec import TextCodec
from engine.decoding.work import VerifyWork
from engine.drafting.resources import Resources
from engine.events import Emitted
from engine.local.session import Session
from engine.models.base import Entry
from engine.models.hidden_states import NORMED, AuxLayer
from engine.request import Control, Request, Speculation
from engine.values.grammar import Grammar, GrammarKind
from tests.engine.backends.cuda.replays import Replay
from tests.engine.backends.cuda.small import load, tokens
from tests.engine.backends.cuda.test_rounds import DRAWN, GREEDY, NONE, PENALISED, draft
from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support.crowd import Client, run

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

AUX = (AuxLayer(0), AuxLayer(1), NORMED)
NGRAM = Speculation(proposer="ngram", depth=3)
LENGTH = 5 if INTERPRETED else 30


def filled(model: CudaDecoder, length: int) -> DeviceState:
    state = model.new_state(64, AUX)
    model.forward(tokens(length, seed=length), state, last=0)
    return state


@pytest.mark.parametrize(
    ("dtype", "cached"),
    [
        ("bf16", "auto"),
        ("int8", "fp8"),
        pytest.param("nf4", "auto", marks=pytest.mark.exhaustive),
    ],
)
def test_a_row_in_a_pass_for_several_has_the_bits_it_has_alone(
    folders: tuple[Path, Path], dtype: str, cached: str
) -> None:
    """Logits, hidden states and what the caches hold; one of the rows is a prompt's."""
    model, lengths, counts = load(folders[0], dtype, kv_cache_dtype=cached), (7, 1, 20), (1, 3, 2)
    together = [filled(model, length) for length in lengths]
    alone = [filled(model, length) for length in lengths]
    texts = [tokens(count, seed=9) for count in counts]
    entries = [
        Entry(text, state, final=at == 2)
        for at, (text, state) in enumerate(zip(texts, together, strict=True))
    ]
    for at, logits in enumerate(model.forward_batch(entries)):
        final, rows = at == 2, counts[at]
        expected = model.forward(texts[at], alone[at], last=rows, final=final)
        assert torch.equal(logits, expected[: 0 if final else rows])
        assert together[at].end == alone[at].end == int(together[at].static.length)
        end = together[at].end
        for one, other in zip(_stored(together[at], end), _stored(alone[at], end), strict=True):
            assert torch.equal(one, other)


def _stored(state: DeviceState, length: int) -> list[torch.Tensor]:
    """Return what the state holds of the first ``length`` tokens."""
    assert state.aux is not None
    caches = [part[:, :length].float() for slot in state.static.slots for part in slot.tensors]
    return [*caches, state.aux.rows[:, :length]]


@pytest.mark.parametrize("cached", ["auto", "fp8"])
def test_a_copied_prefix_is_what_was_computed(folders: tuple[Path, Path], cached: str) -> None:
    """In parts, behind what is there; what was copied goes on as the text it came from."""
    model = load(folders[0], kv_cache_dtype=cached)
    source, copy = filled(model, 12), model.new_state(64, AUX)
    assert copy.copy_prefix(source, 4) == 4 and copy.copy_prefix(source, 3) == 4
    assert copy.copy_prefix(source, 9) == 9 == copy.length == int(copy.static.length)
    for one, other in zip(_stored(copy, 9), _stored(source, 9), strict=True):
        assert torch.equal(one, other)
    source.rewind(9)
    assert torch.equal(model.forward([3, 4], copy, last=2), model.forward([3, 4], source, last=2))


def opened(folders: tuple[Path, Path], parallel: int) -> Session:
    target, own = folders
    resources = Resources(draft=load(own, "int8"))
    return Session(load(target), TextCodec(target), resources, parallel=parallel)


@pytest.fixture(scope="module")
def alone(folders: tuple[Path, Path]) -> Session:
    return opened(folders, 1)


@pytest.fixture(scope="module")
def together(folders: tuple[Path, Path]) -> Session:
    return opened(folders, 3)


def request(prompt: tuple[int, ...], speculation: Speculation, **more: Any) -> Request:
    wish: dict[str, Any] = {"max_tokens": LENGTH, "ignore_eos": True, **more}
    return Request(token_ids=prompt, speculation=speculation, **wish)


LONG = tuple(tokens(14))
GRAMMAR = Grammar(GrammarKind.REGEX, "so (yes|no), said the (fox|crow)!*")
CROWD = (
    (request(LONG, draft(2), sampling=PENALISED, top_logprobs=2), 0),
    (request((5, 6, 7, 8), NGRAM, sampling=GREEDY), 1),
    (request(LONG[:12], NONE, sampling=DRAWN, logit_bias=((3, 2.0),)), 1),
    (request((5, 6, 7), draft(3, controller=Control.AUTO), sampling=DRAWN), 4),
    (request(LONG, NGRAM, sampling=DRAWN, grammar=GRAMMAR, ignore_eos=False), 5),
    (request((9,) * 70, draft(1), sampling=GREEDY, max_tokens=2), 5),
)
"""Requests, and after how many passes each arrives. The last one's prompt goes through cuBLAS."""


@pytest.fixture
def replays(together: Session, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each replay; see ``Replay``."""
    model, found = together.target.model, list[str]()
    assert isinstance(model, CudaDecoder)

    def captured(run: Callable[[], object], what: str, pool: Any) -> Any:
        graph = Replay(run) if INTERPRETED else capture(run, what, pool)
        assert graph is not None
        return SimpleNamespace(replay=lambda: (found.append(what), graph.replay()))

    monkeypatch.setattr(passes, "capture", captured)
    monkeypatch.setattr(passes, "_WORTH", 2)
    monkeypatch.setattr(passes, "PASS_GRAPHS", 2)
    monkeypatch.setattr(model._graphs, "captures", True)
    return found


def test_a_crowd_is_told_what_each_is_told_alone(
    alone: Session, together: Session, replays: list[str]
) -> None:
    """They come and go, so each has rounds alone, in graphs on a GPU, and in passes with others."""
    pytest.importorskip("llguidance")
    clients = [
        Client(asked, arrives=arrives) for asked, arrives in CROWD[: -1 if INTERPRETED else None]
    ]
    passed, finish = 0, VerifyWork.finish

    def counting(self: VerifyWork, logits: torch.Tensor, began: float) -> None:
        nonlocal passed
        passed += 1
        finish(self, logits, began)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VerifyWork, "finish", counting)
        run(together, clients)
    assert passed > 4 and replays
    for client in clients:
        assert client.error is None
        events = list(alone.run(client.request, lambda: False))
        expected = [each for event in events if isinstance(event, Emitted) for each in event.tokens]
        found = [each for event in client.emitted for each in event.tokens]
        assert [each.id for each in found] == [each.id for each in expected], client.request
        assert [each.p for each in found] == [each.p for each in expected]
        assert [each.top_logprobs for each in found] == [each.top_logprobs for each in expected]


def test_a_load_prepares_the_rounds_of_every_slot(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what drafts in it: so no slot's first reply waits for captures."""
    session, prepared = opened(folders, 2), list[Runner]()
    model: Any = session.target.model  # a GPU also reads a prompt
    monkeypatch.setattr(model, "_info", replace(model.info, device="cuda", context=24))

    def prepare(self: Runner) -> str:
        prepared.append(self)
        return ""

    monkeypatch.setattr(Runner, "prepare", prepare)
    session.prepare_rounds()
    assert not session.uncaptured
    slots = session._slots.all()
    assert len(slots) == 2 and [each.round.target_state for each in prepared] == [
        slot.target.state for slot in slots
    ]
    clients = [Client(request(LONG[:3], draft(1), sampling=GREEDY, max_tokens=2)) for _ in slots]
    run(session, clients)
    assert [client.error for client in clients] == [None, None]
    for slot, runner in zip(slots, prepared, strict=True):
        assert slot.used and slot.target.round_runner(None) is runner


def test_a_request_that_leaves_or_fails_beside_others_changes_nothing(
    alone: Session, together: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is cancelled, and a pass fails: then each computes its own rows."""
    fresh: dict[str, Any] = {"reuse_cache": False}
    stays = Client(request(LONG, NGRAM, sampling=DRAWN, **fresh))
    leaves = Client(request((5, 6, 7, 8), draft(2), sampling=GREEDY, **fresh), rounds=2)
    whole, calls = CudaDecoder.forward_batch, 0

    def fails_once(self: CudaDecoder, entries: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("on purpose")
        return whole(self, entries)

    monkeypatch.setattr(CudaDecoder, "forward_batch", fails_once)
    run(together, [stays, leaves])
    assert calls >= 2 and stays.error is None and leaves.error is None
    for client in (stays, leaves):
        events = list(alone.run(client.request, lambda: False))
        expected = [each for event in events if isinstance(event, Emitted) for each in event.tokens]
        found = [each.id for event in client.emitted for each in event.tokens]
        assert found == [each.id for each in expected][: len(found)] and found
