"""A reply as one HTML file: its replay, with the scripts and styles of the pages inside, and no network.

The scripts are the pages' own, one behind the other: their imports and exports are left out, so no two of
them may name something alike.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from pathlib import Path

from app.ui.rounds import view
from app.ui.rounds.view import View
from app.ui.words import Words
from engine import trace
from engine.errors import InvalidRequest
from engine.events import Emitted, Event, Started
from engine.reply import ReplyState

SHARED = Path(__file__).parent / "shared"
SCRIPTS = (
    "dom.js",
    *(
        f"replay/{name}.js"
        for name in ("words", "timeline", "chips", "probe", "charts", "clock", "replay")
    ),
)
"""In the order of their imports."""
STYLES = ("base.css", "replay/replay.css")

_IMPORT = re.compile(r'^import \{[^}]*\} from "[^"]+";\n', re.MULTILINE)
_EXPORTED = re.compile(r"^export (?:\{[^}]*\};\n)?", re.MULTILINE)

_START = """
const told = JSON.parse(document.getElementById("reply").textContent);
const replay = new Replay();
document.getElementById("replay").append(replay.node);
replay.show(new Timeline(told.rounds));
"""
_THEME = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const apply = () => document.body.classList.toggle("dark", dark.matches);
dark.addEventListener("change", apply);
apply();
"""
_STYLE = """
:root:root body { margin: 0; overflow: auto !important; font-family: system-ui, sans-serif; }
:root { --font: system-ui, sans-serif; }
main { max-width: 760px; margin: 0 auto; padding: 28px 20px 60px; color: var(--ft-text); }
h1 { font-size: 20px; margin: 0 0 4px; }
.facts { margin: 0 0 18px; color: var(--ft-soft); font-size: 14px; }
:root .replay-text { max-height: 300px; min-height: 120px; font-size: 15px; }
details { margin-top: 20px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; line-height: 1.6; }
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title}</title>
<style>{styles}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="facts">{facts}</p>
<div id="replay"></div>
<details><summary>{whole}</summary><pre>{text}</pre></details>
</main>
<script type="application/json" id="reply">{told}</script>
<script>{theme}</script>
<script type="module">
{scripts}
{start}
</script>
</body>
</html>
"""  # noqa: E501


def page(lines: Iterable[str], number: int | None = None) -> str:
    """Return the HTML file for a trace's reply ``number``, from 1 on; None: the last one.

    Raises InvalidRequest for a file that is no trace, a missing reply, or a reply without rounds.
    """
    replies = _replies(lines)
    if not replies or not 0 < (number or len(replies)) <= len(replies):
        raise InvalidRequest("reply", Words.no_reply(number, len(replies)))
    events = replies[(number or len(replies)) - 1]
    rounds = [view.show(e) for e in events if isinstance(e, Emitted) and e.round is not None]
    if not rounds:
        raise InvalidRequest("reply", Words.NO_ROUNDS)
    reply = ReplyState()
    for event in events:
        reply.add(event)
    started = next((e for e in events if isinstance(e, Started)), None)
    return _PAGE.format(
        title=html.escape(Words.replay_of(started.model if started else "")),
        facts=html.escape(Words.replay_facts(started, reply.statistics)),
        whole=Words.WHOLE_REPLY,
        text=html.escape(reply.text),
        told=_embedded({"rounds": rounds}),
        styles="\n".join(_read(name) for name in STYLES) + _STYLE,
        scripts="\n".join(_bare(_read(name)) for name in SCRIPTS),
        theme=_THEME,
        start=_START,
    )


def _replies(lines: Iterable[str]) -> list[list[Event]]:
    found: list[list[Event]] = []
    for event in trace.read(lines):
        if isinstance(event, Started):
            found.append([])
        if found:
            found[-1].append(event)
    return found


def _read(name: str) -> str:
    return (SHARED / name).read_text(encoding="utf-8")


def _bare(script: str) -> str:
    """Return a module without its imports and exports."""
    return _EXPORTED.sub("", _IMPORT.sub("", script))


def _embedded(value: View) -> str:
    """Return JSON that cannot close the HTML element that holds it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
