"""A chart of a contest: for each method every engine's fastest setting, with its spread.

Plain SVG, written here: it needs no library, and the same figures give the same file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from engine.bench.prompts import ALL

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
