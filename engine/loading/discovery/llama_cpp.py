"""llama.cpp: GGUF files side by side in its cache, where ``-hf`` and ``--model-url`` put them.

Source: fs_get_cache_directory in common/common.cpp. Newer versions use Hugging Face's cache.
"""

from __future__ import annotations

from pathlib import Path

from engine.loading.discovery.listing import ModelStore, models_under
from engine.loading.discovery.system import System


def folders(system: System) -> tuple[Path, ...]:
    """Return the folder in LLAMA_CACHE, else the default."""
    return (system.folder_named_by("LLAMA_CACHE") or system.caches / "llama.cpp",)


LLAMA_CPP = ModelStore("llama.cpp", folders, models_under)
