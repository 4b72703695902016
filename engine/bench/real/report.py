"""What is said of a contest: sentences, tables, a page of Markdown, stable JSON, and a chart."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from engine.bench.prompts import ALL
from engine.bench.real import summary
from engine.bench.real.contest import Case, Method, Result
from engine.bench.real.summary import Row, Spread
from engine.bench.reports import tables
from engine.bench.reports.tables import Bar, Table, grid
from engine.machine import processor
from engine.stats import times
from engine.values.units import format_bytes

HEAD = ("engine", "weights", "setting", ALL, "to its plain", "accepted", "length", "words",
        "repeats")  # fmt: skip
"""Columns of ``lines``; the kinds of prompts come after ``ALL``."""


class Report:
    """Everything that is said of one contest. ``ours``: the engine that is this one."""

    def __init__(self, result: Result, ours: str, eos: Collection[int]) -> None:
        self.result, self.ours = result, ours
        self.rows = summary.rows(result, eos)
        self.leads = list(summary.leads(result, self.rows, ours))
        self.costs = summary.costs(result)
        self.relative_costs = summary.relative_costs(result, ours)

    def facts(self, case: Case) -> dict[str, str]:
        """Return what was measured, where and when."""
        prompts = len(self.result.kinds)
        return {
            "target": case.target.name,
            "draft": case.draft.name if case.draft else "none",
            "replies": f"{prompts} prompts, up to {case.limit} tokens, temperature 0",
            "repeats": str(max((row.repeats for row in self.rows), default=0)),
            "threads": str(case.threads),
            "machine": f"{processor.name()}, {platform.system()}",
            "date": datetime.now(UTC).date().isoformat(),
        }

    def headlines(self) -> list[str]:
        """Say who leads by how much, each engine at its fastest, and whose words changed."""
        sentences = [
            f"{lead.ours.engine} ({lead.ours.setting.name}, {lead.ours.weights}) reaches "
            f"{_range(lead.ratio, 2)} times the speed of {lead.theirs.engine} "
            f"({lead.theirs.setting.name}, {lead.theirs.weights})"
            f"{'' if lead.ratio.median >= 1 else f'; {lead.theirs.engine} is ahead'}."
            for lead in self.leads
        ]
        changed = [row for row in self.rows if row.differ]
        sentences += [
            f"{row.engine} ({row.setting.name}, {row.weights}) wrote other text than "
            f"without drafting in {row.differ} of {len(self.result.kinds)} replies."
            for row in changed
        ]
        if self.rows and not changed:
            sentences.append("No setting wrote other text than its engine writes without drafting.")
        return sentences

    def lines(self) -> Table:
        """Return a line for every setting: tokens/s of all prompts and by kind, median (range)."""
        kinds = tuple(dict.fromkeys(self.result.kinds))
        of_kinds = HEAD.index(ALL) + 1
        return (*HEAD[:of_kinds], *kinds, *HEAD[of_kinds:]), [
            (
                row.engine,
                row.weights,
                row.setting.name,
                _range(row.tokens_per_s[ALL], 1),
                *(f"{row.tokens_per_s[kind].median:.1f}" for kind in kinds),
                "-" if row.speedup is None else times(row.speedup.median, 2),
                "-" if row.acceptance is None else f"{row.acceptance:.0%}",
                "-" if row.length is None else f"{row.length:.2f}",
                {None: "-", 0: "equal"}.get(row.differ, f"{row.differ} differ"),
                str(row.repeats),
            )
            for row in self.rows
        ]

    def by_method(self) -> Table:
        """Return README's table: every engine's fastest setting for each method, in tokens/s."""
        engines = list(dict.fromkeys(row.key[:2] for row in self.rows))
        lines = []
        for method in (*Method, None):
            if found := summary.fastest(self.rows, method):
                speed = max(row.speed for row in found.values())
                name = method.value if method else "each at its fastest"
                lines.append((name, *(_cell(found.get(one), speed) for one in engines)))
        return ("", *(f"{engine}, {weights}" for engine, weights in engines)), lines

    def loading(self) -> Table:
        """Start, memory and prompts."""
        head = "engine", "weights", "loaded", "first token, s", "peak memory", "prompt tokens/s"
        return head, [
            (
                cost.engine,
                cost.weights,
                cost.what,
                _range(cost.ready_s, 1),
                "-" if cost.peak_bytes is None else format_bytes(cost.peak_bytes),
                _range(cost.prompt_tokens_per_s, 0),
            )
            for cost in self.costs
        ]

    def steps(self) -> str:
        """Return the relative costs in a sentence; empty if they were not measured."""
        if self.relative_costs is None:
            return ""
        costs = self.relative_costs
        verify = ", ".join(f"{rows}: {ratio:.2f}" for rows, ratio in costs.verify.items())
        draft = "" if costs.draft is None else f" T_draft / T_verify(1): {costs.draft:.2f}."
        read = ""
        if costs.step_gb_s is not None and costs.read_gb_s is not None:
            read = (
                f" One row reads its weights at {costs.step_gb_s:.1f} GB/s; a probe beside it read "
                f"{costs.read_gb_s:.1f} GB/s."
            )
        return f"T_verify(1) {costs.verify_ms:.1f} ms; T_verify(M) / T_verify(1) {verify}.{draft}{read}"

    def markdown(self, title: str, facts: Mapping[str, str]) -> str:
        """Return the whole report as one page."""
        cost = self.steps()
        absent = "\n".join(f"- {one.name}: {one.reason}" for one in self.result.absent)
        return tables.page(
            title,
            facts,
            "Tokens per second: the median of all repeats, with the range in brackets, of "
            "each engine's fastest setting per method. Prompt time is not included.",
            grid(*self.by_method()),
            "\n".join(f"- {sentence}" for sentence in self.headlines()),
            f"## Every setting\n\n{grid(*self.lines())}",
            f"## Start, memory, prompts\n\n{grid(*self.loading())}",
            cost and f"## Cost of a round\n\n{cost}",
            absent and f"## Not measured\n\n{absent}",
        )

    def chart(self, title: str) -> str:
        """Draw for each method the fastest setting of every engine and kind of weights, fastest first."""
        groups = {}
        for method in dict.fromkeys(row.setting.method for row in self.rows):
            found = summary.fastest(self.rows, method).values()
            order = sorted(found, key=lambda row: row.speed, reverse=True)
            groups[f"{method}, tokens/s"] = [self._bar(row) for row in order]
        return tables.chart(title, groups)

    def _bar(self, row: Row) -> Bar:
        spread, name = row.tokens_per_s[ALL], f"{row.engine}, {row.setting.name} ({row.weights})"
        differ = f", words differ in {row.differ}" if row.differ else ""
        note = f"{spread.median:.1f}{differ}"
        return Bar(name, spread.median, spread.low, spread.high, note, row.engine == self.ours)

    def as_json(self) -> dict[str, Any]:
        """Return the stable keys that scripts rely on; ``records`` are all replies, for other figures."""
        return {
            "results": [asdict(row) for row in self.rows],
            "leads": [
                {
                    "engine": lead.theirs.engine,
                    "weights": lead.theirs.weights,
                    "setting": lead.theirs.setting.name,
                    "ours": lead.ours.setting.name,
                    "ratio": asdict(lead.ratio),
                }
                for lead in self.leads
            ],
            "costs": [asdict(cost) for cost in self.costs],
            "steps": None if self.relative_costs is None else asdict(self.relative_costs),
            "absent": [asdict(one) for one in self.result.absent],
            "kinds": self.result.kinds,
            "records": [
                {
                    "engine": turn.engine,
                    "weights": turn.weights,
                    **asdict(answer),
                    "setting": answer.setting.name,
                }
                for turn in self.result.turns
                for answer in turn.answers
            ],
        }


def _range(spread: Spread, digits: int) -> str:
    """Format the median, with the range if there is more than one value."""
    middle, low, high = (f"{v:.{digits}f}" for v in (spread.median, spread.low, spread.high))
    return middle if low == high else f"{middle} ({low} to {high})"


def _cell(row: Row | None, fastest: float) -> str:
    if row is None:
        return ""
    bold = "**" if row.speed == fastest else ""
    words = f", {row.differ} differ" if row.differ else ""
    return f"{bold}{_range(row.tokens_per_s[ALL], 1)}{bold} {row.setting.name}{words}"
