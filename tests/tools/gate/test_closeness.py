"""The reference for closeness is the model itself, and what is less exact is further from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fixtures import gguf_pair, pair
from tests.support.places import PIP
from tools.gate import closeness, reference
from tools.gate.side import KEPT

__all__ = ["gguf_pair", "pair"]


@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_the_same_weights_in_fp32_are_at_no_distance_and_int8_is(
    kind: str, gguf_pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gguf_pair[0] if kind == "gguf" else PIP / "target"
    monkeypatch.setattr(closeness, "WINDOW", 96)  # of the tokens; four fifths of them are scored
    out = tmp_path / "reference.pt"
    reference.write_reference(model, KEPT, out)
    same = closeness.measure(model, KEPT, out, "fp32")
    rounded = closeness.measure(model, KEPT, out, "int8")
    assert same["positions"] == 64 and abs(same["kl"]) < 1e-6
    assert rounded["kl"] > 1e-5


def test_the_kept_text_fills_the_window_of_the_smallest_vocabulary() -> None:
    tokens, positions = closeness.window(PIP / "target", KEPT, 1024)
    assert (len(tokens), positions) == (closeness.WINDOW, closeness.POSITIONS)
