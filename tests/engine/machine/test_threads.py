"""How many threads compute: cores, not hyperthreads, and no more than were granted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.errors import InvalidRequest
from engine.machine import threads

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux' own files")


def machine(root: Path, cores: list[tuple[int, int] | None], files: dict[str, str]) -> Path:
    """A folder like / of a machine: (package, core) of each processor, and control groups."""
    blocks = []
    for number, core in enumerate(cores):
        lines = [f"processor\t: {number}", "model name\t: Some processor: 3.0 GHz"]
        if core is not None:
            lines += [f"physical id\t: {core[0]}", f"core id\t\t: {core[1]}"]
        blocks.append("\n".join(lines))
    for name, text in {"proc/cpuinfo": "\n\n".join(blocks) + "\n\n", **files}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


HYPERTHREADED = [(package, core) for package in (0, 1) for core in (0, 1)] * 2
"""Two packages of two cores of two threads: 8 processors."""


@linux
@pytest.mark.parametrize(
    ("cores", "allowed", "count"),
    [
        (HYPERTHREADED, range(8), 4),
        (HYPERTHREADED, {0, 4}, 1),
        (HYPERTHREADED, {0, 1, 6}, 3),
        ([None] * 6, range(6), 6),
        ([None] * 6, {2, 3}, 2),
        ([], range(3), 3),
    ],
    ids=["all", "one core", "some", "ARM", "some of ARM", "no list"],
)
def test_cores_are_counted_once_and_only_where_the_process_may_run(
    cores: list[tuple[int, int] | None],
    allowed: range | set[int],
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_allowed", lambda: allowed)
    assert threads.physical_cores(machine(tmp_path, cores, {})) == count


@linux
@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 4),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "0::/user/app\n",
                "sys/fs/cgroup/user/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/user/app/cpu.max": "max 100000\n",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "5:memory:/box\n4:cpu,cpuacct:/box\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        ({"proc/self/cgroup": "nonsense\n"}, 4),
    ],
    ids=["free", "2.5", "half", "a parent's", "version 1", "version 1, free", "nonsense"],
)
def test_a_containers_share_is_respected(
    files: dict[str, str], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_allowed", lambda: range(8))
    assert threads.physical_cores(machine(tmp_path, list(HYPERTHREADED), files)) == count


def test_elsewhere_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(threads, "_allowed", lambda: range(8))
    for told, count in ((4, 4), (None, 8), (16, 8)):
        monkeypatch.setattr("psutil.cpu_count", lambda logical, told=told: told)
        assert threads.physical_cores() == count


def test_this_machine_has_a_core() -> None:
    assert 1 <= threads.physical_cores() <= len(threads._allowed())


@pytest.mark.parametrize(
    ("stated", "count"),
    [("3", 3), ("2,4", 2), ("", 7), ("0", 7), ("many", 7), ("70000", 8)],
)
def test_the_usual_variable_is_heard(
    stated: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "physical_cores", lambda: 7)
    monkeypatch.setattr(threads, "_allowed", lambda: range(8))
    monkeypatch.setenv("OMP_NUM_THREADS", stated)
    assert threads.default() == count


def test_more_threads_than_processors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_allowed", lambda: range(4))
    assert [threads.check(count) for count in (None, 1, 4)] == [None, 1, 4]
    for count in (0, -1, 5):
        with pytest.raises(InvalidRequest, match=f"threads is {count}; it must be 1 to 4"):
            threads.check(count)


def test_torch_is_told() -> None:
    import torch

    before = torch.get_num_threads()
    try:
        assert threads.use(1) == torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
