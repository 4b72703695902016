"""README, docs/ and Pip's guide name files, things in them and commands that exist."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from app.cli import cli
from engine.values.sampling import Sampling
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
    pairs = re.findall(r"`([\w.]+)`\s+(?:in|of|\()\s*`?([\w/.]+\.(?:py|tsx?))`", text)
    assert len(pairs) > 5
    assert not [f"{name} in {path}" for name, path in pairs if missing(name, defined(ROOT / path))]


@pytest.mark.parametrize("page", ["architecture", "contributing"])
def test_every_name_that_stands_alone_is_one(page: str) -> None:
    """Of something in the code, or a value that it compares with, as proposers' names are."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`([A-Za-z_][\w.]*)`", text) if name not in PLACEHOLDERS}
    known = all_names()
    assert not [name for name in named if name not in known and missing(name, known)]


@functools.cache
def all_names() -> set[str]:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*")]
    known = {file.name for file in (*files, *ROOT.iterdir())}
    for file in files:
        if file.suffix in (".py", ".ts", ".tsx") and "node_modules" not in file.parts:
            known.update(defined(file), strings(file))
    return known


def missing(name: str, known: set[str]) -> bool:
    return not set(name.split(".")) <= known


@functools.cache
def defined(file: Path) -> set[str]:
    """What a file defines by name: functions, classes, variables and fields."""
    if file.suffix in (".ts", ".tsx"):
        text = file.read_text(encoding="utf-8")
        return set(re.findall(r"(?:function\*?|const|let|class|interface|type)\s+(\w+)", text))
    return parsed(file)[0]


def strings(file: Path) -> set[str]:
    """The words that a file compares with, offers, and the like."""
    return parsed(file)[1] if file.suffix == ".py" else set()


@functools.cache
def parsed(file: Path) -> tuple[set[str], set[str]]:
    """Return the names that a file of Python defines, and its strings."""
    names, texts = set[str](), set[str]()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Attribute(ctx=ast.Store()):
                names.add(node.attr)
            case ast.Constant(value=str(text)):
                texts.add(text)
    return names, texts


def test_the_api_names_every_sampling_parameter() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert not [each.name for each in fields(Sampling) if f"`{each.name}`" not in text]


GUIDE = sorted((ROOT / "tools" / "pip" / "corpora" / "guide").glob("*.yaml"))


@pytest.mark.parametrize("file", [*PAGES, *GUIDE], ids=lambda path: path.stem)
def test_every_command_that_is_taught_exists(file: Path) -> None:
    """Pip's guide taught one that was gone, and its exam gave a point for it."""
    text = file.read_text(encoding="utf-8")
    for told in re.findall(r"(?:`|^)(?:\S*python -m app|foretoken) ([^`\n]+)", text, re.MULTILINE):
        check_command(shlex.split(told, comments=True))
    modules = re.findall(r"python -m (tools\.\w+)", text)
    missing = [module for module in modules if not any(ROOT.glob(module.replace(".", "/") + "*"))]
    assert not missing


@functools.cache
def commands() -> Any:
    return get_command(cli)


def check_command(words: list[str]) -> None:
    """That there is such a command, with these options. Words may go on behind it, as in a sentence."""
    found = commands()
    while hasattr(found, "commands") and words and re.fullmatch("[a-z][a-z-]*", words[0]):
        assert words[0] in found.commands, f"foretoken {' '.join(words)}"
        found, words = found.commands[words[0]], words[1:]
    known = {option for each in found.params for option in (*each.opts, *each.secondary_opts)}
    own = words[: words.index("--")] if "--" in words else words
    unknown = {word.partition("=")[0] for word in own if word.startswith("--")} - known
    assert not unknown - {"--help"}, f"foretoken {found.name} has no {', '.join(unknown)}"
