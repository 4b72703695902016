"""What is read of a document, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST = 4_000_000
"""Characters of text that are kept of one document."""
MOST_PAGES = 3000
"""Pages, slides or sheets that are read of one document."""
SECONDS = 45.0
"""Seconds of processor time after which a document is read no further."""


class Unreadable(Exception):
    """The file has no text that can be read. The message completes "NAME ..."."""


@dataclass(slots=True)
class Extracted:
    """The text of a document: ``pages`` if it has some, called ``unit``, else ``text``.

    ``notes`` complete "Of NAME, ...": what could not be read. ``total`` counts all pages."""

    text: str = ""
    pages: list[str] = field(default_factory=list)
    unit: str = ""
    notes: list[str] = field(default_factory=list)
    total: int = 0
    kind: str = "document"
    title: str = ""
