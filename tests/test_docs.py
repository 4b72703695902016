"""README, docs/ and Pip's guide name files, things in them and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from app.cli import cli
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


GUIDE = sorted((ROOT / "tools" / "pip" / "corpora" / "guide").glob("*.yaml"))


@pytest.mark.parametrize("file", [*PAGES, *GUIDE], ids=lambda path: path.stem)
def test_every_command_that_is_taught_exists(file: Path) -> None:
    """Pip's guide taught one that was gone, and its exam gave a point for it."""
    text = file.read_text(encoding="utf-8")
    taught = re.findall(
        r"`(?:\.?\S*python -m app|foretoken) ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", text
    )
    commands = get_command(cli)
    for name, within in taught:
        found = commands.commands.get(name)
        assert found is not None, f"foretoken {name}"
        if hasattr(found, "commands") and within:
            assert within in found.commands, f"foretoken {name} {within}"
    modules = re.findall(r"python -m (tools\.\w+)", text)
    missing = [module for module in modules if not any(ROOT.glob(module.replace(".", "/") + "*"))]
    assert not missing
