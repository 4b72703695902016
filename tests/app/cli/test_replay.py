"""``foretoken replay``: a trace as one file, of any version. How it plays stands with browser tests."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

from engine import trace
from engine.events import Emitted, Event, Failed, Started
from tests.app.cli.conftest import Foretoken
from tests.support.places import ROOT

DATA = ROOT / "tests" / "data"


def told(page: str) -> list[dict[str, object]]:
    """The rounds in the file."""
    found = re.search(r'<script type="application/json" id="reply">(.*?)</script>', page, re.DOTALL)
    assert found
    rounds: list[dict[str, object]] = json.loads(found[1])["rounds"]
    return rounds


def test_each_reply_of_a_trace_becomes_a_file_of_its_own(
    foretoken: Foretoken, tmp_path: Path
) -> None:
    source, file = DATA / "trace.jsonl", tmp_path / "reply.html"
    replies: list[list[Event]] = []
    with source.open(encoding="utf-8") as lines:
        for event in trace.read(lines):
            if isinstance(event, Started):
                replies.append([])
            replies[-1].append(event)
    for number, events in enumerate(replies, start=1):
        result = foretoken("replay", source, "--html", file, "--reply", number)
        assert result.status == 0, result.err
        page = file.read_text(encoding="utf-8")
        emitted = [e for e in events if isinstance(e, Emitted)]
        assert [each["s"] for each in told(page)] == [e.text for e in emitted]
        assert escape("".join(e.text for e in emitted)) in page
    last = file.read_text(encoding="utf-8")
    assert foretoken("replay", source, "--html", file).status == 0
    assert file.read_text(encoding="utf-8") == last
    # Whatever a browser would fetch: nothing is named but name spaces.
    assert all(
        each.startswith("http://www.w3.org/") for each in re.findall(r"https?://[\w./]+", last)
    )
    assert not re.search(r"\bimport\b|^export ", last, re.MULTILINE)


def test_words_of_a_reply_cannot_leave_their_place(foretoken: Foretoken, tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>\u2028"
    lines = (DATA / "trace.jsonl").read_text(encoding="utf-8").split("\n")
    events = list(trace.read(lines))
    emitted = next(e for e in events if isinstance(e, Emitted))
    made = [
        Started(hostile, "draft", "greedy", (1,)),
        Emitted(
            text=hostile,
            tokens=emitted.tokens,
            round=emitted.round,
            drafted=(hostile,) * len(emitted.drafted),
            next_text=hostile,
        ),
    ]
    source, file = tmp_path / "hostile.jsonl", tmp_path / "hostile.html"
    with source.open("w", encoding="utf-8") as stream:
        stream.writelines(trace.to_line(event) + "\n" for event in made)
    assert foretoken("replay", source, "--html", file).status == 0
    page = file.read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert told(page)[0]["s"] == hostile


def test_what_cannot_be_replayed_is_told(foretoken: Foretoken, tmp_path: Path) -> None:
    file = tmp_path / "reply.html"
    assert "cannot be read" in foretoken("replay", tmp_path / "none", "--html", file).err
    source = DATA / "trace.jsonl"
    result = foretoken("replay", source, "--html", file, "--reply", 7)
    assert result.status == 2
    assert "has 6 replies" in result.err
    failed = tmp_path / "failed.jsonl"
    with failed.open("w", encoding="utf-8") as stream:
        for event in (Started("m", "draft", "greedy", (1,)), Failed("no")):
            stream.write(trace.to_line(event) + "\n")
    assert "No round data" in foretoken("replay", failed, "--html", file).err
    failed.write_text("")
    assert "has no replies" in foretoken("replay", failed, "--html", file).err
    assert "cannot be written" in foretoken("replay", source, "--html", tmp_path).err
    assert not file.exists()
