"""Text of Word, OpenDocument and PowerPoint files: headings, lists, tables, and pages that are marked."""

from __future__ import annotations

import re
import zipfile

from app.documents.extracted import MOST_PAGES, Extracted, Unreadable
from app.documents.xml_text import PageText, parse_part, whole_number


class _Document(PageText):
    """What both formats share: rows of tables, and pages."""

    def __init__(self) -> None:
        super().__init__()
        self._hidden = 0  # open elements whose text is not shown
        self._cells = 0  # open cells of tables

    def end_paragraph(self) -> None:
        """End a paragraph; within a table's cell it stays on the row's line."""
        if self._cells:
            self.add(" ")
        else:
            self.end_line()

    def extracted(self) -> Extracted:
        self.end_page()
        if len(self.pages) > 1:
            total = len(self.pages)
            return Extracted(pages=self.pages[:MOST_PAGES], unit="Page", total=total)
        return Extracted(text="\n".join(self.pages))


class _Office(_Document):
    """A Word file, or a slide, whose text has tags of the same names."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = False  # within an element of text

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "Fallback":  # the same again, for old programs
            self._hidden += 1
        elif self._hidden:
            return
        elif tag == "t":
            self._shown = True
        elif tag == "tab" and not attributes:  # one with attributes is a tab stop
            self.add("\t")
        elif tag == "noBreakHyphen":
            self.add("-")
        elif tag == "lastRenderedPageBreak" or (tag == "br" and attributes.get("type") == "page"):
            self.end_page()
        elif tag in ("br", "cr"):
            self.end_line()
        elif tag == "pStyle":
            self.add(_heading(attributes.get("val", "")))
        elif tag == "numPr":
            self.add("- ")
        elif tag == "tc":
            self._cells += 1

    def data(self, text: str) -> None:
        if self._shown and not self._hidden:
            self.add(text)

    def end(self, tag: str) -> None:
        if tag == "Fallback":
            self._hidden -= 1
        elif self._hidden:
            return
        elif tag == "t":
            self._shown = False
        elif tag == "p":
            self.end_paragraph()
        elif tag == "tc":
            self._cells -= 1
            self.add("| ")
        elif tag == "tr":
            self.end_line()


def _heading(style: str) -> str:
    """Return Markdown's mark of a heading's style: "Heading2" is ``## ``."""
    if style == "Title":
        return "# "
    level = re.fullmatch(r"Heading\s*([1-6])", style)
    return f"{'#' * int(level[1])} " if level else ""


def read_docx(archive: zipfile.ZipFile) -> Extracted:
    """Return the text of a Word file."""
    document = _Office()
    parse_part(archive, "word/document.xml", document)
    return document.extracted()


_ODT = "application/vnd.oasis.opendocument.text"
_HIDDEN = frozenset(("tracked-changes", "annotation", "forms"))


class _Odt(_Document):
    def __init__(self) -> None:
        super().__init__()
        self._paragraphs = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _HIDDEN:
            self._hidden += 1
        if self._hidden:
            return
        if tag in ("p", "h"):
            self._paragraphs += 1
            if tag == "h":
                level = whole_number(attributes.get("outline-level", ""), 1)
                self.add("#" * min(level, 6) + " ")
        elif tag == "list-item":
            self.add("- ")
        elif tag == "s":
            self.add(" " * min(whole_number(attributes.get("c", ""), 1), 100))
        elif tag == "tab":
            self.add("\t")
        elif tag == "line-break":
            self.end_line()
        elif tag == "soft-page-break":
            self.end_page()
        elif tag == "table-cell":
            self._cells += 1

    def data(self, text: str) -> None:
        if self._paragraphs and not self._hidden:
            self.add(" ".join(text.split("\n")))

    def end(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden -= 1
        elif self._hidden:
            return
        elif tag in ("p", "h"):
            self._paragraphs -= 1
            self.end_paragraph()
        elif tag == "table-cell":
            self._cells -= 1
            self.add("| ")
        elif tag == "table-row":
            self.end_line()


def read_odt(archive: zipfile.ZipFile) -> Extracted:
    """Return the text of an OpenDocument text file. Raises Unreadable for sheets and drawings."""
    with archive.open("mimetype") as part:
        kind = part.read(200).decode("ascii", "ignore").strip()
    if not kind.startswith(_ODT):
        raise Unreadable("is an OpenDocument file without text. Save it as .xlsx, .pptx or PDF.")
    if b"encryption-data" in _manifest(archive):
        raise Unreadable("has a password. Attach a copy without one.")
    document = _Odt()
    parse_part(archive, "content.xml", document)
    return document.extracted()


def _manifest(archive: zipfile.ZipFile) -> bytes:
    try:
        with archive.open("META-INF/manifest.xml") as part:
            return part.read(1 << 20)
    except KeyError:
        return b""


def read_pptx(archive: zipfile.ZipFile) -> Extracted:
    """Return the text of each slide; programs number their files in the slides' order."""
    found = (re.fullmatch(r"ppt/slides/slide(\d{1,6})\.xml", name) for name in archive.namelist())
    names = sorted((int(match[1]), match[0]) for match in found if match)
    pages = []
    for _, name in names[:MOST_PAGES]:
        slide = _Office()
        parse_part(archive, name, slide)
        slide.end_page()
        pages.append("\n".join(slide.pages))
    return Extracted(pages=pages, unit="Slide", total=len(names))
