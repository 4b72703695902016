"""What does not fit on the GPU is on the CPU, and changes no words."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton")

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.native.decoder import NativeDecoder
from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.kernels.native.library import Library
from engine.loading.catalog import Catalog
from engine.loading.files import fetch_pair
from engine.loading.loader import load_planned
from engine.loading.planning.plan import LoadPlan, plan_loading
from engine.local.session import Session
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.backends.cuda.small import CONTEXT, SIZES
from tests.engine.backends.cuda.test_rounds import GREEDY, NONE, draft, run, words
from tests.support.checkpoints import write_random
from tests.support.loading import request_for

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

HOT = Sampling(temperature=5.0, seed=3)
"""Target and draft share their noise, which decides here: so some drafts are accepted."""


def planned(target: Path, draft: Path | None = None, **settings: object) -> LoadPlan:
    request = request_for(target, draft, quantization="bf16", context=CONTEXT, **settings)
    return plan_loading(fetch_pair(request, Catalog((), ()), None), request)


def test_a_draft_on_the_cpu_drafts_for_a_target_on_the_gpu(
    folders: tuple[Path, Path], library: Library, tmp_path: Path
) -> None:
    """Words are those of ``none``; the draft's q goes to the device where a rule weighs it."""
    write_random(tmp_path, **{**SIZES, "intermediate_size": 32})
    plan = planned(folders[0], tmp_path, draft_device="cpu")
    assert plan.draft is not None
    target, small = load_planned(plan.target), load_planned(plan.draft)
    assert isinstance(target, CudaDecoder) and isinstance(small, NativeDecoder)
    session = Session(target, TextCodec(folders[0]), Resources(draft=small))
    for sampling in (GREEDY, HOT):
        rounds, done = run(session, draft(3), sampling)
        assert done.token_ids == words(session, NONE, sampling)
        assert any(len(round.tree) == 3 for round in rounds)
    assert any(round.accepted_path for round in rounds)
    weighed, _ = run(session, draft(2, acceptance=AcceptanceRule.REJECTION), HOT)
    assert all(q is not None and 0 < q <= 1 for round in weighed for q in round.q)
