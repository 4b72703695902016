"""``foretoken compiler``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.backends.native import build
from engine.kernels.native.library import Library
from engine.machine import compilers
from tests.app.cli.conftest import Foretoken
from tests.support.compilers import hide_compilers, write_program, write_wheel


def test_a_machine_without_a_compiler_gets_one(
    foretoken: Foretoken, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a wheel that brings, in place of zig, a library that was compiled before."""
    made = shutil.copy(build.build(), tmp_path / "made.so")
    write_wheel(tmp_path / "wheels", f'[ "$1" = version ] && echo 1 || cp {made} "$last"')
    hide_compilers(monkeypatch, tmp_path)
    none = foretoken("compiler")
    assert none.status == 2 and "`foretoken compiler --fetch`" in none.err

    monkeypatch.setattr(compilers, "find_spec", lambda name: name == "pip" or None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    fetched = foretoken("compiler", "--fetch")
    assert fetched.status == 0, fetched.err
    for said in (
        "410 MB",
        str(compilers.folder()),
        "Downloaded in",
        "ready in",
        "The compiler takes",
    ):
        assert said in fetched.out
    monkeypatch.setattr(compilers, "find_spec", lambda name: None)
    assert f"The compiled kernels are in {build.built()}" in foretoken("compiler").out


def test_nothing_is_fetched_where_a_compiler_works(
    foretoken: Foretoken, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shutil.copy(build.build(), tmp_path / "made.so")
    write_program(hide_compilers(monkeypatch, tmp_path) / "c++", f'cp {made} "$last"')
    result = foretoken("compiler", "--fetch")
    assert result.status == 0, result.err
    assert "Nothing to download" in result.out
    assert not compilers.folder().exists()
