"""Read a file as an attachment, in a worker process with limits."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from app.documents.extracted import MOST_PAGES, SECONDS
from app.storage.attachments import Attachment
from engine.errors import InvalidRequest
from engine.machine.worker_process import LimitExceeded, Limits, WorkerPool, WorkFailed

LARGEST = 64 << 20
"""Bytes of a file that is read."""
_TEXT_S = 20.0
"""Seconds of processor time for a text or a web page."""
_START = 1024
"""Bytes of a file in which its kind shows."""


def _workers(seconds: float) -> WorkerPool:
    limits = Limits(seconds=seconds, memory=768 << 20, answer=32 << 20)
    return WorkerPool("app.documents.extract:extract", limits)


# Apart, so that a slow PDF keeps no text waiting.
_TEXTS, _DOCUMENTS = _workers(_TEXT_S), _workers(SECONDS + 15)


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What was read. ``notes`` are sentences for people: what of the file could not be read."""

    attachment: Attachment
    notes: tuple[str, ...] = ()


def read_file(path: Path, name: str, *, source: str = "", content_type: str = "") -> ReadDocument:
    """Return the text of a file. ``source`` and ``content_type`` are those of a web page.

    Raises InvalidRequest, which names the file and says what to do, for a file without text, and TooBusy
    and NoWorker."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):  # a pipe or a device has no end
        raise InvalidRequest("files", f"{name} is not a file.")
    if about.st_size > LARGEST:
        raise InvalidRequest("files", f"{name} is larger than {LARGEST >> 20} MB.")
    with path.open("rb") as file:
        start = file.read(_START)
    # A PDF, or an archive, as the files of Word are.
    workers = _DOCUMENTS if is_pdf(start) or start.startswith(b"PK") else _TEXTS
    try:
        found = workers.call({"path": str(path.absolute()), "name": name, "type": content_type})
    except LimitExceeded as limit:
        raise InvalidRequest(
            "files", f"{name} could not be read: reading it {limit}. Attach a smaller part of it."
        ) from limit
    except WorkFailed as error:
        why = str(error) if error.kind == "Unreadable" else "is damaged and cannot be read."
        raise InvalidRequest("files", f"{name} {why}") from error
    attachment = Attachment(
        name if not source else found["title"].split("\n")[0][:200] or name,
        text=found["text"],
        kind=found["kind"],
        pages=tuple(found["pages"][:MOST_PAGES]),
        unit=found["unit"],
        source=source,
    )
    return ReadDocument(attachment, tuple(f"Of {name}, {note}." for note in found["notes"]))


def is_pdf(content: bytes) -> bool:
    """Return whether the content of a file, or its beginning, is that of a PDF."""
    return b"%PDF-" in content[:_START]
