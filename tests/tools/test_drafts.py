"""Who drafts and how far, replayed on recorded drafts of Qwen2.5-Coder 1.5B and 0.5B, without a clock."""

from __future__ import annotations

import pytest

from engine.request import Control, Speculation
from engine.values import MAX_DEPTH
from tests.support.places import ROOT
from tools.drafts.record import read
from tools.drafts.replay import FIXED, QUIET, replay

TEXTS = read(ROOT / "tests" / "data" / "drafts.xz").texts
BEST = Speculation(proposer="best", depth=MAX_DEPTH, controller=Control.AUTO)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_no_fixed_setting_is_faster_than_best(temperature: float) -> None:
    """Over all texts. Of a single kind, which has two short ones, the best of many is partly luck."""
    texts = [text for text in TEXTS if text.temperature == temperature]
    assert {text.kind for text in texts} == {"code", "chat", "json", "rewrite"}
    chosen = replay(texts, BEST, QUIET)
    fixed = [
        replay(texts, Speculation(proposer=name, depth=depth), QUIET, seeds=1)
        for name, depth in FIXED
    ]
    for kind, speed in chosen.items():
        most = max(each[kind].speedup for each in fixed)
        assert speed.speedup > (1.02 if kind == "all" else 0.9) * most, kind
        assert speed.speedup > 1.0, kind  # of plain decoding


def test_the_first_reply_after_a_load_is_as_fast_as_later_ones() -> None:
    texts = [text for text in TEXTS if text.temperature == 0.0]
    later, first = (replay(texts, BEST, QUIET, cold=cold)["all"].speedup for cold in (False, True))
    assert first > 0.95 * later
