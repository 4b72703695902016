"""A reply as one HTML file: its replay, with script and style inside, and no network."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable

from app import paths
from app.ui import words
from app.ui.endpoints import View
from app.ui.rounds import view
from engine import trace
from engine.errors import InvalidRequest
from engine.events import Emitted, Event, Started
from engine.reply import ReplyState
from engine.values.units import counted

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="facts">{facts}</p>
<div id="replay"></div>
<details><summary>{whole}</summary><pre>{text}</pre></details>
</main>
<script type="application/json" id="reply">{told}</script>
<script>{script}</script>
</body>
</html>
"""  # noqa: E501


def page(lines: Iterable[str], number: int | None = None) -> str:
    """Return the HTML file for a trace's reply ``number``, from 1 on; None: the last one.

    Raises InvalidRequest for a file that is no trace, a missing reply, or a reply without rounds.
    """
    replies = _replies(lines)
    if not replies:
        raise InvalidRequest(
            "reply", "This trace has no replies. Use a file from `foretoken chat --trace`."
        )
    number = number or len(replies)
    if not 0 < number <= len(replies):
        there = counted(len(replies), "reply", "replies")
        raise InvalidRequest("reply", f"This trace has {there}, and none is number {number}.")
    events = replies[number - 1]
    rounds = [view.show(e) for e in events if isinstance(e, Emitted) and e.round is not None]
    if not rounds:
        raise InvalidRequest(
            "reply",
            "No round data for this reply: it stopped before the first round, or came from a "
            "server that does not report rounds. Choose another reply, or save it as JSONL.",
        )
    reply = ReplyState()
    for event in events:
        reply.add(event)
    started = next(e for e in events if isinstance(e, Started))
    by = f" by {started.model}" if started.model else ""
    return _PAGE.format(
        title=html.escape(f"A reply{by}, round by round"),
        facts=html.escape(words.replay_facts(started, reply.statistics)),
        whole="Full reply",
        text=html.escape(reply.text),
        told=_embedded({"rounds": rounds}),
        style=_bundle("replay.css"),
        script=_bundle("replay.js"),
    )


def _replies(lines: Iterable[str]) -> list[list[Event]]:
    found: list[list[Event]] = []
    for event in trace.read(lines):
        if isinstance(event, Started):
            found.append([])
        if found:
            found[-1].append(event)
    return found


def _bundle(name: str) -> str:
    return (paths.assets() / "ui" / name).read_text(encoding="utf-8")


def _embedded(value: View) -> str:
    """Return JSON that cannot close the HTML element that holds it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
