"""Reports of a contest: sentences, tables, a page of Markdown, stable JSON for programs, and a chart.

The chart is plain SVG, written here: it needs no library, and the same figures give the same file.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from typing import Any

from engine.bench.prompts import ALL
from engine.bench.real.contest import Case, Method, NotMeasured, Result
from engine.bench.real.reports import summary
from engine.bench.real.reports.summary import Cost, Lead, RelativeCosts, Row, Spread
from engine.bench.reports.sweep import grid
from engine.machine import processor
from engine.stats import times
from engine.values.units import format_bytes

_INK, _OURS, _THEIRS = "#808080", "#3b82f6", "#9ca3af"
# Transparent, and the ink is grey: one picture for day and night.
_WIDTH, _NAMES, _FIGURES = 760, 300, 60
"""Widths of the picture, of the labels before the bars, and of those after the longest."""
_BAR, _GAP, _HEAD = 16, 6, 26


def chart(value: Mapping[str, Any], title: str, ours: str) -> str:
    """Return the chart of a ``Report.as_json`` value."""
    groups = _groups(value["results"])
    longest = max(
        (bar["tokens_per_s"][ALL]["high"] for _, bars in groups for bar in bars), default=1
    )
    scale = (_WIDTH - _NAMES - _FIGURES) / longest
    drawn: list[str] = []
    y = _HEAD
    for method, bars in groups:
        y += _HEAD
        drawn.append(_text(0, y - 8, f"{method}, tokens/s", weight="bold"))
        for bar in bars:
            drawn += _bar(bar, y, scale, _OURS if bar["engine"] == ours else _THEIRS)
            y += _BAR + _GAP
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + _GAP}" '
            f'width="{_WIDTH}" height="{y + _GAP}" role="img" aria-label="{escape(title)}" '
            f'font-family="sans-serif" font-size="12" fill="{_INK}">',
            f"<title>{escape(title)}</title>",
            _text(0, 16, title, weight="bold", size=14),
            *drawn,
            "</svg>\n",
        )
    )


def _groups(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return for each method the fastest setting of every engine and kind of weights, fastest first."""
    groups: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = {}
    for row in rows:
        group = groups.setdefault(row["setting"]["method"], {})
        key = (row["engine"], row["weights"])
        if key not in group or _speed(row) > _speed(group[key]):
            group[key] = row
    return [
        (method, sorted(group.values(), key=_speed, reverse=True))
        for method, group in groups.items()
    ]


def _speed(row: Mapping[str, Any]) -> float:
    return float(row["tokens_per_s"][ALL]["median"])


def _bar(row: Mapping[str, Any], y: float, scale: float, colour: str) -> Iterator[str]:
    spread = row["tokens_per_s"][ALL]
    low, high, length = (scale * spread[name] for name in ("low", "high", "median"))
    middle = y + _BAR / 2
    name = f"{row['engine']}, {row['setting']['name']} ({row['weights']})"
    yield _text(_NAMES - 8, middle + 4, name, anchor="end")
    yield f'<rect x="{_NAMES}" y="{y}" width="{length:.1f}" height="{_BAR}" fill="{colour}"/>'
    yield (
        f'<path d="M{_NAMES + low:.1f} {middle}H{_NAMES + high:.1f}" stroke="{_INK}" '
        'stroke-width="2"/>'
    )
    differ = f", words differ in {row['differ']}" if row["differ"] else ""
    yield _text(_NAMES + high + 6, middle + 4, f"{spread['median']:.1f}{differ}")


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'font-size="{size}">{escape(text)}</text>'
    )


HEAD = ("engine", "weights", "setting", ALL, "to its plain", "accepted", "length", "words",
        "repeats")  # fmt: skip
"""Columns of ``lines``; the kinds of prompts come after ``ALL``."""

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Head and lines."""


class Report:
    """Everything that is said of one contest. ``ours``: the engine that is this one."""

    def __init__(self, result: Result, ours: str, eos: Collection[int]) -> None:
        self.result = result
        self.rows: list[Row] = summary.rows(result, eos)
        self.leads: list[Lead] = summary.leads(result, self.rows, ours)
        self.costs: list[Cost] = summary.costs(result)
        self.relative_costs: RelativeCosts | None = summary.relative_costs(result, ours)

    @property
    def absent(self) -> tuple[NotMeasured, ...]:
        """Return the engines that were not measured."""
        return self.result.absent

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
        engines = list(dict.fromkeys((row.engine, row.weights) for row in self.rows))
        lines = []
        for method in (*Method, None):
            cells = [
                summary.best((row for row in self.rows if row.weights == weights), engine, method)
                for engine, weights in engines
            ]
            fastest = max((row.speed for row in cells if row is not None), default=0.0)
            if any(cells):
                name = method.value if method else "each at its fastest"
                lines.append((name, *(_cell(row, fastest) for row in cells)))
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
        parts = [f"# {title}", "\n".join(f"- {name}: {value}" for name, value in facts.items())]
        parts += [
            "Tokens per second: the median of all repeats, with the range in brackets, of "
            "each engine's fastest setting per method. Prompt time is not included.",
            grid(*self.by_method()),
            "\n".join(f"- {sentence}" for sentence in self.headlines()),
            "## Every setting",
            grid(*self.lines()),
            "## Start, memory, prompts",
            grid(*self.loading()),
        ]
        if self.relative_costs is not None:
            parts += ["## Cost of a round", self.steps()]
        if self.absent:
            parts += ["## Not measured", "\n".join(f"- {a.name}: {a.reason}" for a in self.absent)]
        return "\n\n".join(parts) + "\n"

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
            "absent": [asdict(one) for one in self.absent],
            "kinds": self.result.kinds,
            "records": [
                asdict(record) | {"setting": record.setting.name} for record in self.result.records
            ],
        }


def facts_of(case: Case, repeats: int, prompts: int) -> dict[str, str]:
    """Return what was measured, where and when."""
    return {
        "target": case.target.name,
        "draft": case.draft.name if case.draft else "none",
        "replies": f"{prompts} prompts, up to {case.limit} tokens, temperature 0",
        "repeats": str(repeats),
        "threads": str(case.threads),
        "machine": f"{processor.name()}, {platform.system()}",
        "date": datetime.now(UTC).date().isoformat(),
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
