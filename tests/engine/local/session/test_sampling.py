"""Every field of ``Sampling`` acts on the words of a reply."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.local.session import Session
from engine.values.sampling import Sampling
from tests.engine.local.session.conftest import answered, asked
from tests.support.checkpoints import VOCABULARY
from tests.support.fakes import TableModel

BASE = Sampling(temperature=1.0, seed=3)
TELLING = {
    "temperature": 0.3,
    "top_k": 2,
    "top_p": 0.5,
    "min_p": 0.5,
    "repetition_penalty": 2.0,
    "presence_penalty": 2.0,
    "frequency_penalty": 2.0,
    "seed": 4,
}
"""A value of each field by which other words come than by those of ``BASE``."""


@pytest.fixture
def session(pair: tuple[Path, Path]) -> Session:
    """One whose target chooses among few tokens, wherever it is."""

    def steep(tokens: list[int]) -> list[float]:
        return [8 - 0.5 * (token - 40) if 40 <= token < 46 else 0.0 for token in range(VOCABULARY)]

    model = TableModel(steep, VOCABULARY, context=200)  # type: ignore[arg-type]
    return Session(model, TextCodec(pair[0]), Resources())


def words(session: Session, sampling: Sampling) -> tuple[int, ...] | None:
    request = asked(proposer="none", depth=0, sampling=sampling, max_tokens=60)
    return answered(session, request)[1].token_ids


def test_every_field_has_a_telling_value() -> None:
    assert set(TELLING) == {each.name for each in fields(Sampling)}


@pytest.mark.parametrize("name", TELLING)
def test_a_field_of_sampling_changes_the_words(session: Session, name: str) -> None:
    """One that nothing reads would be taken, kept and shown, and do nothing."""
    neutral = words(session, BASE)
    assert words(session, BASE) == neutral
    assert words(session, replace(BASE, **{name: TELLING[name]})) != neutral  # type: ignore[arg-type]
