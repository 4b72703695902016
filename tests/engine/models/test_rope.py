"""Rotary frequencies: those that transformers computes, from either spelling of the settings."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import ModelError
from engine.models.architecture import Rope
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.models.rope import read_rope
from engine.models.rotation import interleave, rotations
from tests.support.folders import write_model

WIDTH, CONTEXT = 128, 16_384
SCALED: dict[str, dict[str, Any]] = {
    "linear": {"factor": 8.0},
    "dynamic": {"factor": 4.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 4096},
    "yarn, all settings": {
        "factor": 16.0,
        "original_max_position_embeddings": 1024,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 0.8,
        "mscale_all_dim": 1.2,
        "truncate": False,
    },
    "yarn, stated magnitude": {
        "factor": 4.0,
        "original_max_position_embeddings": 4096,
        "attention_factor": 0.9,
    },
    "longrope": {
        "short_factor": [1 + pair / 100 for pair in range(WIDTH // 2)],
        "long_factor": [1 + pair for pair in range(WIDTH // 2)],
        "original_max_position_embeddings": 4096,
    },
}


def checkpoint(folder: Path, **config: Any) -> Checkpoint:
    return inspect(write_model(folder, context=CONTEXT, config={"head_dim": WIDTH, **config}))


def settings_of(name: str) -> dict[str, Any]:
    return {"rope_type": name.split(",", maxsplit=1)[0], "rope_theta": 500_000.0, **SCALED[name]}


def transformers_rope(settings: dict[str, Any], tokens: int) -> Rope:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    build: Any = LlamaConfig
    config = build(head_dim=WIDTH, max_position_embeddings=CONTEXT, rope_parameters={**settings})
    compute: Any = ROPE_INIT_FUNCTIONS[settings["rope_type"]]
    frequencies, magnitude = compute(config, torch.device("cpu"), seq_len=tokens)
    return Rope(tuple(frequencies.tolist()), float(magnitude))


def assert_same(ours: Rope, theirs: Rope) -> None:
    assert ours.magnitude == pytest.approx(theirs.magnitude, rel=1e-6)
    assert ours.frequencies == pytest.approx(theirs.frequencies, rel=1e-5)


@pytest.mark.parametrize("context", [4096, CONTEXT])
@pytest.mark.parametrize("name", SCALED)
@pytest.mark.filterwarnings("ignore")
def test_scaled_frequencies_are_those_of_transformers(
    name: str, context: int, tmp_path: Path
) -> None:
    settings = settings_of(name)
    found = read_rope(checkpoint(tmp_path, rope_parameters=settings), context)
    assert_same(found, transformers_rope(settings, context))


@pytest.mark.parametrize("name", SCALED)
def test_the_earlier_spelling_means_the_same(name: str, tmp_path: Path) -> None:
    settings = settings_of(name)
    now = read_rope(checkpoint(tmp_path / "now", rope_parameters=settings), CONTEXT)
    kind, theta = settings.pop("rope_type"), settings.pop("rope_theta")
    earlier = {"rope_theta": theta, "rope_scaling": {"type": kind, **settings}}
    assert read_rope(checkpoint(tmp_path / "earlier", **earlier), CONTEXT) == now


def test_longrope_goes_by_the_context_that_is_loaded(tmp_path: Path) -> None:
    """Transformers changes over in the middle of a text: what was rolled back would leave a trace."""
    model = checkpoint(tmp_path, rope_parameters=settings_of("longrope"))
    short, long = read_rope(model, 4096), read_rope(model, 4097)
    assert short.frequencies[1] == pytest.approx(long.frequencies[1] * 2 / 1.01)
    assert short.magnitude == long.magnitude == pytest.approx(math.sqrt(1 + 2 / 12))


def test_an_unknown_scaling_is_refused_by_name(tmp_path: Path) -> None:
    model = checkpoint(tmp_path, rope_scaling={"rope_type": "spiral"})
    with pytest.raises(ModelError, match=r"'spiral'.*supported are default, dynamic, linear"):
        read_rope(model, CONTEXT)


def test_more_rotated_numbers_than_any_head_has_are_refused(tmp_path: Path) -> None:
    """A list of them filled the memory: of a file of a few hundred bytes, once it was listed."""
    model = checkpoint(tmp_path, partial_rotary_factor=1e7)
    with pytest.raises(ModelError, match="rotates 1,280,000,000 numbers of a head"):
        read_rope(model, CONTEXT)


def test_a_scaling_that_lacks_a_setting_names_it(tmp_path: Path) -> None:
    model = checkpoint(tmp_path, rope_scaling={"rope_type": "linear"})
    with pytest.raises(KeyError, match="factor"):
        read_rope(model, CONTEXT)


def test_half_a_head_turned_leaves_the_other_half_to_the_bit() -> None:
    rope = Rope((1.0, 0.5), magnitude=1.2)
    table = rotations(rope, 8, 10)
    assert table.shape == (10, 4)
    assert torch.equal(table[:, 2:], torch.ones(10, 2, dtype=torch.complex64))
    assert torch.allclose(table[3, :2], torch.polar(torch.tensor(1.2), torch.tensor([3.0, 1.5])))


def test_partners_come_to_lie_side_by_side() -> None:
    rows = torch.arange(16.0)[:, None].repeat(1, 3)  # two heads of 8
    moved = interleave(rows, 2, Rope((1.0, 0.5)))[:, 0]
    assert moved.tolist() == [0, 2, 1, 3, 4, 5, 6, 7, 8, 10, 9, 11, 12, 13, 14, 15]
    assert interleave(rows, 2, None) is rows


def test_settings_are_read_from_the_file_as_it_lies_there(tmp_path: Path) -> None:
    """A null rope_scaling, as most configurations before transformers 5 have it."""
    model = checkpoint(tmp_path, rope_theta=100.0, rope_scaling=None)
    assert json.loads((tmp_path / "config.json").read_text())["rope_scaling"] is None
    assert read_rope(model, CONTEXT).frequencies[32] == pytest.approx(100.0**-0.5)
