"""Programs that stand in for compilers, and a wheel that brings one."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from engine.machine import compilers

VERSION = "0.17.99"
"""That wheels made here say they have: of those that are asked for, and published nowhere."""
_BEGIN = """#!/bin/sh
for last; do :; done
case "$last" in --version) exit;; esac
"""


def hide_compilers(monkeypatch: pytest.MonkeyPatch, root: Path) -> Path:
    """No compiler is on this machine, nor any library built; returns the folder where programs are found.

    What programs need of the system is still there.
    """
    programs = root / "bin"
    programs.mkdir()
    for name in ("sh", "cp"):
        (programs / name).symlink_to(Path("/bin") / name)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(compilers, "find_spec", lambda name: None)
    return programs


def write_program(path: Path, body: str = "") -> Path:
    """A program in the shell's language; in ``body``, $last is its last argument. ``body`` is not run
    where a version is asked for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{_BEGIN}{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def write_wheel(folder: Path, program: str) -> None:
    """The wheel ``ziglang``, whose program does what ``program`` says, as in ``write_program``."""
    folder.mkdir(parents=True, exist_ok=True)
    about = f"ziglang-{VERSION}.dist-info"
    with zipfile.ZipFile(folder / f"ziglang-{VERSION}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("ziglang/__init__.py", "")
        script = zipfile.ZipInfo("ziglang/zig")
        script.external_attr = 0o100755 << 16
        wheel.writestr(script, f"{_BEGIN}{program}\n")
        wheel.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: ziglang\nVersion: {VERSION}\n"
        )
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
