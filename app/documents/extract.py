"""Extract the text of one file: of PDF files page by page, of web pages without navigation, scripts and
the like. It runs in a worker process, since the file may be made to do harm.

``extract`` is what the worker calls.
"""

from __future__ import annotations

import logging
import re
import time
import zipfile
from collections import Counter
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from app.documents.extracted import LONGEST, MOST_PAGES, SECONDS, Extracted, Unreadable
from app.documents.sheets import read_xlsx
from app.documents.word import read_docx, read_odt, read_pptx
from app.storage.attachments import ranges

_SKIPPED = frozenset(
    "script style noscript template svg nav header footer aside form button select iframe canvas "
    "dialog menu object head".split()
)
_BLOCKS = frozenset(
    "p div section article main ul ol table tr blockquote figure figcaption dl dt dd address hr "
    "details summary h1 h2 h3 h4 h5 h6 li pre".split()
)
_HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())
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
        if tag in _HEADINGS:
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


SAVED_PAGE = 100_000
"""Bytes from which an HTML file is a saved web page, whose main text is taken, and no source code."""

_CUT = f"only the first {LONGEST:,} characters were read"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")


def extract(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of ``Extracted`` for ``{"path", "name", "type"}``; ``type`` is the content type
    of a web page, else empty. Raises Unreadable."""
    path = Path(asked["path"])
    found = _read(path, Path(str(asked["name"])).suffix.lower(), str(asked.get("type") or ""))
    _bound(found)
    if not found.text.strip() and not any(page.strip() for page in found.pages):
        raise Unreadable("has no text.")
    return asdict(found)


def _read(path: Path, suffix: str, content_type: str) -> Extracted:
    with path.open("rb") as file:
        start = file.read(2048)
    if b"%PDF-" in start[:1024]:
        return read_pdf(path)
    if start.startswith(b"PK\x03\x04"):
        return _read_archive(path)
    if start.startswith(_OLE):
        raise Unreadable(_about_ole(path))
    if start.startswith(_PICTURES) or (start[:4] == b"RIFF" and start[8:12] == b"WEBP"):
        raise Unreadable(
            "is a picture. Attach it as PNG, JPEG, WebP or GIF; in the terminal, with --image."
        )
    if start.startswith(b"{\\rtf"):
        raise Unreadable("is an RTF file, which is not supported. Save it as .docx or PDF.")
    return _read_text(path, suffix, content_type)


def _read_archive(path: Path) -> Extracted:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if "word/document.xml" in names:
                return read_docx(archive)
            if "ppt/presentation.xml" in names:
                return read_pptx(archive)
            if "xl/workbook.xml" in names:
                return read_xlsx(archive)
            if "content.xml" in names and "mimetype" in names:
                return read_odt(archive)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError) as error:
        raise Unreadable(f"is damaged ({error}). Save or download it again.") from None
    except RuntimeError:  # zipfile's word for a password
        raise Unreadable("has a password. Attach a copy without one.") from None
    raise Unreadable("is an archive. Unpack it and attach the files.")


def _about_ole(path: Path) -> str:
    with path.open("rb") as file:
        if "EncryptedPackage".encode("utf-16-le") in file.read(1 << 20):
            return "has a password. Attach a copy without one."
    return "is an old Office file, which is not supported. Save it as .docx, .xlsx, .pptx or PDF."


def _read_text(path: Path, suffix: str, content_type: str) -> Extracted:
    raw = path.read_bytes()
    if content_type:
        is_page = "html" in content_type
    else:
        is_page = suffix in (".html", ".htm", ".xhtml") and len(raw) > SAVED_PAGE
    if is_page:
        page = _decoded(raw, _charset(raw, content_type))
        title, text = main_text(page[:LONGEST])  # Python's parser is slow, for some with the square
        notes = [] if content_type else ["only the page's text was read"]
        notes += [_CUT] * (len(page) > LONGEST)
        return Extracted(text=text, title=title, notes=notes)
    return Extracted(text=_decoded(raw, _charset_of_header(content_type)), kind="text")


def _decoded(raw: bytes, charset: str) -> str:
    """Return text from bytes: by its byte order mark, as UTF-8, by ``charset``, else as Windows-1252."""
    marks = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
    marked = next((name for mark, name in marks if raw.startswith(mark)), "")
    for name in (marked, "utf-8", charset, "cp1252"):
        try:
            text = raw.decode(name) if name else None
        except (UnicodeDecodeError, LookupError):
            continue
        if text is None:
            continue
        if any(ord(sign) < 9 for sign in set(text)):
            break
        return text.replace("\r\n", "\n")
    raise Unreadable("is not a supported file. Attach PDF, Word or text files.")


def _charset_of_header(content_type: str) -> str:
    return content_type.partition("charset=")[2].split(";")[0].strip(" \"'")


def _charset(raw: bytes, content_type: str) -> str:
    """Return the encoding that a page states, in its header or its first bytes."""
    stated = re.search(rb"charset=[\"']?([\w.:-]{1,40})", raw[:2048], re.IGNORECASE | re.ASCII)
    return _charset_of_header(content_type) or (stated[1].decode("ascii") if stated else "")


def _bound(found: Extracted) -> None:
    """Cut a document that is too long, at a whole page, and say so."""
    if found.pages:
        found.total = max(found.total, len(found.pages))
        left, kept = LONGEST, 0
        for page in found.pages:
            left -= len(page)
            if left < 0 and kept:
                break
            kept += 1
        found.pages = [page[:LONGEST] for page in found.pages[:kept]]
        if kept < found.total:
            unit = (found.unit or "Page").lower()
            found.notes.append(f"only the first {kept:,} of {found.total:,} {unit}s were read")
    elif len(found.text) > LONGEST:
        found.text = found.text[:LONGEST]
        found.notes.append(_CUT)


def read_pdf(path: Path) -> Extracted:
    """Return the pages of a PDF file. Raises Unreadable for one with a password, a damaged one and one
    without text."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    began = time.process_time()
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("has a password. Attach a copy without one.")
        total = len(reader.pages)
    except DependencyError as error:
        raise Unreadable(f"has an unsupported encryption ({error}).") from None
    except (PyPdfError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"is damaged ({error}). Save or download it again.") from None
    pages: list[str] = []
    broken: list[int] = []
    length = 0
    for number in range(min(total, MOST_PAGES)):
        if time.process_time() - began > SECONDS or length > LONGEST:
            break
        try:
            text = reader.pages[number].extract_text()
        except (MemoryError, RecursionError):
            raise
        except Exception:  # of one page: pypdf raises many kinds for what is malformed
            text = ""
            broken.append(number + 1)
        pages.append(text.replace("\0", "").strip())
        length += len(text)
    return _described(pages, total, broken)


def _described(pages: list[str], total: int, broken: list[int]) -> Extracted:
    """Return the pages with notes on those that have no text."""
    empty = [n for n, text in enumerate(pages, 1) if not text and n not in broken]
    if not any(pages):
        if broken or not pages:
            raise Unreadable(
                "is damaged: none of its pages can be read. Save or download it again."
            )
        raise Unreadable(
            "has no text: its pages are blank, or pictures. If they are pictures, run text recognition "
            "(OCR) on it, then attach it."
        )
    notes = []
    for numbers, what in (
        (empty, "no text (blank, or pictures)"),
        (broken, "errors and could not be read"),
    ):
        if numbers:
            notes.append(f"{len(numbers)} of {total} pages have {what}: {ranges(numbers)}")
    return Extracted(pages=pages, unit="Page", total=total, notes=notes)
