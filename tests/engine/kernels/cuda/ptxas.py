"""Compiles a kernel with no GPU at hand, and asks ptxas what it takes."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

ARCHITECTURES = [80, 86, 89, 90, 120]

POINTERS = {
    name: f"*{kind}"
    for kind, names in {
        "bf16": "logits",
        "fp32": "adjusted weights peaks masses q_weights q_masses times",
        "fp64": "settings",
        "i32": "allowed drafted seen peak_tokens found gathered arrived cuts q_cuts winners done out",
        "i64": "numbers bins totals residuals",
    }.items()
    for name in names.split()
}
"""What is behind the arguments of the sampling and acceptance kernels."""

_REPORT = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Usage:
    """Registers a thread, bytes of shared memory a program, bytes spilled a thread."""

    registers: int
    shared: int
    spilled: int
    stack: int


def usage(
    kernel: Any, pointers: dict[str, str], constants: dict[str, Any], arch: int, warps: int = 8
) -> Usage:
    """``pointers`` names the types behind them; every other argument is int32 or in ``constants``.

    As at a launch, pointers are aligned to 16 bytes.
    """
    signature = {
        name: "constexpr" if name in constants else pointers.get(name, "i32")
        for name in kernel.arg_names
    }
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, kind in enumerate(signature.values())
        if kind.startswith("*")
    }
    compiled = triton.compile(
        ASTSource(kernel, signature, constants, aligned),
        target=GPUTarget("cuda", arch, 32),
        options={"num_warps": warps, "enable_fp_fusion": False},
    )
    spilled, stack, registers = _assembled(compiled.asm["ptx"], arch)
    return Usage(registers, compiled.metadata.shared, spilled, stack)


def _assembled(ptx: str, arch: int) -> tuple[int, int, int]:
    """Bytes spilled, bytes of stack, registers: what ptxas says; the driver's count needs a GPU."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        target = re.search(r"\.target (\w+)", ptx)
        assert target is not None
        # As triton calls it.
        command = [
            get_ptxas(arch).path, "-v", "-lineinfo", "--fmad=false", "--regAllocOptLevel=2",
            f"--gpu-name={target[1]}", source,
        ]  # fmt: skip
        done = subprocess.run(
            [*command, "-o", Path(folder, "kernel.cubin")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    found = _REPORT.search(done.stderr + done.stdout)
    assert found is not None, done.stderr
    stack, stores, loads, registers = map(int, found.groups())
    return stores + loads, stack, registers
