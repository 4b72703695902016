"""The main text of a web page, without navigation, scripts and the like."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

_SKIPPED = frozenset(
    "script style noscript template svg nav header footer aside form button select iframe canvas "
    "dialog menu object head".split()
)
_BLOCKS = frozenset(
    "p div section article main ul ol table tr blockquote figure figcaption dl dt dd address hr "
    "details summary h1 h2 h3 h4 h5 h6 li pre".split()
)
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_MAIN = ("main", "article")
_ENOUGH = 400
"""Characters that a main part must have to be taken for the page's text."""
DEEPEST = 512
_TITLE = 1000
"""Characters that are read of a title."""


class _Reader(HTMLParser):
    """Collects the text of the page, and of its main part apart."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.whole: list[str] = []
        self.parts: dict[str, list[str]] = {name: [] for name in _MAIN}
        self._open: list[str] = []
        self._within: Counter[str] = Counter()  # of ``_open``, which takes long to look through
        self._in_title = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = True
        if tag == "br":
            self._add("\n")
        if tag in _VOID:
            return
        if len(self._open) < DEEPEST:
            self._open.append(tag)
            self._within[tag] += 1
        if tag in _BLOCKS:
            self._add("\n\n" if tag != "tr" and tag != "li" else "\n")
        if tag[0] == "h" and tag[1:].isdigit():
            self._add("#" * int(tag[1:]) + " ")
        elif tag == "li":
            self._add("- ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._within[tag]:
            while (last := self._open.pop()) != tag:
                self._within[last] -= 1
            self._within[tag] -= 1
        if tag in ("td", "th"):
            self._add(" | ")
        elif tag in _BLOCKS:
            self._add("\n\n" if tag not in ("tr", "li") else "\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = (self.title + data)[:_TITLE]
        elif self._within["pre"]:
            self._add(data)
        else:
            self._add(re.sub(r"\s+", " ", data))

    def _add(self, text: str) -> None:
        skipped = any(self._within[name] for name in _SKIPPED)
        if skipped and not (self._within["header"] and self._within["article"]):
            return
        self.whole.append(text)
        for name in _MAIN:
            if self._within[name]:
                self.parts[name].append(text)


def main_text(page: str) -> tuple[str, str]:
    """Return the title and the main text of a page: of ``main``, else ``article``, if there is enough."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    texts = [_tidy("".join(reader.parts[name])) for name in _MAIN]
    found = next((text for text in texts if len(text) >= _ENOUGH), "")
    return _tidy(reader.title), found or _tidy("".join(reader.whole))


def _tidy(text: str) -> str:
    lines = (
        line.strip() if not line.startswith("    ") else line.rstrip() for line in text.split("\n")
    )
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
