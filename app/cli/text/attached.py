"""Files and web pages that go with a message in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import InvalidRequest, what_failed

if TYPE_CHECKING:
    from app.storage.attachments import Attachment
    from engine.api import Engine


def read_all(sources: Sequence[str]) -> list[Attachment]:
    """Read files and web pages, before anything is loaded; print what of them could not be read.

    Raises InvalidRequest, which names the file.
    """
    return [_read(source) for source in sources]


def _read(source: str) -> Attachment:
    from app.documents.reading import read_file
    from app.documents.web import fetch_page

    if "://" in source:
        found = fetch_page(source, private=True)  # typed by who may open it anyway
    else:
        path = Path(source).expanduser()
        try:
            found = read_file(path, path.name)
        except OSError as error:
            raise InvalidRequest(
                "file", f"--file {source} cannot be read: {what_failed(error)}."
            ) from error
    for note in found.notes:
        print(f"Note: {note}", file=sys.stderr)
    return found.attachment


def fitted_text(files: Sequence[Attachment], engine: Engine, question: str) -> str:
    """Return the files as the model reads them, without the pages that do not fit its context; print
    which those are."""
    from app.documents.fitting import Weighed, fitted
    from app.storage.attachments import ranges, with_files

    loaded = engine.loaded
    weighed = []
    for each in files:
        counted = engine.tokenize(each.parts)
        weighed.append(
            Weighed(
                [len(part) // 4 for part in each.parts]
                if counted is None
                else [*map(len, counted)],
                bool(each.pages),
            )
        )
    used = engine.tokenize([question])
    fit = fitted(weighed, loaded.context if loaded else 0, len(used[0]) if used else 0)
    given = []
    for each, out in zip(files, fit.left_out, strict=True):
        if out:
            unit = each.unit.lower() or "page"
            says = f"{unit} {out[0]}" if len(out) == 1 else f"{unit}s {ranges(out)}"
            verb, why = ("is", "it does") if len(out) == 1 else ("are", "they do")
            print(
                f"Note: {says} of {each.name} {verb} left out: {why} not fit the context.",
                file=sys.stderr,
            )
        given.append(replace(each, left_out=out))
    return with_files("", given)
