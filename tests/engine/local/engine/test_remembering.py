"""What the engine remembers of replies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.local.engine import LocalEngine
from engine.models.checkpoints.checkpoint import fingerprint
from engine.request import Speculation
from tests.engine.local.engine.conftest import asked
from tests.support.loading import request_for


def test_replies_are_remembered_for_each_model_and_only_where_that_was_asked_for(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    for remember in (False, True):
        engine = LocalEngine(remembered=tmp_path)
        engine.load(request_for(*pair))
        speculation = Speculation(proposer="suffix", options={"remember": remember})
        list(engine.generate(replace(asked(), speculation=speculation)))
        engine.unload()
        engine.close()
        assert len(list(tmp_path.glob("*/replies/newer.jsonl"))) == remember
    (folder,) = tmp_path.iterdir()
    assert folder.name == fingerprint(pair[0]) != fingerprint(pair[1])
