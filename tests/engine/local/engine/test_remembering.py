"""What the engine remembers of replies, and of the machine."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from engine.drafting.controllers.warm_up import ROWS
from engine.local.engine import LocalEngine
from engine.models.checkpoints.checkpoint import fingerprint
from engine.request import Control, Speculation
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


def test_the_next_start_takes_what_this_one_measured(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    measuring = replace(asked(), speculation=Speculation(proposer="draft"))
    assert measuring.speculation.control is Control.AUTO
    for _ in range(2):
        with closing(LocalEngine(measured=tmp_path)) as engine:
            engine.load(request_for(*pair))
            list(engine.generate(measuring))
            assert engine._pair is not None
            verify = engine._pair.session.controllers.costs.verify
        file = tmp_path / f"{fingerprint(pair[0])}.json"
        content = json.loads(file.read_text())
        assert list(map(int, content["seconds"])) == list(ROWS)
        file.write_text(json.dumps({**content, "seconds": dict.fromkeys(content["seconds"], 1e6)}))
    assert verify(ROWS[-1]) > 1e5
