"""What the system tells of its processor."""

from __future__ import annotations

from pathlib import Path

from engine.machine import processor

X86 = """processor\t: 0
model name\t: Some Processor: 3.0 GHz
flags\t\t: fpu avx avx2 fma avx512_vnni rdpid

processor\t: 1
model name\t: Some Processor: 3.0 GHz
flags\t\t: fpu avx avx2 fma avx512_vnni rdpid
"""
ARM = """processor\t: 0
Features\t: fp asimd asimddp i8mm aes
CPU part\t: 0xd40
"""


def machine(root: Path, told: str) -> Path:
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(told)
    return root


def test_name_and_instructions_are_read_of_x86(tmp_path: Path) -> None:
    root = machine(tmp_path, X86)
    assert processor.name(root) == "Some Processor: 3.0 GHz"
    assert processor.instructions(root) == ("avx", "fma", "avx2", "avx512_vnni")


def test_instructions_are_read_of_arm_which_has_no_name(tmp_path: Path) -> None:
    root = machine(tmp_path, ARM)
    assert processor.instructions(root) == ("asimd", "asimddp", "i8mm")
    assert processor.name(root)


def test_elsewhere_the_name_is_what_python_knows(tmp_path: Path) -> None:
    assert processor.name(tmp_path)
    assert processor.instructions(tmp_path) == ()
