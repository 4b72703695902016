"""How a model that is made for embeddings joins the states of a text's tokens to one vector.

Folders say so as sentence-transformers does (``modules.json``), GGUF files as llama.cpp does
(``pooling_type``). Models that are made for text alone say nothing.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.files import read_json
from engine.models.checkpoints.gguf.description import describe, is_gguf

MODULES = "modules.json"
CONFIG = "1_Pooling/config.json"


class Pooling(StrEnum):
    """Which of a text's states count: the last token's, or the mean of all."""

    MEAN = "mean"
    LAST = "last"


_IN_GGUF = {1: Pooling.MEAN, 3: Pooling.LAST}
"""llama.cpp's numbers. Its others, of the first token and of rerankers, need a model of another kind."""
_IN_FOLDER = {"pooling_mode_mean_tokens": Pooling.MEAN, "pooling_mode_lasttoken": Pooling.LAST}


def pooling_of(path: Path) -> Pooling | None:
    """Return the pooling of the model in ``path``, a folder or a GGUF file; None if it states none, or
    one that is not known here."""
    if is_gguf(path):
        metadata = describe(path).metadata
        number = metadata.get(f"{metadata.get('general.architecture')}.pooling_type")
        return _IN_GGUF.get(number) if isinstance(number, int) else None
    return _of_folder(path)


def _of_folder(folder: Path) -> Pooling | None:
    file = folder / CONFIG
    if not (folder / MODULES).is_file() or not file.is_file():
        return None
    try:
        config: Any = read_json(file)
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read: {error}. Download the model again.") from error
    if not isinstance(config, dict):
        return None
    modes = [name for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
    return _IN_FOLDER.get(modes[0]) if len(modes) == 1 else None
