"""What a captured round repeats is at the same place in each round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda.graphs import Runner
from engine.backends.cuda.round import DeviceRound
from engine.decoding.text.codec import TextCodec
from engine.drafting.heads.base import Head
from engine.drafting.resources import Resources
from engine.events import Tree
from engine.local.session import Session
from engine.request import Speculation
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.backends.cuda.small import load
from tests.engine.backends.cuda.test_heads import HOT, load_head
from tests.engine.backends.cuda.test_rounds import NONE, run, words
from tests.engine.backends.cuda.test_trees import captured
from tests.engine.kernels.cuda.where import INTERPRETED

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]
__all__ = ["captured", "load_head"]

TEXT, DRAFT = (5, 6, 7, 8), (9, 10)
TREE = Tree(DRAFT, (-1, -1))


@pytest.mark.parametrize("moved", ["", "allowed", "precomputed", "q", "drafted", "tree"])
def test_what_the_host_writes_stays_where_the_graph_reads_it(
    folders: tuple[Path, Path], captured: list[str], moved: str
) -> None:
    """A tensor that is another one in the second round is found."""
    if moved and not INTERPRETED:
        pytest.skip("a graph of a device cannot tell")
    model = load(folders[0])
    state, vocabulary = model.new_state(64), model.info.vocabulary
    logits = model.forward(TEXT[:-1], state, last=3).clone()
    round = DeviceRound(model, state)
    runner = Runner(round)
    allowed = torch.full((3, -(-vocabulary // 32)), -1, dtype=torch.int32, device=logits.device)

    def launch(rule: AcceptanceRule) -> None:
        runner.begin(Sampling(temperature=1.0), rule, 0, TEXT, len(TEXT))
        tree = rule is AcceptanceRule.COUPLED
        runner.put(
            DRAFT, None if tree else logits[:2].softmax(1), TREE.row_parents if tree else None
        )
        if moved in ("drafted", "tree") and captured:
            _move(round.state, moved)
        elif moved and captured:
            _move(round, moved)
        runner.allow(allowed)
        given: dict[str, Any] = {} if tree else {"logits": logits, "sampled": True}
        runner.launch(2, masked=True, tree=tree, **given).read()

    rule = AcceptanceRule.COUPLED if moved in ("drafted", "tree") else AcceptanceRule.REJECTION
    launch(rule)
    if moved:
        with pytest.raises(AssertionError, match="not what was captured"):
            launch(rule)
        return
    for rule in (AcceptanceRule.COUPLED, AcceptanceRule.REJECTION, AcceptanceRule.COUPLED):
        launch(rule)
    assert len(captured) == 2 and runner.captures and not runner._uncaptured


@pytest.mark.parametrize(
    "kind",
    [
        "draft",
        "eagle3",
        *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in ("medusa", "mtp")),
    ],
)
def test_rounds_that_draft_pass_their_trial(
    folders: tuple[Path, Path], load_head: Callable[[str], Head], captured: list[str], kind: str
) -> None:
    """A dry run undoes all that a second one depends on, also of what drafts."""
    target, draft = folders
    if kind == "draft":
        resources = Resources(draft=load(draft, "int8"))
    else:
        resources = Resources(heads={kind: load_head(kind)})
    session = Session(load(target), TextCodec(target), resources)
    alone = words(session, NONE, HOT, max_tokens=5)
    _, done = run(session, Speculation(proposer=kind, depth=2), HOT, max_tokens=5)
    assert done.token_ids == alone
    runners: list[Any] = list(session.target._runners.values())
    assert not any(each._uncaptured for each in runners)
    assert any("drafts=True" in mode for mode in captured)


def _move(owner: object, name: str) -> None:
    object.__setattr__(owner, name, getattr(owner, name).clone())
