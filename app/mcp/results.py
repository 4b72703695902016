"""What a call returned, as text for the model and for people: data, within bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CallResult:
    """The ``text`` that a call returned. ``failed``: it is an error. ``cut``: characters left out."""

    text: str
    failed: bool = False
    cut: int = 0

    def within(self, longest: int) -> CallResult:
        """Return the result with at most so many characters, and a note of what was left out."""
        cut = len(self.text) - longest
        if cut <= 0:
            return self
        note = f"\n[{cut:,} of {len(self.text):,} characters left out]"
        return CallResult(self.text[:longest] + note, self.failed, cut)


def text_of(content: Iterable[Any], structured: Any, failed: bool) -> CallResult:
    """Return the result of a call: its texts, and a note for each part that is no text."""
    texts = [part for part in map(_part, content) if part]
    if not texts and structured is not None:
        texts = [json.dumps(structured, ensure_ascii=False)]
    whole = "\n".join(texts) or "(The tool returned nothing.)"
    # Lone surrogates and zeros cannot be stored.
    clean = whole.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return CallResult(clean, failed)


def _part(part: Any) -> str:
    match getattr(part, "type", ""):
        case "text":
            return str(part.text)
        case "image" | "audio" as kind:
            return f"[{kind}, {_one_line(part.mime_type)}, {len(part.data) * 3 // 4:,} bytes: not read]"
        case "resource_link":
            return f"{_one_line(part.name)}: {_one_line(str(part.uri))}"
        case "resource":
            held = part.resource
            text = getattr(held, "text", None)
            return str(text) if text is not None else f"[file {_one_line(str(held.uri))}: not read]"
        case other:
            return f"[{_one_line(str(other))}: not read]"


def _one_line(text: str | None) -> str:
    return " ".join((text or "unknown").split())[:200]
