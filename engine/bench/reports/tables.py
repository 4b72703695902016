"""Tables, pages and charts that all reports share.

A chart is plain SVG, written here: it needs no library, and the same figures give the same file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Head and lines."""
_INK, _OURS, _THEIRS = "#808080", "#3b82f6", "#9ca3af"
# Transparent, and the ink is grey: one picture for day and night.
_WIDTH, _NAMES, _FIGURES = 760, 300, 60
"""Widths of the picture, of the labels before the bars, and of those after the longest."""
_BAR, _GAP, _HEAD = 16, 6, 26


def grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def page(title: str, facts: Mapping[str, str], *parts: str) -> str:
    """Return a page of Markdown; empty parts are left out."""
    listed = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    return "\n\n".join(filter(None, (f"# {title}", listed, *parts))) + "\n"


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure with its range; ``note`` stands behind it."""

    name: str
    value: float
    low: float
    high: float
    note: str
    ours: bool = True


def chart(title: str, groups: Mapping[str, Sequence[Bar]]) -> str:
    """Return an SVG of bars, in groups with headings."""
    longest = max((bar.high for bars in groups.values() for bar in bars), default=1)
    scale = (_WIDTH - _NAMES - _FIGURES) / longest
    drawn: list[str] = []
    y = _HEAD
    for heading, bars in groups.items():
        y += _HEAD
        drawn.append(_text(0, y - 8, heading, weight="bold"))
        for bar in bars:
            drawn += _bar(bar, y, scale)
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


def _bar(bar: Bar, y: float, scale: float) -> Iterator[str]:
    low, high, middle = scale * bar.low, scale * bar.high, y + _BAR / 2
    yield _text(_NAMES - 8, middle + 4, bar.name, anchor="end")
    yield (
        f'<rect x="{_NAMES}" y="{y}" width="{scale * bar.value:.1f}" height="{_BAR}" '
        f'fill="{_OURS if bar.ours else _THEIRS}"/>'
    )
    yield (
        f'<path d="M{_NAMES + low:.1f} {middle}H{_NAMES + high:.1f}" stroke="{_INK}" '
        'stroke-width="2"/>'
    )
    yield _text(_NAMES + high + 6, middle + 4, bar.note)


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'font-size="{size}">{escape(text)}</text>'
    )
