"""The grading of Pip: what is asked, and that a wrong answer counts as a miss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.local.engine import LocalEngine
from tests.support.loading import request_for
from tools.pip import exam
from tools.pip.corpora import guide


@pytest.fixture
def engine(pair: tuple[Path, Path]) -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as engine:
        engine.load(request_for(*pair))
        yield engine


def test_every_guide_topic_is_asked_in_every_held_out_wording() -> None:
    asked = exam.questions(per_kind=3, seed=1)
    counts = Counter(exam.kind_of(example) for example in asked)
    assert counts["guide"] == sum(len(topic.held_out) for topic in guide.load())
    assert counts["json"] + counts["table or list"] == 3
    assert {"rewrites", "talk", "problem", "tale"} <= set(counts)


def test_reference_replies_would_all_pass() -> None:
    for example in exam.questions(per_kind=20, seed=2):
        assert example.check is not None
        assert example.check.passes(example.messages[-1].content), example


def test_an_untrained_model_misses_and_the_misses_are_told(engine: LocalEngine) -> None:
    examples = exam.questions(per_kind=1, seed=3)[-4:]
    scores, misses = exam.run(engine, examples, max_tokens=8)
    assert sum(score.asked for score in scores) == 4
    assert sum(score.passed for score in scores) + len(misses) == 4
    assert misses
    value = exam.as_json(scores, misses)
    assert value["misses"][0]["reply"] == misses[0].reply
