"""Cells of Excel files as comma-separated lines, sheet by sheet."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from datetime import datetime, timedelta

from app.documents.extracted import LONGEST, MOST_PAGES, Extracted, Unreadable
from app.documents.xml_text import Handler, parse_part, whole_number

_DATES = frozenset((*range(14, 23), *range(45, 48)))
"""Numbers of Excel's own formats that show a date or a time."""
_EPOCH, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
"""Day 0 of Excel's two date systems; the second was that of the Mac."""
_MOST_COLUMNS = 16_384
_MOST_TEXTS = 4_000_000


class _Texts(Handler):
    """The shared texts of a workbook."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._parts: list[str] = []
        self._shown = self._phonetic = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._shown = tag == "t"
        if tag == "rPh":
            self._phonetic = True

    def data(self, text: str) -> None:
        if self._shown and not self._phonetic:
            self._parts.append(text)

    def end(self, tag: str) -> None:
        self._shown = False
        if tag == "rPh":
            self._phonetic = False
        elif tag == "si":
            self.texts.append("".join(self._parts))
            self._parts.clear()
            if len(self.texts) > _MOST_TEXTS:
                raise Unreadable("has too much text.")


class _Workbook(Handler):
    """Names of sheets and of their parts; whether cells with a style show dates, and since when these
    count."""

    def __init__(self) -> None:
        self.sheets: list[tuple[str, str]] = []
        self.parts: dict[str, str] = {}
        self.dated: list[bool] = []
        self.epoch = _EPOCH
        self._formats: dict[str, str] = {}
        self._cells = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "sheet":
            self.sheets.append((attributes.get("name", ""), attributes.get("id", "")))
        elif tag == "workbookPr" and attributes.get("date1904") in ("1", "true"):
            self.epoch = _EPOCH_1904
        elif tag == "Relationship":
            self.parts[attributes.get("Id", "")] = attributes.get("Target", "")
        elif tag == "numFmt":
            self._formats[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif tag == "cellXfs":
            self._cells = True
        elif tag == "xf" and self._cells:
            self.dated.append(self._shows_date(attributes.get("numFmtId", "0")))

    def end(self, tag: str) -> None:
        if tag == "cellXfs":
            self._cells = False

    def _shows_date(self, number: str) -> bool:
        form = self._formats.get(number)
        if form is None:
            return whole_number(number, -1) in _DATES
        bare = re.sub(r'"[^"]*"|\[[^\]]*\]|[\\_*].', "", form).lower()  # without what is only shown
        return bool(re.search("[ydhs]", bare)) and "general" not in bare


class _Sheet(Handler):
    """The cells of one sheet, as lines."""

    def __init__(self, texts: list[str], workbook: _Workbook) -> None:
        self._texts, self._workbook = texts, workbook
        self._out = io.StringIO()
        self._lines = csv.writer(self._out, lineterminator="\n")
        self._row: dict[int, str] = {}
        self._cell: dict[str, str] = {}
        self._value: list[str] = []
        self._shown = False

    @property
    def text(self) -> str:
        return self._out.getvalue().strip()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "row":
            self._row = {}
        elif tag == "c":
            self._cell, self._value = attributes, []
        self._shown = tag in ("v", "t")

    def data(self, text: str) -> None:
        if self._shown:
            self._value.append(text)

    def end(self, tag: str) -> None:
        self._shown = False
        if tag == "c" and self._value:
            column = _column(self._cell.get("r", ""), len(self._row))
            self._row[column] = self._shown_value("".join(self._value))
        elif tag == "row" and self._row and self._out.tell() < LONGEST:
            self._lines.writerow([self._row.get(n, "") for n in range(max(self._row) + 1)])

    def _shown_value(self, value: str) -> str:
        match self._cell.get("t", "n"):
            case "s":
                at = whole_number(value, -1)
                return self._texts[at] if 0 <= at < len(self._texts) else ""
            case "b":
                return {"0": "FALSE", "1": "TRUE"}.get(value, value)
            case "n":
                at, dated = whole_number(self._cell.get("s", "0"), -1), self._workbook.dated
                if 0 <= at < len(dated) and dated[at]:
                    return _date(value, self._workbook.epoch)
        return value


def _column(reference: str, default: int) -> int:
    """Return the number of a cell's column: of "C7" 2."""
    letters = re.match("[A-Z]{1,3}", reference)
    if letters is None:
        return min(default, _MOST_COLUMNS)
    number = 0
    for letter in letters[0]:
        number = 26 * number + ord(letter) - 64
    return min(number, _MOST_COLUMNS) - 1


def _date(value: str, epoch: datetime) -> str:
    try:
        moment = epoch + timedelta(days=float(value))
    except (ValueError, OverflowError):
        return value
    return moment.strftime("%Y-%m-%d %H:%M").removesuffix(" 00:00")


def read_xlsx(archive: zipfile.ZipFile) -> Extracted:
    """Return each sheet's cells, under its name."""
    workbook, texts = _Workbook(), _Texts()
    parse_part(archive, "xl/workbook.xml", workbook)
    names = set(archive.namelist())
    for name in ("xl/_rels/workbook.xml.rels", "xl/styles.xml"):
        if name in names:
            parse_part(archive, name, workbook)
    if "xl/sharedStrings.xml" in names:
        parse_part(archive, "xl/sharedStrings.xml", texts)
    pages = []
    for title, id in workbook.sheets[:MOST_PAGES]:
        part = workbook.parts.get(id, "").removeprefix("/xl/").removeprefix("xl/")
        sheet = _Sheet(texts.texts, workbook)
        if f"xl/{part}" in names:
            parse_part(archive, f"xl/{part}", sheet)
        pages.append(f"{title}\n{sheet.text}".strip())
    return Extracted(pages=pages, unit="Sheet", total=len(workbook.sheets))
