"""Import Gradio without its check of type stubs for editors.

At every import Gradio parses the file of each component's class and its stub to see whether the stub is
up to date: 2.4 s of import instead of 1.3 s (AMD EPYC). The package comes with the stubs.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

MODULE, MAKES_STUBS = "gradio.component_meta", "create_or_modify_pyi"


@contextlib.contextmanager
def without_stubs() -> Iterator[None]:
    """Skip the check while Gradio is imported first. Without effect for versions that check elsewhere."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != MODULE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if hasattr(module, MAKES_STUBS):
            setattr(module, MAKES_STUBS, lambda *_: None)
