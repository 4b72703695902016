"""The bundle of the pages is served, and made of what it should be."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.ui import head, presentation
from app.ui.addresses import PAGES
from tests.support.places import ROOT

UI, SERVED = ROOT / "app" / "ui", ROOT / "assets" / "ui"
SOURCES = sorted(
    path
    for folder in ("pages", "shared")
    for suffix in ("ts", "tsx", "css")
    for path in (UI / folder).rglob(f"*.{suffix}")
)
IMPORTED = re.compile(r'(?:^(?:import|export) (?:[^;"]*? from )?|url\()"(\.[^"]+)"', re.M)


def test_the_bundle_is_served_once_and_for_good() -> None:
    client = TestClient(Starlette(routes=presentation()["app_kwargs"]["routes"]))
    named = re.findall(r'(?:href|src)="(/foretoken/[^"]+)"', head())
    assert [address.rpartition("/")[2] for address in named[:2]] == ["app.css", "app.js"]
    fonts = re.findall(r"url\(\"?(?:\./)?(fonts/[^)\"]+)", (SERVED / "app.css").read_text())
    folder = named[0].rpartition("/")[0]
    assert fonts
    for address in (*named, f"{folder}/katex.js", *(f"{folder}/{font}" for font in fonts)):
        found = client.get(address)
        assert found.status_code == 200, address
        assert "immutable" in found.headers["cache-control"]


def test_licences_of_all_bundled_packages_come_with_them() -> None:
    text = (SERVED / "LICENSES.txt").read_text()
    packages = json.loads((UI / "package.json").read_text())["dependencies"]
    named = dict(re.findall(r"^(\S+) (\S+) \(.*\)\n=", text, re.M))
    assert {"katex", "marked"} <= set(named)
    assert named.items() <= packages.items()


def test_every_page_is_in_the_bundle() -> None:
    imported = (UI / "main.ts").read_text()
    for page in PAGES:
        assert re.search(rf'"\./pages/{page}/{page}"', imported)
        assert f'"./pages/{page}/{page}.css"' in imported


def test_the_bundle_is_that_of_the_sources() -> None:
    if shutil.which("node") is None or not (UI / "node_modules").is_dir():
        pytest.skip("npm --prefix app/ui ci was not run here")
    check = [shutil.which("node"), "bundle/build.mjs", "--check"]
    done = subprocess.run(check, cwd=UI, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_script_is_typed() -> None:
    untyped = [path.relative_to(ROOT) for path in SOURCES if "@ts-nocheck" in path.read_text()]
    assert not untyped


def test_texts_have_six_sizes_and_three_weights() -> None:
    said = re.compile(r"font-(size|weight): ([^;]+);")
    allowed = r"inherit|var\(--ft-(text-(xs|sm|md|lg|xl|2xl)|normal|medium|bold)\)( !important)?"
    wrong = [
        f"{path.relative_to(ROOT)}: {rule.group()}"
        for path in SOURCES
        for rule in (said.finditer(path.read_text()) if path.suffix == ".css" else ())
        if not re.fullmatch(allowed, rule[2])
    ]
    assert not wrong


def test_no_page_takes_its_scripts_from_another() -> None:
    """What two pages use belongs to all: the settings once lay in the chat's folder."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        for name in IMPORTED.findall(path.read_text())
        if page_of((path.parent / name).resolve()) not in (None, page_of(path))
    ]
    assert not wrong


def page_of(path: Path) -> str | None:
    """Return the page whose folder ``path`` is in; None for what all pages share."""
    parts = path.relative_to(UI).parts
    return parts[1] if parts[0] == "pages" else None
