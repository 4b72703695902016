"""Add entries to the user's own catalog and remove them.

The file is the user's: other lines and comments stay as they are. A change that would not load is not
written.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from engine.errors import CatalogError
from engine.loading.inventory import load_catalog
from engine.yaml_text import YAML_LOADER

_SECTION = r"^{name}:[ \t]*(?:#.*)?$"
_NAMING = frozenset({"name", "licence", "note"})
"""Keys that may change without making it another model or pair."""


def is_free(file: Path, shipped: Path, section: str, entry: Mapping[str, object]) -> bool:
    """Return whether the id of ``entry`` is free, or the user's own entry of that id has the same
    content.

    Raises CatalogError for a broken file.
    """
    own = _entry(file, shipped, section, entry["id"])
    if own is None:
        shipped_ones = getattr(load_catalog(shipped), section)  # models, pairs or servers
        return all(each.id != entry["id"] for each in shipped_ones)
    return all(own.get(key) == value for key, value in entry.items() if key not in _NAMING)


def add(file: Path, shipped: Path, section: str, entry: Mapping[str, object]) -> bool:
    """Insert ``entry`` first in ``section`` (models, pairs or servers); return False if its id exists.

    Raises CatalogError for a broken file or a section that lines cannot be added to, OSError.
    """
    if _entry(file, shipped, section, entry["id"]) is not None:
        return False
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    block = yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True)
    block = "".join(f"  {line}\n" for line in block.splitlines())
    changed, has_section = re.subn(
        _SECTION.format(name=section),
        lambda match: f"{match[0]}\n{block.rstrip()}",
        text,
        count=1,
        flags=re.MULTILINE,
    )
    if not has_section:
        gap = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{gap}{section}:\n{block}"
    _write(file, shipped, changed)
    return True


def remove(file: Path, shipped: Path, section: str, identity: str) -> bool:
    """Remove the lines of an entry from ``section``; return False if there is none.

    Raises as ``add``.
    """
    if _entry(file, shipped, section, identity) is None:
        return False
    text = file.read_text(encoding="utf-8")
    root: Any = yaml.compose(text, Loader=YAML_LOADER)
    entries = next(value for key, value in root.value if key.value == section)
    own = next(
        node
        for node in entries.value
        if any((key.value, value.value) == ("id", identity) for key, value in node.value)
    )
    if entries.flow_style or own.start_mark.line == entries.start_mark.line == 0:
        raise CatalogError(
            f"{file}: all entries of {section!r} are on one line, so this one cannot be "
            "removed automatically. Remove it by hand."
        )
    lines = text.splitlines(keepends=True)
    # Where the entry ends for YAML, the next one begins: what stands between is that one's.
    ends = [value.end_mark for _, value in own.value]
    last = max(end.line + (1 if end.column else 0) for end in ends)
    left = [*lines[: own.start_mark.line], *lines[last:]]
    _write(file, shipped, "".join(left))
    return True


def _entry(
    file: Path, shipped: Path, section: str, identity: object
) -> Mapping[str, object] | None:
    """Return the user's own entry of that id, or None. Raises CatalogError for a broken file."""
    if not file.is_file():
        return None
    load_catalog(shipped, file)
    entries = (yaml.load(file.read_text(encoding="utf-8"), Loader=YAML_LOADER) or {}).get(
        section
    ) or ()
    return next((entry for entry in entries if entry["id"] == identity), None)


def _write(file: Path, shipped: Path, text: str) -> None:
    """Replace the file atomically, if the new one loads."""
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
                f"{file} was not changed, because the result could not be loaded: {error}"
            ) from error
        trial.replace(file)
    finally:
        trial.unlink(missing_ok=True)
