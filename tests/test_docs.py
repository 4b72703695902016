"""What README and docs/ tell newcomers names files, and things in them, that exist."""

from __future__ import annotations

import re

import pytest

from tests.support.places import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ROOMS = ("app/", "assets/", "docs/", "engine/", "tests/", "tools/", ".ci/")
PLACEHOLDERS = ("NAME", "KIND")
"""What stands for the name of something new."""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_path_that_a_page_names_exists(page) -> None:
    text = page.read_text(encoding="utf-8")
    named = [path for path in re.findall(r"`([^`\s]+)`", text) if path.startswith(ROOMS)]
    named = [path for path in named if not any(sign in path for sign in PLACEHOLDERS)]
    assert not [path for path in named if not any(ROOT.glob(path.rstrip("/")))]
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    assert not [path for path in linked if not (page.parent / path).exists()]


@pytest.mark.parametrize("page", ["architecture", "contributing"])
def test_every_name_is_found_in_the_file_beside_it(page: str) -> None:
    """Written ``name`` in ``file``, ``name`` of ``file``, or ``name`` (``file``)."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    pairs = re.findall(r"`([\w.]+)`\s+(?:in|of|\()\s*`?([\w/.]+\.(?:py|js))`", text)
    assert len(pairs) > 5
    missing = [
        f"{name} in {path}"
        for name, path in pairs
        for part in name.split(".")
        if not re.search(rf"\b{part}\b", (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not missing
