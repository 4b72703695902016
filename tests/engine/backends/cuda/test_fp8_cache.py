"""The target's KV cache in fp8: other numbers than in bf16, but the same guarantees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.state import DeviceState
from engine.decoding.text.codec import TextCodec
from engine.drafting.draft_reader import SameVocabulary
from engine.drafting.proposers.draft import DraftModelProposer
from engine.drafting.resources import Resources
from engine.kernels.cuda.kv_cache import FP8
from engine.local.engine import LocalEngine
from engine.local.session import Session
from engine.machine import devices
from engine.request import Speculation
from engine.values.sampling import Sampling
from tests.engine.backends.cuda.small import SIZES, load, tokens
from tests.engine.backends.cuda.test_decoder import distance
from tests.engine.backends.cuda.test_rounds import DRAWN, GREEDY, NONE, draft, words
from tests.engine.kernels.cuda.cases import check_cache
from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support.checkpoints import write_random
from tests.support.loading import request_for

pytestmark = [pytest.mark.gpu, pytest.mark.exhaustive, pytest.mark.usefixtures("device")]

APART = 0.12
"""Of the logits' norm. With 3 bits behind the point a key or value is off by 1/16 at most, and heads of
16 numbers, as here, average little of that out."""


@pytest.fixture(autouse=True)
def capable(device: torch.device) -> None:
    if device.type == "cuda" and torch.cuda.get_device_capability() < devices.FP8_CAPABILITY:
        pytest.skip("this device knows no e4m3")


@pytest.fixture(scope="module")
def model(folders: tuple[Path, Path]) -> CudaDecoder:
    return load(folders[0], kv_cache_dtype="fp8")


@pytest.fixture(scope="module")
def session(folders: tuple[Path, Path], model: CudaDecoder) -> Session:
    target, own = folders
    return Session(model, TextCodec(target), Resources(draft=load(own, "int8")))


def test_logits_are_near_those_over_a_cache_in_bf16(
    folders: tuple[Path, Path], model: CudaDecoder
) -> None:
    wide, text = load(folders[0]), tokens(9)
    ours, theirs = model.new_state(64), wide.new_state(64)
    assert {part.dtype for slot in ours.static.slots for part in slot.tensors[:2]} == {FP8}
    sizes = [sum(part.nbytes for part in state.static.slots[0].tensors) for state in (ours, theirs)]
    assert sizes[0] < sizes[1]
    for part in (text[:5], text[5:6], text[6:]):
        found = model.forward(part, ours, last=len(part))
        expected = wide.forward(part, theirs, last=len(part)).cpu()
        assert 0 < distance(found, expected) < APART
    check_cache(ours.static)


def test_a_row_has_the_same_bits_beside_any_others(model: CudaDecoder) -> None:
    text, start, most = tokens(20), 3, 8 if INTERPRETED else 16
    cache = model.new_state(64)
    model.forward(text[:start], cache, last=0)
    behind = text[start : start + most]
    alone = torch.cat([model.forward([token], cache, last=1) for token in behind])
    for rows in (2, most) if INTERPRETED else range(2, most + 1):
        cache.rewind(start)
        assert torch.equal(model.forward(behind[:rows], cache, last=rows), alone[:rows]), rows


def test_what_was_rejected_leaves_no_trace(model: CudaDecoder) -> None:
    """Nor do its scales, whatever they were."""
    text = tokens(8)
    used, fresh = model.new_state(64), model.new_state(64)
    model.forward([*text[:3], 7, 8, 9, 10], used, last=0)
    for slot in used.static.slots:
        for scales in (slot.key_scales, slot.value_scales):
            assert scales is not None
            scales[:, 3:] *= 1e4
    used.rewind(3)
    model.forward(text[:3], fresh, last=0)
    assert torch.equal(
        model.forward(text[3:], used, last=5), model.forward(text[3:], fresh, last=5)
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("sampling", (DRAWN,) if INTERPRETED else (GREEDY, DRAWN), ids=str)
def test_words_do_not_depend_on_who_drafts(session: Session, sampling: Sampling) -> None:
    few = {"max_tokens": 3} if INTERPRETED else {}
    alone = words(session, NONE, sampling, **few)
    assert words(session, draft(2), sampling, **few) == alone
    if not INTERPRETED:
        for depth in (1, 5, 15):
            assert words(session, draft(depth), sampling) == alone
        assert words(session, Speculation(proposer="ngram", depth=3), sampling) == alone


@pytest.mark.skipif(INTERPRETED, reason="seconds; in bf16 it is interpreted too")
def test_a_follow_up_reuses_what_was_shown(session: Session) -> None:
    text = (5, 6, 7, 8, *words(session, draft(2), max_tokens=3), 11, 12)
    follow = {"token_ids": text, "reuse_cache": True, "max_tokens": 2}
    assert words(session, draft(2), **follow) == words(session, NONE, **follow)


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    running = LocalEngine()
    yield running
    running.close()


def test_only_the_targets_cache_is_narrow(
    engine: LocalEngine, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """A draft would lose more acceptance than its small cache would save."""
    write_random(tmp_path, **{**SIZES, "intermediate_size": 32})
    pair = folders[0], tmp_path
    loaded = engine.load(request_for(*pair, quantization="bf16", kv_cache_dtype="fp8"))
    assert loaded.kv_cache_dtype == "fp8"
    assert engine._pair is not None
    session = engine._pair.session
    assert isinstance(session.target.state, DeviceState)
    assert session.target.state.static.slots[0].keys.dtype == FP8
    words(session, draft(1), max_tokens=1)
    _, proposer = session._slots.first._proposers["draft"]
    assert isinstance(proposer, DraftModelProposer)
    assert isinstance(proposer.reader, SameVocabulary)
    assert isinstance(proposer.reader.state, DeviceState)
    assert proposer.reader.state.static.slots[0].keys.dtype == torch.bfloat16
    assert engine.load(request_for(*pair, quantization="bf16")).kv_cache_dtype == "bf16"
