"""The launcher: what it installs, when it does not, and what it says when it cannot."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import launcher
from tests.support.processes import free_port

ROOT = Path(__file__).resolve().parent.parent
posix_only = pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that looks installed to the launcher."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    python = launcher.venv_python(tmp_path)
    python.parent.mkdir(parents=True)
    python.touch()
    launcher.stamp_file("app", tmp_path).write_text(launcher.fingerprint(tmp_path))
    return tmp_path


def test_an_unchanged_project_needs_no_preparation(project: Path) -> None:
    assert launcher.is_prepared("app", project)


def test_the_tests_needs_have_a_stamp_of_their_own(project: Path) -> None:
    assert not launcher.is_prepared("test", project)


def test_a_changed_pyproject_asks_for_another_installation(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project]\nname = 'y'\n")
    assert not launcher.is_prepared("app", project)


def test_another_python_asks_for_another_installation(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher.sys, "version_info", (3, 99, 0))
    assert not launcher.is_prepared("app", project)


def test_a_moved_folder_asks_for_another_installation(project: Path) -> None:
    moved = project.parent / "elsewhere"
    project.rename(moved)
    assert not launcher.is_prepared("app", moved)


def test_a_missing_interpreter_asks_for_another_installation(project: Path) -> None:
    launcher.venv_python(project).unlink()
    assert not launcher.is_prepared("app", project)


@posix_only
def test_an_interrupted_installation_is_not_trusted(project: Path) -> None:
    python = launcher.venv_python(project)
    python.unlink()
    python.symlink_to(sys.executable)
    assert launcher.works(project)
    launcher.unfinished_mark(project).touch()
    assert not launcher.works(project)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A project that installs in a moment and needs no network."""
    (tmp_path / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        "[project]\nname = 'tiny'\nversion = '1'\n"
    )
    (tmp_path / "backend.py").write_text(TINY_BACKEND)
    return tmp_path


def test_two_launchers_at_once_make_a_half_made_environment_anew_which_is_remembered(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And then a failing pip is shown with a remedy: one environment takes seconds to make."""
    rubble = tiny / ".venv" / "lib" / "rubble"
    rubble.parent.mkdir(parents=True)
    rubble.touch()
    (tiny / "launcher.py").write_bytes((ROOT / "launcher.py").read_bytes())
    command = [sys.executable, "-c", "import launcher; launcher.prepare('app')"]
    both = [
        subprocess.Popen(
            command, cwd=tiny, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(2)
    ]
    printed = [process.communicate(timeout=250)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], printed
    assert "".join(printed).count("rebuilding it") == 1
    assert "".join(printed).count("[2/2]") == 1
    assert not rubble.exists()
    assert launcher.is_prepared("app", tiny)
    assert not launcher.unfinished_mark(tiny).exists()
    with monkeypatch.context() as patch:
        patch.setattr(launcher.subprocess, "Popen", None)
        patch.setattr(launcher.subprocess, "run", None)
        launcher.prepare("app", tiny)  # starts no process

    (tiny / "pyproject.toml").write_text("this is no toml\n")
    with pytest.raises(launcher.LauncherError) as failure:
        launcher.install("app", tiny)
    assert "Installing failed" in str(failure.value)
    assert "this is no toml" in str(failure.value) or "TOML" in str(failure.value)
    assert not launcher.is_prepared("app", tiny)
    assert launcher.works(tiny), "pip failed by itself, so the environment is still good"


OFFLINE = (2, "error: no route\n  cause: dns error\n")
MISSING = (1, "ERROR: No matching distribution found for torch==2.13.0")


@pytest.mark.parametrize(
    ("system", "nvidia", "answers", "tried"),
    [
        ("linux", False, [(0, "")], ["uv cpu"]),
        ("linux", True, [(0, "")], ["uv"]),
        ("win32", False, [(0, "")], ["uv"]),
        ("win32", True, [(0, "")], ["uv auto"]),
        ("win32", True, [OFFLINE, (0, "")], ["uv auto", "uv"]),
        ("darwin", False, [(0, "")], ["uv"]),
        ("linux", False, [OFFLINE, (0, "")], ["uv cpu", "uv"]),
        ("linux", False, [OFFLINE, OFFLINE, (0, "")], ["uv cpu", "uv", "pip"]),
        ("linux", True, [OFFLINE, MISSING, (0, "")], ["uv", "pip", "pip untested"]),
        ("linux", True, [OFFLINE, OFFLINE], ["uv", "pip"]),
    ],
)
def test_a_fitting_build_of_torch_comes_where_it_can_and_what_fails_is_said(
    system: str,
    nvidia: bool,
    answers: list[tuple[int, str]],
    tried: list[str],
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project / ".ci").mkdir()
    (project / ".ci" / "constraints.txt").write_text("torch==2.13.0\n")
    seen = []
    left = iter(answers)

    def run(command: list[str], *_: object) -> tuple[int, str]:
        name = "uv" if command[0] == "uv" else "pip"
        untested = "" if "-c" in command else " untested"
        build = f" {command[-1]}" if command[-2] == "--torch-backend" else ""
        seen.append(name + build + untested)
        return next(left)

    monkeypatch.setattr(launcher, "run", run)
    monkeypatch.setattr(launcher, "find_uv", lambda root: "uv")
    monkeypatch.setattr(launcher, "settings_of_pip", lambda root: {})
    choose = launcher.torch_backend
    monkeypatch.setattr(launcher, "torch_backend", lambda: choose(system))
    monkeypatch.setattr(launcher, "NVIDIA_SIGNS", ())
    monkeypatch.setattr(launcher.shutil, "which", lambda name: name if nvidia else None)
    assert launcher.run_installers(".", project)[0] == answers[-1][0]
    assert seen == tried
    said = capsys.readouterr().out.splitlines()
    assert len(said) == len(answers) - 1
    assert not said or "using" in said[0]


def test_uv_is_told_where_pip_gets_packages_from(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"FIND_LINKS": "/one /two", "INDEX_URL": "https://a.test/packages", "CERT": "a.pem"}
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", "the user's own")
    for name, value in told.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    found = launcher.settings_of_pip(Path(sys.executable))
    assert found["UV_DEFAULT_INDEX"] == "https://a.test/packages"
    assert found["UV_FIND_LINKS"] == "/one,/two"
    assert "SSL_CERT_FILE" not in found


def test_tested_versions_are_listed_for_all_that_pyproject_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned: dict[str, list[SpecifierSet]] = defaultdict(list)
    for pin in map(Requirement, lines):
        pinned[canonicalize_name(pin.name)].append(pin.specifier)
    for text in sum(project["optional-dependencies"].values(), project["dependencies"]):
        wanted = Requirement(text)
        if wanted.name == "triton":  # a CUDA build of torch says which
            continue
        pins = pinned[canonicalize_name(wanted.name)]
        assert pins, f"renew .ci/constraints.txt as docs/contributing.md says: it lacks {text}"
        versions = [next(iter(pin)).version for pin in pins]
        assert all(wanted.specifier.contains(version) for version in versions), text


TINY_BACKEND = """
import zipfile

def get_requires_for_build_editable(config_settings=None):
    return []

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        info = "tiny-1.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
        tags = "Generator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\n" + tags)
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


@pytest.mark.parametrize(
    ("output", "sign"),
    [
        ("WARNING: Retrying ... NewConnectionError(...)\nNo matching distribution", "network"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("PermissionError: [Errno 13] Permission denied", "cannot be written"),
        ("ERROR: No matching distribution found for torch", "no build for this Python"),
        ("something nobody foresaw", "Deleting the folder .venv"),
    ],
)
def test_the_remedy_fits_the_failure(output: str, sign: str) -> None:
    assert sign in launcher.remedy(output)


def test_an_old_python_is_told_what_to_install() -> None:
    launcher.check_python((3, 11))
    with pytest.raises(launcher.LauncherError, match=r"3\.11 or newer; this is 3\.9"):
        launcher.check_python((3, 9))


def test_the_launcher_still_parses_on_the_pythons_it_turns_away() -> None:
    import ast

    ast.parse((ROOT / "launcher.py").read_text(encoding="utf-8"), feature_version=(3, 8))


def test_the_launcher_needs_nothing_but_the_standard_library() -> None:
    code = "import sys; sys.path.insert(0, '.'); import launcher; print(launcher.ROOT)"
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(ROOT)


def test_help_comes_without_installing_anything(tmp_path: Path) -> None:
    copy = tmp_path / "launcher.py"
    copy.write_bytes((ROOT / "launcher.py").read_bytes())
    command = [sys.executable, str(copy), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--no-browser" in done.stdout
    assert not (tmp_path / ".venv").exists()


def test_arguments_pass_through_to_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[list[Path | str]] = []
    monkeypatch.setattr(launcher, "prepare", lambda extra: None)
    monkeypatch.setattr(launcher, "hand_over", lambda command: handed.append(command) or 0)
    monkeypatch.setenv("FORETOKEN_PROGRAM", "")
    for words in (["--port", "9000"], ["ui", "--port", "9000"]):
        assert launcher.main(words) == 0
        assert handed.pop()[1:] == ["-P", "-m", "app", "ui", "--port", "9000"]
    command = [sys.executable, "-m", "app", "ui", "--prot"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Try 'python launcher.py ui --help' for help." in done.stderr


def test_an_unknown_command_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["tset"]) == 1
    assert "launcher.py has no command 'tset'" in capsys.readouterr().err


def test_arguments_pass_through_to_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[list[Path | str]] = []
    prepared: list[str] = []
    monkeypatch.setattr(launcher, "prepare", prepared.append)
    monkeypatch.setattr(launcher, "find_chromium", lambda: None)
    monkeypatch.setattr(launcher, "hand_over", lambda command: handed.append(command) or 0)
    monkeypatch.chdir(ROOT)
    assert launcher.main(["test", "-k", "guard", "-x"]) == 0
    assert handed[0][1:] == ["-m", "pytest", *launcher.SIDE_BY_SIDE, "-k", "guard", "-x"]
    assert prepared == ["test"]


def test_a_second_launcher_waits_for_the_first(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    order: list[str] = []

    def second() -> None:
        with launcher.only_one(lock):
            order.append("second")

    with launcher.only_one(lock):
        waiting = threading.Thread(target=second)
        waiting.start()
        time.sleep(0.5)
        order.append("first")
    waiting.join(timeout=10)
    assert order == ["first", "second"]


def test_a_file_system_without_locks_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher waited for ever for another one."""
    fcntl = pytest.importorskip("fcntl")

    def flock(file: object, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with launcher.only_one(tmp_path / "lock"):
        pass


def test_a_folder_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended in a traceback."""

    def prepare(extra: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/opt/.venv.lock")

    monkeypatch.setattr(launcher, "prepare", prepare)
    assert launcher.main([]) == 1
    told = capsys.readouterr().err
    assert "/opt/.venv.lock" in told and "The folder cannot be written to" in told


def test_progress_off_a_terminal_names_only_large_downloads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = launcher.Progress(io.StringIO())
    for line in (
        "Collecting torch<2.14,>=2.11\n",
        "  Downloading torch-2.13.0-cp311.whl.metadata (30 kB)\n",
        "  Downloading torch-2.13.0-cp311.whl (202.4 MB)\n",
        "  Downloading rich-15.0-py3.whl (240 kB)\n",
        "Installing collected packages: a, b, c\n",
        "  Downloading\n",
    ):
        progress.show(line)
    progress.end()
    printed = capsys.readouterr().out.split("\n")
    assert [line.strip() for line in printed if line] == [
        "downloading torch, 202.4 MB",
        "unpacking 3 packages",
    ]


def test_a_terminal_gets_one_changing_line() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    progress = launcher.Progress(terminal)
    progress.show("Collecting torch<2.14,>=2.11\n")
    progress.show("  Downloading torch-2.13.0-cp311.whl (202.4 MB)\n")
    progress.end()
    assert "downloading torch, 202.4 MB" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()


def test_without_chromium_the_launcher_says_that_browser_tests_skip(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert launcher.find_chromium(lambda name: None) is None
    assert "browser tests will be skipped" in capsys.readouterr().out


# --- the real thing ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared() -> None:
    """The environment the tests run in is the launcher's own, as `launcher.py test` makes it."""
    if Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        pytest.skip("these tests do not run from the launcher's .venv")
    if not launcher.is_prepared("app"):
        pytest.skip("the launcher has not prepared .venv: run `python launcher.py test`")


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "launcher.py"), *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_address(process: subprocess.Popen[str]) -> str:
    """Return the address that the launcher prints."""
    printed = ""
    assert process.stdout is not None
    for line in process.stdout:
        printed += line
        if "Foretoken is at " in line:
            return line.split("Foretoken is at ")[1].split()[0]
    raise AssertionError(f"the app did not start: {printed}")


@posix_only
@pytest.mark.slow
def test_the_launcher_starts_the_app_and_ctrl_c_stops_it(prepared: None, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise SystemExit('not the app')")
    words = ("--port", str(port), "--no-browser", "--data-dir", "data")
    with start(tmp_path, *words) as process:
        try:
            address = wait_for_address(process)
            assert address.endswith(f":{port}")
            with urllib.request.urlopen(address, timeout=30) as page:
                assert page.status == 200
                assert b"Foretoken" in page.read()
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "Traceback" not in rest
    assert (tmp_path / "data").is_dir()
