"""The card of a trained model."""

from __future__ import annotations

import json
from pathlib import Path

from tests.tools.pip.conftest import TINY
from tools.pip.export import export_model, write_card
from tools.pip.network import config_of, new_model


def test_the_card_tells_data_curve_and_evaluation(tmp_path: Path) -> None:
    model = new_model(config_of(TINY, 320, 0, 1, 2), seed=0)
    (tmp_path / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "tokenizer" / name).write_text("{}")
    export_model(model, tmp_path / "tokenizer", tmp_path / "model")
    (tmp_path / "figures.json").write_text(json.dumps({"guide": 0.93}))
    log = [{"tokens": 100, "seconds": 60.0, "loss": 2.5}, {"held_out": {"talk": 1.25}}]
    write_card(tmp_path / "model", "Tiny", "A test.", log, tmp_path / "figures.json")
    card = (tmp_path / "model" / "README.md").read_text()
    for part in ("CC BY-SA 4.0", "| 100 | 1.0 | 2.500 |", "| talk | 1.250 |", "| guide | 0.93 |"):
        assert part in card
