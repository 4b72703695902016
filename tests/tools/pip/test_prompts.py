"""The shipped prompts are what the generators make, and nothing of theirs is told twice."""

from __future__ import annotations

import json
from itertools import islice

from engine.train.data.prompts import read
from tests.support.places import ROOT
from tools.pip import prompts

SHIPPED = ROOT / "assets" / "prompts" / "pip.jsonl"


def test_the_shipped_file_is_what_the_generators_make() -> None:
    """Its beginning, whatever stands behind it: a change of the corpora needs a new file."""
    with SHIPPED.open(encoding="utf-8") as file:
        assert list(islice(file, 600)) == list(prompts.lines(learned=600 - prompts.HELD_OUT))


def test_the_shipped_prompts_are_as_many_as_said_and_no_two_alike() -> None:
    shipped = read(SHIPPED)
    assert (len(shipped.learned), len(shipped.held_out)) == (prompts.LEARNED, prompts.HELD_OUT)
    assert len({*shipped.learned, *shipped.held_out}) == prompts.LEARNED + prompts.HELD_OUT
    assert all(prompt[-1].role == "user" for prompt in (*shipped.learned, *shipped.held_out))


def test_every_kind_is_set_aside() -> None:
    lines = [json.loads(line) for line in prompts.lines(learned=200, held_out=16)]
    kinds = {line["kind"] for line in lines if line["held_out"]}
    assert kinds == {"guide", "records", "rewrites", "talk", "tale", "problem"}
