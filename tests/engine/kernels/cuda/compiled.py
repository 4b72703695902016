"""Compiles a kernel for a device that is not there, and reads what it will take of it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel

from engine.kernels.cuda.products import OPTIONS

SIZES = ("outputs", "width", "span")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+).*?LOCAL:(\d+)")


@dataclass(frozen=True, slots=True)
class Resources:
    """Registers of a thread, bytes of shared memory of a program; what spilled is in ``stack``."""

    registers: int
    shared: int
    stack: int
    local: int


def compile_kernel(
    kernel: Any, signature: dict[str, str], constants: dict[str, Any], arch: int, **options: int
) -> CompiledKernel:
    """``signature`` gives types by argument name, "constexpr" for those in ``constants``.

    Pointers and widths count as multiples of 16, which a launch finds out from their values.
    """
    aligned = [name for name, kind in signature.items() if kind.startswith("*") or name in SIZES]
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs=constants,
        attrs={(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    return triton.compile(
        source, target=GPUTarget("cuda", arch, 32), options={**options, **OPTIONS}
    )


def resources(compiled: CompiledKernel) -> Resources:
    """From the cubin, as cuobjdump reads it: the driver's own count needs a device."""
    program = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        done = subprocess.run(
            [program, "--dump-resource-usage", file.name],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    found = _USAGE.search(done.stdout)
    assert found is not None, done.stdout
    registers, stack, local = map(int, found.groups())
    return Resources(registers, compiled.metadata.shared, stack, local)
