"""Text of PowerPoint files, slide by slide."""

from __future__ import annotations

import re
import zipfile

from app.documents.extracted import MOST_PAGES, Extracted
from app.documents.xml_text import PageText, parse_part


class _Slide(PageText):
    def __init__(self) -> None:
        super().__init__()
        self._shown = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "t":
            self._shown = True
        elif tag == "br":
            self.end_line()

    def data(self, text: str) -> None:
        if self._shown:
            self.add(text)

    def end(self, tag: str) -> None:
        if tag == "t":
            self._shown = False
        elif tag == "p":
            self.end_line()
        elif tag == "tc":
            self.add("| ")


def read_pptx(archive: zipfile.ZipFile) -> Extracted:
    """Return the text of each slide; programs number their files in the slides' order."""
    found = (re.fullmatch(r"ppt/slides/slide(\d{1,6})\.xml", name) for name in archive.namelist())
    names = sorted((int(match[1]), match[0]) for match in found if match)
    pages = []
    for _, name in names[:MOST_PAGES]:
        slide = _Slide()
        parse_part(archive, name, slide)
        slide.end_page()
        pages.append("\n".join(slide.pages))
    return Extracted(pages=pages, unit="Slide", total=len(names))
