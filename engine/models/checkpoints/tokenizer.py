"""Read the tokenizer of a checkpoint, a folder or a GGUF file. Runs no code from the folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.checkpoints.chat_template import Render, renderer
from engine.models.checkpoints.gguf.description import describe, is_gguf
from engine.models.checkpoints.gguf.tokenizers.special_tokens import special_tokens
from engine.models.checkpoints.gguf.tokenizers.tokenizer import build_tokenizer, template_of
from engine.models.checkpoints.tokenizer_folder import FILE, read_config, read_folder, special_names
from engine.models.checkpoints.weight_files import read_json


@dataclass(frozen=True, slots=True)
class LoadedTokenizer:
    """A tokenizer that is ready for use.

    backend   a ``tokenizers.Tokenizer`` that neither truncates nor pads
    render    as ``renderer`` returns it; None without a ``template``
    """

    backend: Any
    render: Render | None
    template: str | None


def load_tokenizer(path: Path) -> LoadedTokenizer:
    """Return the tokenizer in ``path``. Raises ModelError."""
    backend, template, names = _of_file(path) if is_gguf(path) else read_folder(path)
    # A tokenizer.json may ask to truncate or pad every text; nothing is truncated silently here.
    backend.no_truncation()
    backend.no_padding()
    render = None if template is None else renderer(template, names)
    return LoadedTokenizer(backend, render, template)


def read_tokenizer(path: Path) -> dict[str, Any]:
    """Return the content of tokenizer.json; a GGUF file is converted to it. Raises ModelError."""
    if is_gguf(path):
        content: dict[str, Any] = json.loads(build_tokenizer(describe(path).metadata).to_str())
        return content
    file = path / FILE
    content = read_json(file)
    if not isinstance(content.get("model"), dict):
        raise ModelError(f"{file} is not a tokenizer: it has no 'model'. Download the file again.")
    return content


def file_of(path: Path) -> Path:
    """Return the file that holds the tokenizer, which may not exist."""
    return path if is_gguf(path) else path / FILE


def version_of(path: Path) -> tuple[int, int] | None:
    """Return the modification time and size of the tokenizer's file, for caches; None if a folder has no
    tokenizer.json."""
    file = file_of(path)
    if not file.is_file():
        return None
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size


def named_ends(path: Path) -> tuple[str | None, str | None]:
    """Return the texts of the tokens that begin and end a text; None for one that the tokenizer lacks."""
    if is_gguf(path):
        special = special_tokens(describe(path).metadata)
        bos, eos = special.bos, special.eos
        return None if bos is None else bos.text, None if eos is None else eos.text
    try:
        names = special_names(read_config(path))
    except (OSError, ValueError):
        names = {}
    return names.get("bos_token"), names.get("eos_token")


def _of_file(file: Path) -> tuple[Any, str | None, Mapping[str, str]]:
    """As ``read_folder``, for a GGUF file."""
    metadata = describe(file).metadata
    try:
        backend = build_tokenizer(metadata)
    except ModelError as error:
        raise ModelError(f"{file} has no usable tokenizer. {error}") from error
    bos, eos = named_ends(file)
    return backend, template_of(metadata), {"bos_token": bos or "", "eos_token": eos or ""}
