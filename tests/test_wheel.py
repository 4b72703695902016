"""The wheel: built without a network, installed away from the checkout, and used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.processes import Program, free_port, running

pytestmark = pytest.mark.slow

SOURCES = ("app", "assets", "engine", "tools")
FILES = ("LICENSE", "README.md", "model_catalog.yaml", "pyproject.toml")
INSTALLED = (".py", ".cpp", ".h", ".yaml", ".jsonl")
"""Of the packages' files; the pages' scripts are in the bundle."""
NOT_SHIPPED = {"__pycache__", "node_modules"}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The folder of an environment with the wheel, and with all that the wheel needs from this one."""
    checkout, made = tmp_path / "checkout", tmp_path / "environment"
    checkout.mkdir()
    for name in (*SOURCES, *FILES):  # setuptools writes beside them
        _link(checkout / name, ROOT / name)
    _pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(checkout))
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(made)
    _pip(
        "--python", str(made), "install", "--no-deps", str(wheel)
    )  # and compile it, for three starts
    # Its .pth files are not read, so the checkout that it may name is not found.
    (_packages(made) / "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return made


def _link(path: Path, to: Path) -> None:
    try:
        path.symlink_to(to)
    except OSError:  # Windows asks for a right
        shutil.copytree(to, path) if to.is_dir() else shutil.copyfile(to, path)


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    # In a path that leads to the checkout, pip would find the package installed already.
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PYTHONPATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _packages(environment: Path) -> Path:
    (folder,) = environment.glob("[Ll]ib/**/site-packages")
    return folder


def _files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and not NOT_SHIPPED & set(path.relative_to(folder).parts)
    }


def test_an_installed_wheel_chats_and_serves_its_pages(installed: Path, tmp_path: Path) -> None:
    before = _files(_packages(installed))
    own = {f"{top}/{name}" for top in ("app", "engine") for name in _files(ROOT / top)}
    there = {name for name in before if name.startswith(("app/", "engine/"))}
    there = {name for name in there if not name.startswith("app/shipped/")}
    wanted = {name for name in own if name.endswith(INSTALLED)}
    assert (wanted - there, there - wanted) == (set(), set())
    assert {f"app/shipped/assets/{name}" for name in _files(ROOT / "assets")} <= before

    away = tmp_path / "away"
    away.mkdir()
    foretoken = sysconfig.get_path("scripts", "venv", {"base": str(installed)}) + "/foretoken"
    environment = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}

    def said(*words: str) -> str:
        done = subprocess.run(
            [foretoken, *words],
            cwd=away,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert re.fullmatch(r"foretoken \d+\.\d+\.\d+\n", said("--version"))
    data = ("--data-dir", str(tmp_path / "data"))
    assert said("chat", "--pair", "pip", "hi", *data).strip()
    words = [foretoken, "ui", "--no-browser", "--port", str(free_port()), *data]
    with running(words, tmp_path / "log", environment, away) as app:
        _has_its_page(app)
    assert _files(_packages(installed)) == before


def _has_its_page(app: Program) -> None:
    """Read the page and its scripts from the socket."""
    found = app.until(lambda: re.search(r"Foretoken is at (\S+)", app.said))
    scripts = set(re.findall(r"/foretoken/[\w./-]+\.js", _read(found[1])))
    assert scripts
    assert all("import" in _read(found[1] + script) for script in scripts), scripts


def _read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return str(answer.read().decode())
