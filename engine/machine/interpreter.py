"""What Python itself spends on the hundred thousand objects of large libraries."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Around imports that bring torch, or come before: garbage is collected afterwards, and not among
    what was made.

    All of it stays, so looking through it finds nothing: it was a fifth of importing torch, and later a
    part of every full collection. Does nothing once torch is there: by then, others' objects are too.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
