"""Which compilers are found, in which order they are asked, and one that is fetched."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from engine.backends.native import build
from engine.kernels.native.library import Kind, Library, LinearLibrary, Matrix
from engine.machine import compilers, processor
from engine.machine.compilers import BuildError, Compiler, NoCompiler
from tests.support.compilers import VERSION, hide_compilers, write_program, write_wheel

REFUSES = "echo no such option >&2; exit 1"
COMPILES = 'echo "$0" > "$last"'


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where programs are found; there is no compiler."""
    return hide_compilers(monkeypatch, tmp_path)


def test_compilers_are_asked_in_one_order(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = write_program(tmp_path / "mine" / "my-cc")
    expected = [(str(asked), "-v")]
    expected += [(str(write_program(programs / name)),) for name in ("g++", "clang++", "c++")]
    package = write_program(tmp_path / "site" / "ziglang" / "zig").parent
    (package / "__init__.py").touch()
    spec = importlib.util.spec_from_file_location(
        "ziglang", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    monkeypatch.setattr(compilers, "find_spec", lambda name: spec)
    fetched = write_program(compilers.folder() / "ziglang" / "zig")
    expected += [(str(package / "zig"), "c++"), (str(fetched), "c++")]
    monkeypatch.setenv("CXX", f"{asked} -v")
    assert [compiler.command for compiler in compilers.found()] == expected
    for unknown in ("no-such-compiler", f"{asked} 'open"):
        monkeypatch.setenv("CXX", unknown)
        assert [compiler.command for compiler in compilers.found()] == expected[1:]


def test_a_processor_is_named_as_each_compiler_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers.platform, "machine", lambda: "x86_64")
    assert Compiler(("g++",)).processor("x86-64-v3") == "-march=x86-64-v3"
    assert Compiler(("/there/zig", "c++")).processor("x86-64-v3") == "-mcpu=x86_64_v3"
    monkeypatch.setattr(compilers.platform, "machine", lambda: "arm64")
    assert Compiler(("clang++",)).processor("native") == "-mcpu=native"


def test_a_mac_that_only_offers_to_install_a_compiler_has_none(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its /usr/bin/c++ opens a window and fails."""
    monkeypatch.setattr(compilers.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(sys, "platform", "darwin")
    write_program(programs / "xcode-select", "exit 2")
    assert compilers.found() == ()
    write_program(programs / "xcode-select", "exit 0")
    assert Compiler(("/usr/bin/c++",)) in compilers.found()


def test_two_macs_have_two_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python calls each processor of theirs "arm", and a home may move from one to an older one."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(Path, "read_bytes", Path("/none").read_bytes)
    monkeypatch.setattr(processor, "cpuinfo", lambda root: "")
    features = []
    for name in ("Apple M1", "Apple M4"):
        monkeypatch.setattr(processor, "_sysctl", lambda _, name=name: name)
        features.append(build._features())
    assert features[0] != features[1]


def test_where_one_compiler_refuses_the_next_is_asked(programs: Path) -> None:
    write_program(programs / "g++", REFUSES)
    second = write_program(programs / "clang++", COMPILES)
    path = build.build()
    assert path.read_text().strip() == str(second)
    assert build.built() == path


def test_where_all_refuse_the_first_ones_reason_is_told(programs: Path) -> None:
    write_program(programs / "g++", REFUSES)
    write_program(programs / "c++", "exit 1")
    with pytest.raises(BuildError, match=r"g\+\+ could not compile.*no such option"):
        build.build()
    assert build.built() is None


def test_without_a_compiler_it_is_said_how_to_get_one(programs: Path) -> None:
    with pytest.raises(NoCompiler, match=r"foretoken compiler --fetch.*410 MB"):
        build.build()
    assert build.built() is None


def offer(monkeypatch: pytest.MonkeyPatch, wheels: Path) -> None:
    """pip finds what lies in ``wheels`` and nothing else."""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setattr(compilers, "find_spec", lambda name: name == "pip" or None)


def test_a_fetched_compiler_is_found_and_an_older_one_replaced(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = compilers.folder() / "ziglang" / "stale"
    stale.parent.mkdir(parents=True)
    stale.touch()
    write_wheel(tmp_path / "wheels", f'[ "$1" = version ] && echo {VERSION} || {COMPILES}')
    offer(monkeypatch, tmp_path / "wheels")
    fetched = compilers.fetch()
    monkeypatch.setattr(compilers, "find_spec", lambda name: None)
    assert compilers.found() == (fetched,)
    assert fetched.version().decode().strip() == VERSION
    assert not stale.exists()
    assert build.build().read_text().strip() == fetched.command[0]
    assert [path.name for path in compilers.folder().iterdir()] == ["ziglang"]


def test_what_cannot_be_fetched_leaves_everything_as_it_was(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = write_program(compilers.folder() / "ziglang" / "zig")
    (tmp_path / "wheels").mkdir()
    offer(monkeypatch, tmp_path / "wheels")
    with pytest.raises(BuildError, match="pip could not install ziglang"):
        compilers.fetch()
    assert kept.exists()
    assert [path.name for path in compilers.folder().iterdir()] == ["ziglang"]


def test_without_pip_it_is_said(programs: Path) -> None:
    with pytest.raises(BuildError, match="-m ensurepip"):
        compilers.fetch()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_zig_compiles_the_same_integers(library: Library, tmp_path: Path) -> None:
    """Sums of integers have no order, so two compilers' products in int8 are the same bits."""
    zigs = [compiler for compiler in compilers.found() if compiler.is_zig]
    if not zigs:
        pytest.skip(
            "no zig is here; `foretoken compiler --fetch` or `pip install ziglang` brings it"
        )
    other = LinearLibrary(build.build(build.LINEAR, candidates=zigs), 2)
    weight = torch.randn(100, 1040, generator=torch.Generator().manual_seed(0))
    x = torch.randn(16, 1040, generator=torch.Generator().manual_seed(1))
    expected = Matrix(library, Kind.INT8, weight)(x)
    matrix = Matrix(other, Kind.INT8, weight)
    for count in range(1, 17):
        assert torch.equal(matrix(x[:count]), expected[:count]), count
