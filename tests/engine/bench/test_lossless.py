"""Zero divergences, over every proposer, rule and quantisation; and that one would be told.

The full run is ``foretoken bench lossless --prompts 1000``; these are the same code on few prompts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.bench import lossless
from engine.decoding.acceptance import Acceptance
from engine.errors import InvalidRequest
from engine.events import Origin, Tree
from engine.local.engine import LocalEngine
from engine.request import PLAIN
from engine.train.data.prompts import read
from engine.values import MAX_DEPTH
from engine.values.messages import Message
from tests.support.heads import IN_FOLDERS, heads_of_pip
from tests.support.loading import request_for
from tests.support.places import PIP, ROOT

PROMPTS = read(ROOT / "assets" / "prompts" / "pip.jsonl").learned


@pytest.fixture
def engine(pair: tuple[Path, Path]) -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as engine:
        engine.load(request_for(*pair))
        yield engine


def test_the_embedded_pair_never_diverges_in_bf16() -> None:
    """The other formats are what ``tests/engine/test_lossless.py`` has, on more prompts."""
    with closing(LocalEngine()) as engine:
        heads = list(heads_of_pip())
        engine.load(request_for(PIP / "target", PIP / "draft", heads, quantization="bf16"))
        rows, divergences = lossless.run(engine, PROMPTS, 3, max_tokens=16)
    assert not divergences
    assert [(row.proposer, row.rule) for row in rows] == [
        (name, rule) for name in IN_FOLDERS for rule in ("greedy", "coupled")
    ]
    assert {(row.quantization, row.prompts, row.tokens) for row in rows} == {("bf16", 3, 48)}
    for name in IN_FOLDERS:
        own = [row for row in rows if row.proposer == name]
        drafted, accepted = sum(row.drafted for row in own), sum(row.accepted for row in own)
        if name == "assistant":  # Pip's is random
            assert 0 <= accepted < drafted
        else:
            assert 0 < accepted < drafted if name != PLAIN else drafted == 0, name


def test_a_random_pair_never_diverges(engine: LocalEngine) -> None:
    """Its rounds end everywhere: the draft is wrong as often as right. ``test_batch.py`` and
    ``test_loop.py`` have more of such rounds."""
    progress: list[tuple[int, int]] = []
    rows, divergences = lossless.run(
        engine, PROMPTS, 2, seed=3, on_progress=lambda done, total: progress.append((done, total))
    )
    assert not divergences
    assert progress == [(1, 2), (2, 2)]
    draft = next(row for row in rows if row.proposer == "draft")
    assert 0 < draft.accepted < draft.drafted


def test_a_divergence_is_told_with_its_place_and_both_logits(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that takes whatever comes first, right or wrong."""

    def gullible(choices: list[int], tree: Tree) -> Acceptance:
        if not tree.tokens:
            return Acceptance((), choices[0], Origin.BONUS)
        return Acceptance((0,), choices[1], Origin.CORRECTION)

    monkeypatch.setattr("engine.decoding.verifier.accept_matching", gullible)
    # What is taken so has a probability, and is not refused as a token of broken logits.
    monkeypatch.setattr("engine.bench.lossless._TRUNCATIONS", ({},))
    rows, divergences = lossless.run(engine, PROMPTS, 2, seed=3)
    assert sum(row.divergences for row in rows) == len(divergences) > 0
    greedy = next(one for one in divergences if one.rule == "greedy" and one.proposer == "draft")
    assert greedy.expected != greedy.found
    assert greedy.expected_logit is not None and greedy.found_logit is not None
    assert "none" not in {one.proposer for one in divergences}
    value = lossless.as_json(rows, divergences)
    assert value["divergences"][0]["prompt"] == divergences[0].prompt
    assert value["results"][0]["divergences"] == 0


def test_prompts_depths_and_temperatures_are_drawn_and_come_again() -> None:
    drawn = lossless.cases(PROMPTS, 200, seed=1)
    assert drawn == lossless.cases(PROMPTS, 200, seed=1) != lossless.cases(PROMPTS, 200, seed=2)
    assert len({case.messages for case in drawn}) == 200
    assert {case.depth for case in drawn} == set(range(1, MAX_DEPTH + 1))
    for case in drawn:
        greedy, coupled = case.samplings
        assert greedy.temperature == 0 < coupled.temperature
        assert all(said.role != "system" for said in case.messages)
    length = max(sum(len(m.content) for m in case.messages) for case in drawn)
    assert length <= lossless.LONGEST_PROMPT


def test_more_prompts_than_there_are_is_told() -> None:
    with pytest.raises(InvalidRequest, match="There are 1 prompts of at most 9 characters"):
        lossless.cases([(Message("user", "Hi"),), (Message("user", "Hi" * 9),)], 2, 1, longest=9)
