"""What does not fit on the GPU is on the CPU, and changes no words."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton")

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.native.decoder import NativeDecoder
from engine.backends.split import SplitDecoder
from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.kernels.native.library import Library
from engine.loading.catalog import Catalog
from engine.loading.files import fetch_pair
from engine.loading.loader import load_planned
from engine.loading.planning.plan import LoadPlan, plan_loading
from engine.local.session import Session
from engine.request import Speculation
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.backends.cuda.small import CONTEXT, SIZES, load_reference, tokens
from tests.engine.backends.cuda.test_rounds import GREEDY, NONE, draft, run, words
from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support import sameness
from tests.support.checkpoints import write_random
from tests.support.loading import request_for
from tests.support.sameness import check_rollback, check_rows

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

HOT = Sampling(temperature=5.0, seed=3)
"""Target and draft share their noise, which decides here: so some drafts are accepted."""


def planned(target: Path, draft: Path | None = None, **settings: object) -> LoadPlan:
    settings = {"quantization": "bf16", "context": CONTEXT, **settings}
    request = request_for(target, draft, **settings)
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


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layers") / "two"
    write_random(folder, **{**SIZES, "num_hidden_layers": 2}, tie_word_embeddings=False)
    return folder


@pytest.mark.parametrize(
    "quantization", ["bf16", pytest.param("int8", marks=pytest.mark.exhaustive)]
)
def test_a_row_of_a_split_model_has_the_same_bits_beside_any_others(
    two_layers: Path, library: Library, quantization: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nearly the logits of the whole model in fp32."""
    monkeypatch.setattr(sameness, "_ROOM", CONTEXT)
    if INTERPRETED:
        monkeypatch.setattr(sameness, "_MOST_ROWS", 5)
    model = load_planned(planned(two_layers, gpu_layers=1, quantization=quantization).target)
    assert isinstance(model, SplitDecoder) and isinstance(model.rest, CudaDecoder)
    assert (len(model.first.architecture.layers), len(model.rest.layers)) == (1, 1)
    text, reference = tokens(26), load_reference(two_layers)
    check_rows(model, text, 10)
    check_rollback(model, text, [tokens(15, seed=at) for at in range(2)])
    ours = model.forward(text, model.new_state(CONTEXT), last=3)
    theirs = reference.forward(text, reference.new_state(CONTEXT), last=3)
    assert (ours - theirs).norm() < 0.05 * theirs.norm()


def test_words_of_a_split_model_do_not_depend_on_who_drafts(
    two_layers: Path, folders: tuple[Path, Path], library: Library
) -> None:
    """The draft is on the GPU; a follow-up goes on from what both parts hold."""
    plan = planned(two_layers, folders[0], gpu_layers=1)
    assert plan.draft is not None
    target, small = load_planned(plan.target), load_planned(plan.draft)
    assert isinstance(target, SplitDecoder) and isinstance(small, CudaDecoder)
    session = Session(target, TextCodec(two_layers), Resources(draft=small))
    for sampling in (GREEDY, HOT):
        rounds, done = run(session, draft(3), sampling)
        assert done.token_ids == words(session, NONE, sampling)
        assert words(session, Speculation(proposer="ngram", depth=3), sampling) == done.token_ids
    assert any(round.accepted_path for round in rounds)
    follow = {"token_ids": (5, 6, 7, *done.token_ids[:3], 9), "max_tokens": 3}
    again = [words(session, who, HOT, reuse_cache=True, **follow) for who in (draft(2), NONE)]
    assert again == [words(session, NONE, HOT, **follow)] * 2
