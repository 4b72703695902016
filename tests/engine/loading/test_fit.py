"""What fits: weights, both KV caches, and how much context is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.loading.catalog import load_catalog
from engine.loading.planning.fit import (
    DEFAULT_CONTEXT,
    GPU_HEAD_BYTES,
    GPU_OVERHEAD,
    GPU_PASS_BYTES,
    GPU_POOL_BYTES,
    TOKEN_BYTES,
    fit,
)
from engine.loading.planning.model_size import ModelSize
from engine.machine import memory
from engine.models.checkpoints.checkpoint import inspect
from engine.values import CHECKPOINT_MB
from engine.values.units import format_bytes
from tests.support.families import write_family
from tests.support.folders import write_model
from tests.support.places import ROOT

BIG = ModelSize("Big", parameters=1_000_000, layers=10, kv_heads=4, head_dim=64, context=1000)
SMALL = ModelSize("Small", parameters=100_000, layers=2, kv_heads=1, head_dim=64, context=500)
BIG_TOKEN = 2 * 10 * 4 * 64 * 2
SMALL_TOKEN = 2 * 2 * 1 * 64 * 2


@pytest.fixture(autouse=True, scope="module")
def no_overhead() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.loading.planning.fit.OVERHEAD", 0)
        yield


def test_the_sum_counts_weights_and_caches_of_both() -> None:
    found = fit(BIG, SMALL, context=300, free=10**9)
    assert found.weights == 2 * 1_100_000
    assert found.kv == 300 * (BIG_TOKEN + SMALL_TOKEN)
    assert found.needed == found.weights + found.kv
    assert found.fits
    assert found.context == 1000


def test_vocabularies_take_memory_beside_the_weights() -> None:
    bare, listed = (fit(replace(BIG, vocabulary=n), SMALL, free=0).work for n in (0, 1000))
    assert listed - bare == 1000 * TOKEN_BYTES


def test_a_draft_caches_no_more_than_its_own_context() -> None:
    found = fit(BIG, SMALL, context=1000, free=10**9)
    assert found.kv == 1000 * BIG_TOKEN + 500 * SMALL_TOKEN


def test_wider_numbers_take_more() -> None:
    narrow, wide = (
        fit(replace(BIG, weights=kind, cache=kind), free=0) for kind in ("bf16", "fp32")
    )
    assert wide.needed == 2 * narrow.needed


def test_quantised_weights_take_less_and_caches_what_they_compute_in() -> None:
    held = {
        kind: fit(replace(BIG, weights=kind, cache="fp32"), context=10, free=0)
        for kind in ("int8", "nf4")
    }
    assert held["int8"].weights == 1_010_000
    assert held["nf4"].weights == 531_250
    assert held["int8"].kv == 10 * 2 * BIG_TOKEN


def test_an_embedding_that_is_the_head_too_is_kept_twice(tmp_path: Path) -> None:
    """In bf16 as well, where it was forgotten: 1.2 GB beside the 5.2 GB of Gemma 2 2B."""
    found = inspect(write_model(tmp_path, vocabulary=32, hidden=8))
    plain, quantised = ModelSize.of(found, "fp32"), ModelSize.of(found, "int8")
    assert plain.repeated == 32 * 8
    assert plain.weight_bytes() == 4 * (found.parameters + 32 * 8)
    assert quantised.weight_bytes() == int(1.01 * (found.parameters + 32 * 8))
    apart = write_model(tmp_path, vocabulary=32, config={"tie_word_embeddings": False})
    assert ModelSize.of(inspect(apart)).repeated == 0


def test_too_long_a_context_says_how_much_fits() -> None:
    free = 2_000_000 + 100 * BIG_TOKEN
    found = fit(BIG, free=free)
    assert not found.fits
    assert found.context == 100
    assert "up to 100 tokens fits" in found.sentence
    assert "For more, choose a smaller model" in found.sentence


def test_no_more_context_is_counted_than_the_engine_takes_unasked() -> None:
    """The Models page counted 128k of cache for a model that is loaded with 32k, and warned."""
    long = replace(BIG, context=131_072)
    found = fit(long, free=10**12)
    assert found.kv == DEFAULT_CONTEXT * BIG_TOKEN
    assert found.context == 131_072
    assert f"{DEFAULT_CONTEXT:,} tokens" in found.sentence
    assert fit(long, context=65_536, free=10**12).kv == 65_536 * BIG_TOKEN


def test_weights_that_do_not_fit_name_a_remedy() -> None:
    found = fit(BIG, SMALL, free=1_000_000)
    assert (found.fits, found.context) == (False, 0)
    assert "The weights alone do not fit" in found.sentence
    assert "n-gram" not in found.sentence  # the target alone would not fit either
    assert "n-gram without a draft" in fit(BIG, SMALL, free=2_100_000).sentence


def held(*models: ModelSize) -> dict[str, list[ModelSize]]:
    return {
        kind: [replace(model, weights=kind) for model in models] for kind in ("bf16", "int8", "nf4")
    }


@pytest.mark.parametrize(
    ("free", "told"),
    [
        (11_300_000, "int8 would need 11.2 MB. For more, choose that quantization, a smaller"),
        (1_010_000 + 600 * BIG_TOKEN, "int8 would fit with a context of up to 600 tokens."),
        (531_250 + 520 * BIG_TOKEN, "nf4 would fit with a context of up to 520 tokens."),
        (540_000, "Even nf4 would need 10.8 MB. To load it, choose a smaller model"),
    ],
)
def test_weights_that_do_not_fit_are_told_with_what_would(free: int, told: str) -> None:
    """Issue: "int8 would need 1.3 GB". Only what is narrower than what was asked for is named."""
    found = fit(BIG, free=free, instead=held(BIG))
    assert told in found.sentence, found.sentence
    assert "bf16 would" not in found.sentence


def test_a_pair_that_fits_is_not_told_of_other_quantisations() -> None:
    assert "would" not in fit(BIG, SMALL, free=10**9, instead=held(BIG, SMALL)).sentence


def test_unknown_sizes_are_said_not_guessed() -> None:
    found = fit(ModelSize("Ghost", 0, 0, 0, 0, 0), free=10**9)
    assert not found.fits
    assert "not known yet" in found.sentence


@given(free=st.integers(0, 30_000_000), with_draft=st.booleans())
def test_the_largest_context_fits_and_one_more_does_not(free: int, with_draft: bool) -> None:
    models = [BIG, SMALL] if with_draft else [BIG]
    largest = fit(*models, free=free).context
    if largest:
        assert fit(*models, context=largest, free=free).fits
    if 0 < largest < BIG.context:
        assert not fit(*models, context=largest + 1, free=free).fits


def test_sizes_come_from_folders_and_from_the_catalog(tmp_path: Path) -> None:
    found = inspect(write_model(tmp_path / "model", vocabulary=32, hidden=8))
    size = ModelSize.of(found, cache="fp32")
    assert (size.name, size.parameters) == ("model", found.parameters)
    assert size.kv_bytes_per_token() == 2 * 1 * 1 * 4 * 4
    catalog = load_catalog(ROOT / "model_catalog.yaml")
    llama = ModelSize.of(catalog.model("llama-3.1-8b"))
    assert llama.kv_bytes_per_token() == 131_072


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("qwen3.5", 3 * 4 * (2 * 16 * 16 * 16 + 48 * (2 * 4 * 16 + 16 * 16 + 2 * 16))),
        ("lfm2", 2 * 4 * 48 * 32),
        ("granite, hybrid", 2 * 4 * (2 * 16 * 8 * 16 + 48 * (16 * 8 + 2 * 2 * 16 + 16))),
    ],
)
def test_a_hybrid_counts_its_attention_and_its_states(
    name: str, states: int, tmp_path: Path
) -> None:
    """One of its layers attends; what the others keep does not grow with the context."""
    write_family(tmp_path, name)
    found = inspect(tmp_path)
    size = ModelSize.of(found, cache="fp32")
    assert (size.layers, size.kv_bytes_per_token()) == (1, 2 * found.kv_heads * found.head_dim * 4)
    assert size.kv_bytes(0) == states + (CHECKPOINT_MB << 20)


def test_the_machine_is_asked_when_nothing_is_given() -> None:
    assert 0 < memory.free_bytes() <= memory.total_bytes()
    assert fit(BIG).free > 0


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_500, "2 kB"), (12_300_000, "12.3 MB"), (1_503_264_768, "1.5 GB"),
     (141_107_412_992, "141 GB"), (999_960_000, "1.0 GB")],
)  # fmt: skip
def test_bytes_for_people(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_features_count_for_every_token_in_the_caches_type() -> None:
    plain, aux_states = replace(BIG, cache="fp32"), replace(BIG, cache="fp32", aux_width=300)
    more = aux_states.kv_bytes_per_token() - plain.kv_bytes_per_token()
    assert more == 4 * 300
    found = [fit(size, context=10, free=10**9).needed for size in (plain, aux_states)]
    assert found[1] - found[0] == 10 * 4 * 300


def test_all_that_drafts_counts_and_is_named() -> None:
    head = ModelSize("medusa", 1000, 0, 0, 0, 10**9, weights="int8")
    found = fit(BIG, SMALL, head, context=100, free=10**9)
    assert found.weights - fit(BIG, SMALL, context=100, free=10**9).weights == 1010
    assert f"{BIG.name}, {SMALL.name} and medusa need" in found.sentence


def test_layers_that_differ_count_with_their_own_sizes(tmp_path: Path) -> None:
    """Of Gemma 4 two sliding layers and a wider one make keys and values, which three others read."""
    write_family(tmp_path, "gemma4")
    assert ModelSize.of(inspect(tmp_path)).kv_bytes_per_token() == 2 * 2 * 2 * (8 + 16 + 8)


def test_on_a_gpu_attention_counts_for_each_size_of_heads(tmp_path: Path) -> None:
    """Gemma 4's wide heads have a workspace and a table of their own."""
    write_family(tmp_path, "gemma4")
    size = ModelSize.of(inspect(tmp_path))
    each = [replace(size, kv_sizes=(one,)) for one in set(size.kv_sizes)]
    assert len(each) == 2
    assert size.attention_bytes(512, True) == sum(one.attention_bytes(512, True) for one in each)


HELD = replace(BIG, heads=8, vocabulary=5_000)


def test_on_a_cpu_threads_and_positions_count() -> None:
    """They were left out: 1.3 GB of a 70B on 64 threads, and 200 MB of a small pair at 262,144 tokens."""
    size = replace(HELD, hidden=100, widest=300, context=10**6)
    one, more = (fit(size, context=10, free=0, threads=count).work for count in (1, 64))
    assert more - one == 63 * 64 * 4 * (3 * 100 + 300)
    short, long = (fit(size, context=count, free=0).work for count in (10, 1000))
    assert long - short == 990 * 4 * 64


@pytest.mark.parametrize("name", ["qwen3.5", "gemma4", "granite, hybrid", "gpt-oss"])
def test_the_widest_rows_are_those_that_the_layers_matrices_take(name: str, tmp_path: Path) -> None:
    write_family(tmp_path, name)
    found = inspect(tmp_path)
    shapes = {name: each.shape for name, each in found.tensors.items() if ".layers." in name}
    assert ModelSize.of(found).hidden == found.hidden
    assert ModelSize.of(found).widest == max(
        shape[1] for shape in shapes.values() if len(shape) == 2
    )


def test_on_a_gpu_graphs_attention_and_sampling_count() -> None:
    found = fit(HELD, context=512, free=10**10, gpu=True)
    attention = 64 * 8 * 2 * 4 * (64 + 2)  # two splits of 256 positions
    attention += 512 * 4 * 64  # the turn of each position
    row = 5_000 * 4 * 20
    graphs = GPU_POOL_BYTES + (3 * 9 + 18) * GPU_PASS_BYTES
    assert found.work == GPU_OVERHEAD + graphs + attention + 16 * row
    assert found.needed == found.weights + found.kv + found.work
    long = replace(HELD, context=10**6)
    works = [fit(long, context=size, free=10**10, gpu=True).work for size in (40_000, 400_000)]
    assert works[1] - works[0] == 360_000 * 4 * 64  # more positions turn, in no more parts


def test_on_a_gpu_rounds_count_for_whatever_drafts_in_them() -> None:
    """Those of heads without layers did not, nor a second runner, nor the drafts of rare graphs."""

    def work(*drafting: ModelSize) -> int:
        return fit(HELD, *drafting, context=512, free=10**10, gpu=True).work - alone

    alone, row = fit(HELD, context=512, free=10**10, gpu=True).work, 5_000 * 4 * 20
    draft = replace(SMALL, heads=2)
    more = 3 * 8 + (3 + 2) * (1 + 2 + 3 + 4 + 5 + 7 + 10 + 15)  # passes of the target, and its own
    assert work(draft) - draft.attention_bytes(512, True) == more * GPU_PASS_BYTES + row
    medusa = ModelSize("medusa", 1000, 0, 0, 0, 512, cache="fp32", steps=3)
    drafted = 3 * 3 * GPU_PASS_BYTES + (3 + 2) * (1 + 2 + 3) * GPU_HEAD_BYTES + row
    assert work(medusa) == drafted
    assert work(ModelSize("tower", 1000, 0, 0, 0, 512, cache="fp32", steps=0)) == 0
    runner = GPU_POOL_BYTES + (3 * 9 + 18) * GPU_PASS_BYTES + 16 * row  # without a draft
    assert work(medusa, medusa) == work(medusa, medusa, medusa) == runner + 2 * drafted


def test_a_cache_in_fp8_takes_half_and_its_scales() -> None:
    narrow = fit(replace(BIG, cache="fp8"), context=100, free=0)
    assert narrow.kv == 100 * 2 * 10 * 4 * (64 + 4)


@given(free=st.integers(500_000_000, 560_000_000))
def test_on_a_gpu_too_the_largest_context_fits_and_one_more_does_not(free: int) -> None:
    largest = fit(HELD, free=free, gpu=True).context
    if largest:
        assert fit(HELD, context=largest, free=free, gpu=True).fits
    if 0 < largest < HELD.context:
        assert not fit(HELD, context=largest + 1, free=free, gpu=True).fits


def test_a_gpu_that_is_too_small_is_named_with_what_would_fit() -> None:
    whole = fit(HELD, free=0, gpu=True).needed
    found = fit(HELD, free=whole - 500_000, gpu=True, instead=held(HELD))
    assert not found.fits
    assert "MB are free on the GPU." in found.sentence
    assert "int8 would need" in found.sentence
    assert found.sentence.endswith("close other programs that use the GPU.")
