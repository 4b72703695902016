"""Adds to the user's own catalog, beside what they wrote there themselves.

The file is theirs: lines are added, none is changed, and comments stay. What would no longer load is not
written.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from engine.errors import CatalogError
from engine.loading.catalog import load_catalog

_SECTION = r"^{name}:[ \t]*(?:#.*)?$"


def add(file: Path, shipped: Path, section: str, entry: Mapping[str, object]) -> bool:
    """Puts ``entry`` first in ``section`` (models or pairs); False where its id is there already.

    Raises CatalogError where the file is broken, or has the section in a form that lines cannot be added
    to; OSError where it cannot be written.
    """
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if (
        _has(yaml.safe_load(text) or {}, section, entry["id"])
        if _readable(file, shipped)
        else False
    ):
        return False
    block = yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True)
    block = "".join(f"  {line}\n" for line in block.splitlines())
    changed, found = re.subn(
        _SECTION.format(name=section),
        lambda match: f"{match[0]}\n{block.rstrip()}",
        text,
        count=1,
        flags=re.MULTILINE,
    )
    if not found:
        gap = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{gap}{section}:\n{block}"
    _write(file, shipped, changed)
    return True


def _readable(file: Path, shipped: Path) -> bool:
    """Whether there is a file. Raises CatalogError for a broken one."""
    if not file.is_file():
        return False
    load_catalog(shipped, file)
    return True


def _has(content: Mapping[str, object], section: str, identity: object) -> bool:
    entries = content.get(section)
    return isinstance(entries, list) and any(entry.get("id") == identity for entry in entries)


def _write(file: Path, shipped: Path, text: str) -> None:
    """Replaces the file at once, if the new one loads."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(suffix=".yaml", dir=file.parent)
    trial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        try:
            load_catalog(shipped, trial)
        except CatalogError as error:
            raise CatalogError(
                f"{file} was left as it is, because with one more entry it would not load: {error}"
            ) from error
        trial.replace(file)
    finally:
        trial.unlink(missing_ok=True)
