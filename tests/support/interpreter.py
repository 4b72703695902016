"""Triton's interpreter with the conversions and products that a device makes.

With ``TRITON_INTERPRET=1`` before Triton's first import, kernels run in NumPy, which has neither bf16
nor fp8. Triton 3.9 keeps their bits as integers: it cuts numbers to bf16 instead of rounding them,
loses the carry where fp8 rounds up to the next exponent, and multiplies bf16 matrices as integers.
Its product is NumPy's, so a BLAS's: there a row's bits depend on its place and on the processor.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tests.support.interpreted_types import keep_types
from tests.support.places import ROOT

_NAMED = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
}
_BITS = {8: np.uint8, 16: np.int16, 32: np.int32, 64: np.int64}


def run_tests(folders: Sequence[str], marks: str) -> None:
    """Run the tests of ``folders`` with ``marks`` in one interpreting process; they must pass.

    It is one process because importing torch and Triton takes longer than most of the tests.
    """
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", marks, "-p", "no:cacheprovider",
         "--durations=8", "-o", "timeout=900", *folders],
        # Tensors are tiny: threads would only wait for one another.
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(done.stdout[-3000:])
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def repair() -> None:
    """Puts torch's conversions in place of the interpreter's, for this process.

    From here on NumPy is also as silent about infinity and NaN as a device.
    """
    from triton.runtime import interpreter

    def dot(
        builder: Any, a: Any, b: Any, into: Any, input_precision: Any, imprecise_sums: Any
    ) -> Any:
        product = product_in_order(_widened(a), _widened(b), into.data.dtype)
        return interpreter.TensorHandle(product + into.data, into.dtype.scalar)

    _patch_once(interpreter)
    keep_types(interpreter)
    # Devices check no sum for overflow either; it is a quarter of what most kernels take here.
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)
    interpreter._convert_float = _convert
    interpreter.InterpreterBuilder.create_dot = dot
    _check_bounds(interpreter)
    np.seterr(all="ignore")


def _check_bounds(interpreter: Any) -> None:
    """Let a launch fail that reads or writes outside of the tensors it was given.

    The interpreter takes any address: what lies beside a tensor is usually another one.
    """
    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    first: np.ndarray[Any, Any] = np.zeros(0, np.uint64)  # of each tensor, ascending
    last = first

    def bytes_of(tensor: Any) -> tuple[int, int]:
        steps = (
            (size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
        )
        count = 1 + sum(steps) if tensor.numel() else 0
        return tensor.data_ptr(), tensor.data_ptr() + count * tensor.element_size()

    def arguments(self: Any, args: Any, named: Any) -> Any:
        nonlocal first, last
        found = make_arguments(self, args, named)
        tensors = [each for each in (*found[0], *found[1].values()) if hasattr(each, "data_ptr")]
        spans = sorted(bytes_of(each) for each in tensors if each.numel())
        first = np.array([begin for begin, _ in spans], np.uint64)
        # One tensor may be a part of another.
        last = np.maximum.accumulate(np.array([end for _, end in spans], np.uint64))
        return found

    def check(pointers: Any, mask: Any) -> None:
        size = max(pointers.get_element_ty().primitive_bitwidth // 8, 1)
        used = pointers.data[np.broadcast_to(mask.data, pointers.data.shape).astype(bool)]
        if not used.size:
            return
        place = np.searchsorted(first, used, "right") - 1
        inside = (place >= 0) & (used + np.uint64(size) <= last[np.maximum(place, 0)])
        if not inside.all():
            raise IndexError(
                f"{(~inside).sum()} of {used.size} addresses are outside of all tensors"
            )

    def load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        check(pointers, mask)
        return make_load(self, pointers, mask, *rest)

    def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        check(pointers, mask)
        return make_store(self, pointers, value, mask, *rest)

    def atomic(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        check(pointers, mask)
        return make_atomic(self, operation, pointers, value, mask, *rest)

    if getattr(executor._init_args_hst, "checks", False):
        return
    arguments.checks = True  # type: ignore[attr-defined]
    make_arguments, executor._init_args_hst = executor._init_args_hst, arguments
    make_load, builder.create_masked_load = builder.create_masked_load, load
    make_store, builder.create_masked_store = builder.create_masked_store, store
    make_atomic, builder.create_atomic_rmw = builder.create_atomic_rmw, atomic


def product_in_order(a: Any, b: Any, dtype: Any) -> Any:
    """Return ``a (rows, depth)`` times ``b (depth, columns)``, summed over the depth one by one.

    A row has the same bits in any place, beside any rows and on any processor, as on a device. ``dtype``
    is that of the sum: int8 times int8 is no int8.
    """
    # In this layout the sum's axis is the outermost, which NumPy adds slice by slice, in order.
    terms = np.multiply(a.T[:, :, None], b[:, None, :], dtype=dtype, order="C")
    return np.add.reduce(terms, axis=0, dtype=dtype)


def _patch_once(interpreter: Any) -> None:
    """Triton's language stays patched, and a type of NumPy is looked up once.

    Triton patches its language for every launch and every function that a kernel calls, which takes
    longer than most of them.
    """
    patch, unchanged = interpreter._patch_lang, interpreter._LangPatchScope()
    look_up = interpreter._get_np_dtype
    patched: set[frozenset[int]] = set()
    found: dict[str, Any] = {}

    def patched_once(function: Any) -> Any:
        seen = frozenset(map(id, function.__globals__.values())) & languages
        if seen not in patched:
            patched.add(seen)
            patch(function)
        return unchanged

    def np_dtype(kind: Any) -> Any:
        name = kind.scalar.name  # types of blocks and pointers have no hash
        if name not in found:
            found[name] = look_up(kind)
        return found[name]

    languages = frozenset(map(id, (interpreter.tl, interpreter.tl.core)))
    interpreter._patch_lang = patched_once
    interpreter._get_np_dtype = np_dtype


def _convert(data: Any, source: Any, target: Any, rounding: Any) -> Any:
    """``data`` in the bits of ``target``, rounded to nearest even. Arrays of NumPy, types of Triton."""
    bits = np.ascontiguousarray(data).view(_BITS[source.primitive_bitwidth])
    made = torch.from_numpy(bits).view(_NAMED[source.name]).to(_NAMED[target.name])
    size = target.primitive_bitwidth
    # The view's type does not matter: whoever asked views it as what it is.
    whole = torch.uint8 if size == 8 else getattr(torch, f"int{size}")
    return made.view(whole).numpy().view(f"uint{size}").reshape(np.shape(data))


def _widened(handle: Any) -> Any:
    kind = handle.dtype.scalar
    if kind.name not in ("bf16", "fp8e4nv", "fp8e5"):
        return handle.data
    return _convert(handle.data, kind, _Float32, None).view(np.float32)


class _Float32:
    name, primitive_bitwidth = "fp32", 32
