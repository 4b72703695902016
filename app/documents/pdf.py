"""Text of PDF files, page by page, by pypdf."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from app.documents.extracted import LONGEST, MOST_PAGES, SECONDS, Extracted, Unreadable
from app.storage.attachments import ranges


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
