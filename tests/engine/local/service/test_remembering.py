"""What the service remembers of replies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.local.service import EngineService
from engine.models.checkpoints.checkpoint import fingerprint
from engine.request import Speculation
from tests.engine.local.service.conftest import asked


def test_replies_are_remembered_for_each_model_and_only_where_that_was_asked_for(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    for remember in (False, True):
        service = EngineService(tmp_path)
        service.load(*pair, name="Random")
        speculation = Speculation(proposer="suffix", options={"remember": remember})
        list(service.submit(replace(asked(), speculation=speculation)))
        service.unload()
        service.close()
        assert len(list(tmp_path.glob("*/replies/newer.jsonl"))) == remember
    (folder,) = tmp_path.iterdir()
    assert folder.name == fingerprint(pair[0]) != fingerprint(pair[1])
