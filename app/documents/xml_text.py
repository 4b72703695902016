"""Read the XML parts of office files as a stream of tags and texts, so that memory stays flat."""

from __future__ import annotations

import re
import zipfile
from typing import Any
from xml.etree.ElementTree import ParseError, XMLParser

from app.documents.extracted import Unreadable

LARGEST_PART = 256 << 20
"""Bytes of one part, unpacked."""
DEEPEST = 256
"""Elements within each other."""
_BLOCK = 1 << 16


class Handler:
    """Receives tags and texts. Names of tags come without their namespace."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Called at the start of an element."""

    def end(self, tag: str) -> None:
        """Called at its end."""

    def data(self, text: str) -> None:
        """Called with text, which may come in parts."""


class _Target:
    """Adapts a handler to ElementTree's parser. Refuses document types, since entities can be bombs."""

    def __init__(self, handler: Handler) -> None:
        self._handler, self._depth = handler, 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise Unreadable("is nested too deeply.")
        self._handler.start(_local(tag), {_local(name): v for name, v in attributes.items()})

    def end(self, tag: str) -> None:
        self._depth -= 1
        self._handler.end(_local(tag))

    def data(self, text: str) -> None:
        self._handler.data(text)

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise Unreadable("defines entities, which is not allowed.")

    def close(self) -> None:
        pass


def parse_part(archive: zipfile.ZipFile, name: str, handler: Handler) -> None:
    """Parse a part of an office file. Raises Unreadable, and KeyError for a part that is missing."""
    parser: Any = XMLParser(target=_Target(handler))
    left = LARGEST_PART
    try:
        with archive.open(name) as part:
            while block := part.read(_BLOCK):
                left -= len(block)
                if left < 0:
                    raise Unreadable(f"unpacks to more than {LARGEST_PART >> 20} MB.")
                parser.feed(block)
        parser.close()
    except ParseError as error:
        raise Unreadable(f"is damaged ({error}). Save it again.") from None


def whole_number(text: str, default: int) -> int:
    """Return the number that an attribute or a cell states; ``default`` for any other text."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else default


def _local(name: str) -> str:
    return name.rpartition("}")[2]


class PageText(Handler):
    """Collects text as lines of pages."""

    def __init__(self) -> None:
        self.pages: list[str] = []
        self._parts: list[str] = []

    def add(self, text: str) -> None:
        self._parts.append(text)

    def end_line(self) -> None:
        """End the line; more than one empty line is not kept."""
        if self._parts[-2:] != ["\n", "\n"]:
            self._parts.append("\n")

    def end_page(self) -> None:
        """Begin a new page, unless nothing stands on this one."""
        text = "".join(self._parts).strip()
        if text:
            self.pages.append(text)
            self._parts.clear()
