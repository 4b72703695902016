"""Import Gradio without its check of type stubs for editors. Import this before anything of Gradio.

At every import Gradio parses the file of each component's class and its stub to see whether the stub is
up to date: 2.4 s of import instead of 1.3 s (AMD EPYC). The package comes with the stubs. It leaves out
classes without a file (``create_or_modify_pyi`` in ``gradio.component_meta``).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def _without_stubs() -> Iterator[None]:
    """Let Gradio's classes have no file while it is imported first."""
    file_of = inspect.getfile

    def getfile(thing: Any) -> str:
        if isinstance(thing, type) and thing.__module__.startswith("gradio."):
            raise OSError("not looked for")
        return file_of(thing)

    inspect.getfile = getfile  # type: ignore[assignment]  # which calls it "object"
    try:
        yield
    finally:
        inspect.getfile = file_of


with _without_stubs():
    import gradio

__all__ = ["gradio"]
