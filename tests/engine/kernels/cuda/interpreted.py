"""Runs products in Triton's interpreter, in a process of its own; speaks pickle over its pipes.

Triton decides between compiling and interpreting when it is imported, so one process cannot do both.
Two things that Triton 3.9's interpreter does unlike a GPU are put right here: it cuts float32 to bf16
where hardware rounds, and multiplies the bit patterns of bf16 where it should multiply the numbers.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[4]


class Interpreter:
    """The caller's end: ``run`` makes a product and calls it."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::RuntimeWarning", __file__],  # overflows that are meant
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path},
        )

    def run(self, name: str, made_of: tuple[Any, ...], *calls: tuple[Any, ...]) -> list[Any]:
        """What ``products.name(*made_of)``, or ``products.name``, returns for each of ``calls``."""
        assert self.process.stdin is not None and self.process.stdout is not None
        pickle.dump((name, made_of, calls), self.process.stdin)
        self.process.stdin.flush()
        answer = pickle.load(self.process.stdout)
        if isinstance(answer, str):
            raise AssertionError(answer)
        results: list[Any] = answer
        return results

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def _correct_bf16() -> None:
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    cast, dot = builder.cast_impl, builder.create_dot

    def rounded(self: Any, source: Any, target: Any) -> Any:
        if source.dtype.scalar != tl.float32 or target.scalar != tl.bfloat16:
            return cast(self, source, target)
        narrow = torch.from_numpy(np.array(source.data)).bfloat16()  # an array of no dimensions too
        return interpreter.TensorHandle(narrow.view(torch.uint16).numpy(), tl.bfloat16)

    def widened(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        if a.dtype.scalar == tl.bfloat16:
            a, b = cast(self, a, tl.float32), cast(self, b, tl.float32)
        return dot(self, a, b, *rest)

    builder.cast_impl, builder.create_dot = rounded, widened


def _serve() -> None:
    torch.set_num_threads(1)
    _correct_bf16()
    from engine.kernels.cuda import products

    answers, requests = sys.stdout.buffer, sys.stdin.buffer
    while True:
        try:
            name, made_of, calls = pickle.load(requests)
        except EOFError:
            return
        try:
            made = getattr(products, name)
            product = made(*made_of) if made_of else made
            answer: list[Any] | str = [product(*call) for call in calls]
        except Exception:
            answer = traceback.format_exc()
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    _serve()
