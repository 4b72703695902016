"""What was compared, what was equal and what it means: sentences, tables, Markdown, and stable JSON.

Prompts and models write some of the text: it is shown as it is, and never interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from operator import eq
from typing import Any

from engine.api import AS_STORED
from engine.bench.divergence import first_difference, token_at
from engine.bench.real.contest import Case, Method, NotMeasured, Result
from engine.bench.real.summary import by_setting, words
from engine.bench.reports.tables import Table, grid
from engine.bench.verify.comparison import (
    TEMPERATURES,
    TOP,
    Change,
    Difference,
    Found,
    Row,
    ShownToken,
)
from engine.decoding.text.codec import TextCodec
from engine.stats import percent
from engine.values.method_titles import method_title
from engine.values.sampling import AcceptanceRule
from engine.values.units import counted

MOST_SHOWN, LONGEST_SHOWN = 50, 2000
"""Prompts and differences of a page, and characters of a prompt."""
WHAT = (
    "Each reply is compared with what the target alone writes to the same prompt, without drafting: each "
    f"token, its log probability, and those of the {TOP} likeliest tokens in its place. Equal means all "
    "bits. Each prompt is asked at temperature 0 and at one drawn for it. Where several are asked at "
    "once, some are repeated to fill the last group."
)


@dataclass(frozen=True, slots=True)
class PeerRow:
    """One setting of another engine: prompts, how many kept their words, and where the first changed."""

    engine: str
    weights: str
    setting: str
    prompts: int
    kept: int
    first: Change | None


@dataclass(slots=True)
class Report:
    """One run of the pair ``name``. ``left_out``: sentences on what was not compared. ``absent``: other
    engines that failed."""

    prompts: Sequence[str]
    name: str = ""
    found: Found = field(default_factory=Found)
    peers: list[PeerRow] = field(default_factory=list)
    absent: Sequence[NotMeasured] = ()
    left_out: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    command: str = ""

    def verdict(self) -> str:
        """Say whether all replies are equal, and what it means."""
        every = self.found.rows.values()
        rows = [row for row in every if not row.is_reference]
        plain = sum(row.replies for row in every if row.is_reference)
        replies = counted(sum(row.replies for row in rows), "reply", "replies")
        what = "Drafting and batching" if any(row.at_once > 1 for row in rows) else "Drafting"
        if differ := len(self.found.differences):
            return (
                f"{differ:,} of {replies} differ from those without drafting. {what} must change no "
                "word, so this is a bug. Please report it with this report."
            )
        tokens = counted(sum(row.tokens for row in rows), "token")
        return (
            f"All {replies} ({tokens}) are equal to the {plain:,} without drafting, log probabilities "
            "included. "
            f"{what} changed the speed alone."
        )

    def sentences(self) -> list[str]:
        """Say what was compared, what was not, and where each method's words changed first."""
        first: dict[tuple[str, str, int], Difference] = {}
        for one in self.found.differences:
            first.setdefault((one.quantization, one.proposer, one.at_once), one)
        return [
            self.verdict(),
            WHAT,
            *self.left_out,
            *(_sentence(one) for one in list(first.values())[:MOST_SHOWN]),
            *(
                _changed(f"{r.engine}, {r.weights}, {r.setting}", r.first)
                for r in self.peers
                if r.first
            ),
            *(f"Not measured: {one.name}. {one.reason}" for one in self.absent),
        ]

    def table(self, quantization: str) -> Table:
        """Return a line for every method, by how it was asked."""
        mine = [row for row in self.found.rows.values() if row.quantization == quantization]
        columns, lines = list(dict.fromkeys(map(_column, mine))), []
        for name in dict.fromkeys(row.proposer for row in mine):
            own = [row for row in mine if row.proposer == name]
            drafted, accepted = (sum(getattr(r, f) for r in own) for f in ("drafted", "accepted"))
            share = (f"{drafted:,}", percent(accepted / drafted, 1)) if drafted else ("-", "-")
            cells = (_cell([row for row in own if _column(row) == column]) for column in columns)
            lines.append((f"{method_title(name)} ({name})", *share, *cells))
        return ("method", "drafted", "accepted", *columns), lines

    def peer_table(self) -> Table:
        """Return a line for every setting of other engines."""
        return ("engine", "weights", "setting", "keep the words it has without drafting"), [
            (row.engine, row.weights, row.setting, f"{row.kept} of {row.prompts}")
            for row in self.peers
        ]

    def markdown(self) -> str:
        """Return the whole report as a page."""
        parts = [f"# {_escaped(f'Verification of {self.name}')}", *map(_escaped, self.sentences())]
        for quantization in self.found.quantizations:
            parts += [f"## {weights(quantization)}", _grid(self.table(quantization))]
        if self.peers:
            parts += ["## Other engines", _grid(self.peer_table())]
        if self.command:
            parts += ["## Command", _fenced(visible(self.command))]
        parts += ["## Facts", _grid((("what", "value"), list(self.facts.items())))]
        parts.append(f"## Prompts ({len(self.prompts):,}; at most {MOST_SHOWN} are shown)")
        for number, prompt in enumerate(self.prompts[:MOST_SHOWN], start=1):
            cut = f" (the first {LONGEST_SHOWN:,} of {len(prompt):,} characters)"
            parts.append(f"Prompt {number}{cut if len(prompt) > LONGEST_SHOWN else ''}:")
            parts.append(_fenced(visible(prompt[:LONGEST_SHOWN])))
        return "\n\n".join(parts) + "\n"

    def as_json(self) -> dict[str, Any]:
        """Return the stable keys that scripts rely on; inner ones are the dataclasses' fields."""
        return {
            "facts": self.facts,
            "command": self.command,
            "prompts": self.prompts,
            "results": [asdict(row) for row in self.found.rows.values()],
            "left_out": self.left_out,
            "differences": [asdict(one) for one in self.found.differences],
            "peers": [asdict(row) for row in self.peers],
            "absent": [asdict(one) for one in self.absent],
        }


def of_peers(result: Result, case: Case) -> list[PeerRow]:
    """Return a row for each drafting setting of a contest of one repeat."""
    text = TextCodec(case.target).token_text
    written = {
        key: [words(one.reply.tokens, case.eos) for one in answers]
        for key, answers in by_setting(result).items()
    }
    plain = {key[:2]: said for key, said in written.items() if key[2].method is Method.PLAIN}
    rows = []
    for (engine, weights, setting), said in written.items():
        expected = plain.get((engine, weights))
        if expected is None or expected is said:
            continue
        first = None
        if place := first_difference(expected, said):
            ids = [token_at(replies[place[0]], place[1]) for replies in (expected, said)]
            first = Change(
                *place, *(None if id is None else ShownToken(id, text(id)) for id in ids)
            )
        kept = sum(map(eq, said, expected))
        rows.append(PeerRow(engine, weights, setting.name, len(said), kept, first))
    return rows


def weights(quantization: str) -> str:
    """Return the heading of what was compared with the weights in one format."""
    return "Weights as in the file" if quantization == AS_STORED else f"Weights in {quantization}"


def visible(text: str) -> str:
    """Return text with escapes in place of what is invisible, or could steer a terminal."""
    return "".join(
        each
        if each.isprintable() or each in "\n\t\u00a0"
        else each.encode("unicode_escape").decode()
        for each in text
    )


def _sentence(one: Difference) -> str:
    depth = "" if one.depth is None else f", depth {one.depth}"
    sampling = f"temperature {one.sampling.temperature}, seed {one.sampling.seed}"
    how = f"{one.at_once} at once, {sampling}"
    where = f"{one.quantization}, {method_title(one.proposer)}{depth}, {how}"
    return _changed(where, one.first)


def _changed(where: str, first: Change) -> str:
    return (
        f"{where}: prompt {first.prompt + 1} differs first at token {first.position + 1}. Without "
        f"drafts it is {_shown(first.expected)}, with them {_shown(first.found)}."
    )


def _column(row: Row) -> str:
    if row.at_once > 1:
        return f"{row.at_once} at once"
    low, high = TEMPERATURES
    return "temperature 0" if row.rule == AcceptanceRule.GREEDY else f"temperature {low} to {high}"


def _shown(place: ShownToken | None) -> str:
    if place is None:
        return "the end"
    likely = "" if place.logprob is None else f", log probability {place.logprob:.9g}"
    return f"{place.text!r} (token {place.id}{likely})"


def _cell(rows: Collection[Row]) -> str:
    replies, differ = sum(row.replies for row in rows), sum(row.differ for row in rows)
    if all(row.is_reference for row in rows):
        return "compared with" if rows else "-"
    said = counted(replies, "reply", "replies")
    return f"{differ:,} of {said} differ" if differ else f"{said} equal"


def _grid(table: Table) -> str:
    head, lines = table
    return grid(head, [[_escaped(cell) for cell in line] for line in lines])


def _fenced(text: str) -> str:
    fence = "`" * (1 + max(2, *map(len, re.findall("`+", text)), 0))
    return f"{fence}\n{text}\n{fence}"


def _escaped(text: str) -> str:
    """Return one line in which no sign means anything to Markdown."""
    return re.sub(r"([\\`*_\[\]<>|~&#@])", r"\\\1", " ".join(visible(text).split()))
