"""What a report says, and that nobody's text in it is more than text."""

from __future__ import annotations

import re

from engine.bench.real.contest import (
    Answer,
    Case,
    Method,
    NotMeasured,
    Reply,
    Result,
    Setting,
    Turn,
)
from engine.bench.verify.comparison import Change, Difference, Found, Row, ShownToken
from engine.bench.verify.report import Report, of_peers, visible
from engine.decoding.text.codec import TextCodec
from engine.values.sampling import Sampling
from tests.support.places import PIP

HOSTILE = "Hi\x1b[2J\u202e ````\n# A heading\n<img src=x onerror=alert(1)> ``` | end"


def found(differ: int = 0) -> Found:
    rows = [
        Row("fp32", "none", "greedy", 1, 2, 12),
        Row("fp32", "draft", "greedy", 1, 2, 12, 8, 4, differ),
        Row("fp32", "none", "greedy", 4, 4, 24),
    ]
    place = Change(0, 2, ShownToken(40, " |<b>", -0.25), ShownToken(41, "`\n", None))
    one = Difference("fp32", "draft", 1, 5, Sampling(seed=77), place)
    keys = ((row.quantization, row.proposer, row.rule, row.at_once) for row in rows)
    return Found(dict(zip(keys, rows, strict=True)), [one] * differ)


def test_equal_replies_are_counted_without_those_they_are_compared_with() -> None:
    report = Report(["Hello"], "Pip", found())
    assert report.verdict().startswith("All 6 replies (36 tokens) are equal")
    head, lines = report.table("fp32")
    assert head == ("method", "drafted", "accepted", "temperature 0", "4 at once")
    assert lines == [
        ("No drafting (none)", "-", "-", "compared with", "4 replies equal"),
        ("Draft model (draft)", "8", "50.0\u00a0%", "2 replies equal", "-"),
    ]


def test_a_difference_is_told_with_place_tokens_and_log_probabilities() -> None:
    report = Report(["Hello"], "Pip", found(differ=1))
    assert report.verdict().startswith("1 of 6 replies differ")
    (told,) = (one for one in report.sentences() if "differs first" in one)
    assert told == (
        "fp32, Draft model, depth 5, 1 at once, temperature 0.0, seed 77: prompt 1 differs first at "
        "token 3. Without drafts it is ' |<b>' (token 40, log probability -0.25), with them '`\\n' "
        "(token 41)."
    )
    assert "1 of 2 replies differ" in report.table("fp32")[1][1]
    assert report.as_json()["differences"][0]["first"]["expected"]["id"] == 40


def test_hostile_text_stays_text() -> None:
    report = Report([HOSTILE, "x" * 5000], "<b>*Pip*", found(differ=1), facts={"a|b": "[c](d)"})
    page = report.markdown()
    assert "\x1b" not in page and "\u202e" not in page and "\\x1b[2J" in page
    assert page.startswith("# Verification of \\<b\\>\\*Pip\\*\n")
    fenced = re.search(r"^(`{5,})\n(.*?)\n\1$", page, re.DOTALL | re.MULTILINE)
    assert fenced is not None and fenced[2] == visible(HOSTILE)
    outside = page.replace(fenced[0], "")
    assert "<img" not in outside and "\n# A heading" not in outside
    assert "| a\\|b | \\[c\\](d) |" in outside
    assert "' \\|\\<b\\>'" in outside
    assert "x" * 2000 in page and "x" * 2001 not in page
    assert "the first 2,000 of 5,000 characters" in page


def test_only_the_first_prompts_are_shown() -> None:
    page = Report([f"Prompt called {n}." for n in range(60)], "Pip", found()).markdown()
    assert "called 49" in page and "called 50" not in page and "## Prompts (60;" in page


def test_other_engines_are_compared_with_themselves() -> None:
    plain, draft, lookup = (
        Setting(m.value, m) for m in (Method.PLAIN, Method.DRAFT, Method.LOOKUP)
    )
    said = {
        plain: ((5, 6, 7, 1), (5, 8, 1)),
        draft: ((5, 6, 7, 1, 9), (5, 9, 1)),  # 1 ends a reply: what follows does not count
        lookup: ((5, 6, 7, 1), (5, 8)),
    }
    answers = tuple(
        Answer(0, setting, number, Reply(tokens, 1, 0.1, 1, 0.1))
        for setting, replies in said.items()
        for number, tokens in enumerate(replies)
    )
    turn = Turn(0, "peer", "Q8_0", tuple(said), 1.0, None, answers)
    orphan = Answer(0, draft, 0, Reply((1,), 1, 0.1, 1, 0.1))
    other = Turn(0, "other", "Q4", (draft,), 1.0, None, (orphan,))
    result = Result(("chat", "chat"), (turn, other), (NotMeasured("third", "It fell."),))
    rows = of_peers(result, Case(PIP / "target", None, frozenset({1}), (), 64, 8, 1))
    assert [(row.engine, row.setting, row.kept, row.prompts) for row in rows] == [
        ("peer", "draft model", 1, 2),
        ("peer", "n-grams", 2, 2),
    ]
    text = TextCodec(PIP / "target").token_text
    assert rows[0].first == Change(1, 1, ShownToken(8, text(8)), ShownToken(9, text(9)))
    assert rows[1].first is None
    report = Report(["a", "b"], "Pip", found(), rows, result.absent)
    assert report.peer_table()[1][0] == ("peer", "Q8_0", "draft model", "1 of 2")
    told = "\n".join(report.sentences())
    assert "peer, Q8_0, draft model: prompt 2 differs first at token 2." in told
    assert "Not measured: third. It fell." in told
