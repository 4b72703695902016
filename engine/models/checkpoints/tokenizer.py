"""The tokenizer of a checkpoint, whether it lies in a folder or in a GGUF file: the one place that knows.

Runs no code from the folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.files import read_json
from engine.models.checkpoints.chat_template import Render, renderer
from engine.models.checkpoints.gguf.description import describe, is_gguf
from engine.models.checkpoints.gguf.tokenizers.tokenizer import (
    build_tokenizer,
    special_tokens,
    template_of,
)
from engine.models.checkpoints.tokenizer_folder import FILE, read_config, read_folder, special_names


@dataclass(frozen=True, slots=True)
class LoadedTokenizer:
    """``backend``: a ``tokenizers.Tokenizer`` that neither cuts nor pads.

    ``render``: a chat as the text the model was trained on, open for the assistant's reply; None where
    there is no ``template``. It raises whatever the template raises.
    """

    backend: Any
    render: Render | None
    template: str | None = None


def load_tokenizer(path: Path) -> LoadedTokenizer:
    """Ready for use. Raises ModelError."""
    found = _of_file(path) if is_gguf(path) else LoadedTokenizer(*read_folder(path))
    # A tokenizer.json may ask to cut or to pad every text; nothing is cut in silence here.
    found.backend.no_truncation()
    found.backend.no_padding()
    return found


def read_tokenizer(path: Path) -> dict[str, Any]:
    """What the tokenizer's tokenizer.json says, or would say. Raises ModelError."""
    if is_gguf(path):
        content: dict[str, Any] = json.loads(build_tokenizer(describe(path).metadata).to_str())
        return content
    file = path / FILE
    try:
        content = read_json(file)
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read: {error}. Download the file again.") from error
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise ModelError(f"{file} is not a tokenizer: it has no 'model'. Download the file again.")
    return content


def file_of(path: Path) -> Path:
    """The file that holds the tokenizer, whether it is there or not."""
    return path if is_gguf(path) else path / FILE


def version_of(path: Path) -> tuple[int, int] | None:
    """When the tokenizer was written, and its file's bytes, for whoever caches what it made of it; None
    where the folder has no tokenizer.json."""
    file = file_of(path)
    if not file.is_file():
        return None
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size


def named_ends(path: Path) -> tuple[str | None, str | None]:
    """The tokens that begin and end a text, by name; None for one that has no such role."""
    if is_gguf(path):
        special = special_tokens(describe(path).metadata)
        bos, eos = special.bos, special.eos
        return None if bos is None else bos.text, None if eos is None else eos.text
    try:
        named = special_names(read_config(path))
    except (OSError, ValueError):
        named = {}
    return named.get("bos_token"), named.get("eos_token")


def _of_file(file: Path) -> LoadedTokenizer:
    metadata = describe(file).metadata
    template = template_of(metadata)
    try:
        backend = build_tokenizer(metadata)
    except ModelError as error:
        raise ModelError(f"{file} has no tokenizer that can be used. {error}") from error
    if template is None:
        return LoadedTokenizer(backend, None)
    bos, eos = named_ends(file)
    render = renderer(template, {"bos_token": bos or "", "eos_token": eos or ""})
    return LoadedTokenizer(backend, render, template)
