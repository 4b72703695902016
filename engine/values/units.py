"""Format quantities for people."""

from __future__ import annotations


def format_bytes(count: int) -> str:
    """Return a number of bytes in decimal units: '1.5 GB'."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit in ("B", "kB") or size >= 99.95 else f"{size:.1f} {unit}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return '1 token', '1,024 tokens'."""
    return f"1 {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"
