"""What holds for all tests."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from engine.backends.native import build
from engine.machine import processor, worker_process
from engine.machine.compilers import BuildError

# How long an example takes says nothing about the code on a machine that is busy with something else.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# A shell without job control starts what runs in the background deaf to Ctrl-C, and programs inherit
# that: tests that send it would wait for an end that never comes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


if "PYTEST_XDIST_WORKER" in os.environ:
    # Before torch is imported. Processes side by side compute with one thread each: theirs would fight.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = ["tests.support.browsers", "tests.support.fixtures"]

TESTS = Path(__file__).resolve().parent
LONG = (
    "test_interpreted.py",
    "test_models_in_browser.py",
    "test_lossless.py",
    "test_lossless_cross_vocabulary.py",
    "test_decoder.py",
    "test_main.py",
    "test_wheel.py",
    "test_gpu_bench.py",
    "test_launcher.py",
)
WORKERS = 4
"""More test processes than these would wait for each other's browsers."""


def pytest_configure(config: pytest.Config) -> None:
    if _for_gpu(config):  # its machine may have other versions, which warn of other things
        config.addinivalue_line("filterwarnings", "default")
    _share_rewriting(config)


def _share_rewriting(config: pytest.Config) -> None:
    """Let each process begin with other files when all are read.

    pytest keeps a file with its assertions rewritten. In step, every process would rewrite all of them,
    which takes 14 s.
    """
    process = getattr(config, "workerinput", None)
    if process is None or [Path(each).resolve() for each in config.args] != [TESTS]:
        return
    files = sorted(TESTS.rglob("test_*.py"))
    if _for_gpu(config):  # a file that is named has its folder's conftest.py read, tests or not
        files = list(filter(_has_gpu_tests, files))
    begin = len(files) * int(process["workerid"].removeprefix("gw")) // process["workercount"]
    config.args = [str(file) for file in (*files[begin:], *files[:begin])]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``-m gpu`` runs where the pages' libraries may be absent: only files with such tests are read,
    and no folder's conftest.py where there are none."""
    if not _for_gpu(config):
        return None
    if collection_path.is_dir():
        return not any(map(_has_gpu_tests, collection_path.rglob("test_*.py"))) or None
    return (
        collection_path.name.startswith("test_") and not _has_gpu_tests(collection_path)
    ) or None


def _has_gpu_tests(file: Path) -> bool:
    return b"mark.gpu" in file.read_bytes()


def _for_gpu(config: pytest.Config) -> bool:
    return str(config.getoption("markexpr")).split(" ")[0] == "gpu"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes come first: begun last, they would leave all processes but one idle."""
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: (place.get(item.path.name, len(LONG)), item.path.parts))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays until the end, and the garbage collector need not look at it.

    An engine collects whenever it loads: a second each time, with all modules and tests in memory.
    """
    gc.collect()
    gc.freeze()
    _build_step(session)


def _build_step(session: pytest.Session) -> None:
    """Build the compiled step, or wait while another process does.

    Built by the first test or app that needs it, it would come in the middle of tests in other
    processes. They begin in torch without it, and its words are others.
    """
    if session.config.option.collectonly or _for_gpu(session.config):
        return
    if any(item.path.parent != TESTS for item in session.items):  # those beside this file need none
        with contextlib.suppress(BuildError):
            build.build()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes ``-n auto`` starts; tests of the GPU share one, so they run in this one.

    One more than there are processors: a third of the time tests wait, for clocks and each other's
    programs.
    """
    if _for_gpu(config):
        return 0
    return min((os.cpu_count() or 1) + 1, WORKERS)


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Races give no verdict beside other programs, which the tests' own machine may run. These may leave
    worker processes, which are nice, a twentieth of a processor."""
    monkeypatch.setattr(processor, "taken_by_others", lambda: 0.0)
    monkeypatch.setattr(worker_process, "_WAITING", 600)


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Commands called in this process may set variables, for themselves alone."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
