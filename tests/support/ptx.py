"""What a Triton kernel takes on a device, found out without one: compiled, and its binary read.

Triton learns registers and spills from a driver; NVIDIA's cuobjdump, which comes with Triton, reads
them from the binary. Kernels compile only in a process without ``TRITON_INTERPRET``.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch

CAPABILITIES = (80, 86, 89, 90, 120)
"""Ampere (A100, RTX 30), Ada (RTX 40), Hopper (H100, H200), Blackwell (RTX 50)."""
MULTIPROCESSORS = {80: 108, 86: 82, 89: 128, 90: 132, 120: 170}
"""Of an A100, RTX 3090, RTX 4090, H100 or H200, and RTX 5090."""
SHARED_LIMITS = {80: 163, 86: 99, 89: 99, 90: 227, 120: 99}
"""KiB of shared memory that one block may take (CUDA C++ Programming Guide, table of capabilities)."""

REGISTERS = 65536
"""Of one multiprocessor, on all of them."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One compiled kernel's needs."""

    name: str
    capability: int
    registers: int
    """Per thread."""
    shared: int
    """Bytes per block."""
    spilled: int
    """Bytes of stack and local memory per thread: what does not fit in registers goes there."""
    threads: int
    apart: tuple[str, ...] = ()
    """Layouts in which inline assembler gets elements that are no neighbours in memory: its order of
    bytes would be wrong."""
    arithmetic: tuple[str, ...] = ()
    """Operations on floating-point numbers in their order, with types and layouts."""

    @property
    def fits(self) -> bool:
        """In registers, in shared memory, and of a size that a multiprocessor can hold."""
        shared = self.shared <= SHARED_LIMITS[self.capability] * 1024
        held = not self.spilled and self.registers * self.threads <= REGISTERS
        return shared and held and not self.apart

    def __str__(self) -> str:
        return (
            f"{self.name} sm_{self.capability}: {self.registers} registers x {self.threads} "
            f"threads, {self.shared} bytes shared, {self.spilled} bytes spilled{self.apart or ''}"
        )


def usage(
    kernel: Any,
    arguments: Mapping[str, str],
    constants: Mapping[str, object],
    capability: int,
    aligned: Collection[str] = (),
    **options: object,
) -> Usage:
    """Compiles ``kernel`` for ``capability`` (90 for sm_90).

    ``arguments``: Triton's types of what is not a constant, as "*bf16" or "i32". Pointers are taken
    to be multiples of 16, as torch's are, and so are the numbers named in ``aligned``. ``options``:
    num_warps, num_stages, maxnreg, enable_fp_fusion. Layers are alike, so a result is kept.
    """
    types, given = sorted(arguments.items()), sorted(constants.items())
    settings = types, given, capability, sorted(aligned), sorted(options.items())
    key = kernel.cache_key + repr(settings)
    if key not in _KEPT:
        _KEPT[key] = _compiled(kernel, arguments, constants, capability, aligned, options)
    return _KEPT[key]


_KEPT: dict[str, Usage] = {}


def _compiled(
    kernel: Any,
    arguments: Mapping[str, str],
    constants: Mapping[str, object],
    capability: int,
    aligned: Collection[str],
    options: Mapping[str, object],
) -> Usage:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {name: arguments.get(name, "constexpr") for name in kernel.arg_names}
    divisible = {
        (place,): [["tt.divisibility", 16]]
        for place, (name, kind) in enumerate(signature.items())
        if kind.startswith("*") or name in aligned
    }
    source = ASTSource(kernel, signature, dict(constants), divisible)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(options))
    registers, spilled = _resources(made.asm["cubin"])
    return Usage(
        name=made.metadata.name,
        capability=capability,
        registers=registers,
        shared=made.metadata.shared,
        spilled=spilled,
        threads=32 * made.metadata.num_warps,
        apart=_apart(made.asm["ttgir"]),
        arithmetic=_arithmetic(made.asm["ttgir"]),
    )


@contextmanager
def compiling(capability: int, *kernels: tuple[ModuleType, str]) -> Iterator[list[Usage]]:
    """Launches of ``kernels`` (module, name) compile and do nothing else; yields what they took."""
    found: list[Usage] = []
    with ExitStack() as stack:
        for module, name in kernels:
            stand_in = CompileOnly(getattr(module, name), capability, found)
            stack.enter_context(patch.object(module, name, stand_in))
        yield found


Variant = tuple[str, frozenset[tuple[str, str]], frozenset[str], str, tuple[int, ...]]
"""A kernel's name, its arguments' types, those that 16 divides, its constants and options, and all of its
grid but the programs of rows: what a launch runs."""
_ROWS_AXIS = {"take_in_rows": 2}
"""The axis of these, if it is not the first."""


@contextmanager
def launching(*kernels: tuple[ModuleType, str]) -> Iterator[list[Variant]]:
    """Launches of ``kernels`` (module, name) do nothing; yields what each would have run."""
    found: list[Variant] = []
    with ExitStack() as stack:
        for module, name in kernels:
            stack.enter_context(patch.object(module, name, _Noting(getattr(module, name), found)))
        yield found


class _Noting:
    """Stands in for a kernel and notes its launches."""

    def __init__(self, kernel: Any, found: list[Variant]) -> None:
        self._kernel, self._found = kernel, found

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **named: object) -> None:
            types, constants, aligned, options = _specialised(self._kernel, arguments, named)
            fixed = repr((sorted(constants.items()), sorted(options.items())))
            name = self._kernel.__name__
            of_rows = _ROWS_AXIS.get(name, 0)
            others = tuple(count for axis, count in enumerate(grid) if axis != of_rows)
            self._found.append((name, frozenset(types.items()), frozenset(aligned), fixed, others))

        return launch


class CompileOnly:
    """Stands in for a kernel: a launch compiles what would be launched and appends its ``Usage``.

    Put in a kernel's place, it takes the types and constants of the real launch; so what is
    examined is what a device would run. Tensors may lie anywhere, as ``meta`` too.
    """

    def __init__(self, kernel: Any, capability: int, found: list[Usage]) -> None:
        self._kernel, self._capability, self._found = kernel, capability, found

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return self._launch

    def _launch(self, *arguments: Any, **named: object) -> None:
        types, constants, aligned, options = _specialised(self._kernel, arguments, named)
        used = usage(self._kernel, types, constants, self._capability, aligned, **options)
        self._found.append(used)


def _specialised(
    kernel: Any, arguments: tuple[Any, ...], named: dict[str, object]
) -> tuple[dict[str, str], dict[str, object], set[str], dict[str, object]]:
    """The types, constants, arguments that 16 divides, and options of a launch."""
    names = kernel.arg_names
    values = dict(zip(names, arguments, strict=False))
    fixed = {parameter.name for parameter in kernel.params if parameter.do_not_specialize}
    # Triton compiles None and the number 1 in, and takes into account what 16 divides.
    within = {name for name, value in values.items() if value is None}
    within |= {name for name, value in values.items() if _counts(value) and value == 1} - fixed
    types = {name: _type(value) for name, value in values.items() if name not in within}
    aligned = {name for name in types if _counts(values[name]) and values[name] % 16 == 0}
    constants = {name: value for name, value in named.items() if name in names}
    constants |= {name: values[name] for name in within}
    options = {name: value for name, value in named.items() if name not in names}
    return types, constants, aligned - fixed, options


_TYPES = {
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "i1",
}


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _type(value: object) -> str:
    """Triton's name of an argument's type."""
    if isinstance(value, torch.Tensor):
        return f"*{_TYPES[value.dtype]}"
    return "fp32" if isinstance(value, float) else "i32"


_FLOATS = re.compile(
    r'"?(arith\.\w+f|math\.\w+|tt\.dot|ttng\.\w*dot\w*|tt\.fp_to_fp|tt\.reduce)"?[ (](.*?)(?: loc\(|$)',
    re.MULTILINE,
)


def _arithmetic(ttgir: str) -> tuple[str, ...]:
    """Return ``Usage.arithmetic``: comparisons, products, sums and conversions."""
    layouts = dict(re.findall(r"^(#\w+) = (.*)$", ttgir, re.MULTILINE))
    found = []
    for name, rest in _FLOATS.findall(ttgir):
        types = rest.split(" : ", 1)[-1] if " : " in rest else ""
        for layout, meaning in layouts.items():
            types = re.sub(rf"{layout}\b", lambda _, meaning=meaning: meaning, types)
        found.append(f"{name} {types}")
    return tuple(found)


_PACKED = re.compile(r"elementwise_inline_asm .*packed_element = (\d+).*?: tensor<\w+, (#\w+)>")


def _apart(ttgir: str) -> tuple[str, ...]:
    """Return ``Usage.apart``: a thread's first elements must follow each other in the last dimension."""
    layouts = dict(re.findall(r"^(#\w+) = (.*)$", ttgir, re.MULTILINE))
    found = {(int(count), layouts[name]) for count, name in _PACKED.findall(ttgir)}
    return tuple(layout for count, layout in found if not _follow(layout, count))


def _follow(layout: str, count: int) -> bool:
    blocked = re.search(r"sizePerThread = \[(?:1, )?(\d+)\].*order = \[(?:1, )?0\]", layout)
    if blocked:
        return int(blocked[1]) >= count
    first = ", ".join(f"[0, {1 << bit}]" for bit in range(count.bit_length() - 1))
    return f"register = [{first}" in layout


def _resources(binary: bytes) -> tuple[int, int]:
    """Registers and spilled bytes of the one kernel in ``binary``."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        done = subprocess.run(
            [_cuobjdump(), "-res-usage", file.name], capture_output=True, text=True, check=True
        )
    found = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", done.stdout))
    return int(found["REG"]), int(found["STACK"]) + int(found["LOCAL"])


@cache
def _cuobjdump() -> Path:
    import triton

    return Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
