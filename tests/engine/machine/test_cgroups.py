"""A container's memory: less may be left there than the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.machine import cgroups, memory

GIB = 2**30
NO_LIMIT = 9_223_372_036_854_771_712
"""What the first version says where nothing is limited."""


def group(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
                "sys/fs/cgroup/memory.current": f"{3 * GIB}\n",
                "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {GIB}\n",
            },
            2 * GIB,
        ),
        (
            {
                "proc/self/cgroup": "0::/user/app\n",
                "sys/fs/cgroup/user/memory.max": f"{2 * GIB}\n",
                "sys/fs/cgroup/user/memory.current": f"{3 * GIB}\n",
                "sys/fs/cgroup/user/app/memory.max": "max\n",
                "sys/fs/cgroup/user/app/memory.current": "10\n",
            },
            0,
        ),
        (
            {
                # The host's path, seen from within a container.
                "proc/self/cgroup": "7:memory:/docker/0123\n5:cpu:/docker/0123\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000\n",
            },
            GIB - 1000,
        ),
        ({}, None),
    ],
    ids=["free", "caches can go", "a parent's is used up", "version 1", "no control groups"],
)
def test_what_is_left_is_the_least_of_all_groups(
    files: dict[str, str], left: int | None, tmp_path: Path
) -> None:
    assert cgroups.memory_left(group(tmp_path, files)) == left


def test_the_machine_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "memory_left", lambda: NO_LIMIT)
    unlimited = memory.free_bytes()
    assert 0 < unlimited <= memory.total_bytes()
    monkeypatch.setattr(cgroups, "memory_left", lambda: 5)
    assert memory.free_bytes() == 5
