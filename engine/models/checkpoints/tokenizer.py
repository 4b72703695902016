"""The tokenizer of a checkpoint, whether it lies in a folder or in a GGUF file: the one place that knows.

Runs no code from the folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.checkpoints.gguf.description import describe, is_gguf
from engine.models.checkpoints.gguf.tokenizer import build_tokenizer, special_tokens, template_of

FILE = "tokenizer.json"
Turns = list[dict[str, str]]
"""Messages as chat templates take them: role and content."""


@dataclass(frozen=True, slots=True)
class LoadedTokenizer:
    """``backend``: a ``tokenizers.Tokenizer`` that neither cuts nor pads.

    ``render``: a chat as the text the model was trained on, open for the assistant's reply; None where
    there is no template. It raises whatever the template raises.
    """

    backend: Any
    render: Callable[[Turns], str] | None


def load_tokenizer(path: Path) -> LoadedTokenizer:
    """Ready for use. Raises ModelError."""
    found = _of_file(path) if is_gguf(path) else _of_folder(path)
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
        content = json.loads(file.read_text(encoding="utf-8"))
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
        config = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = {}
    return _named(config, "bos_token"), _named(config, "eos_token")


def _named(config: object, role: str) -> str | None:
    """Either notation: a text, or an object with its content."""
    named = config.get(role) if isinstance(config, Mapping) else None
    name = named.get("content") if isinstance(named, Mapping) else named
    return name if isinstance(name, str) else None


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
    named: dict[str, Any] = {"bos_token": bos or "", "eos_token": eos or ""}

    def render(turns: Turns) -> str:
        from transformers.utils.chat_template_utils import render_jinja_template

        made: Any = render_jinja_template(
            [turns], chat_template=template, add_generation_prompt=True, **named
        )
        return str(made[0][0])  # of a list of chats, and where the assistant's part lies in each

    return LoadedTokenizer(backend, render)


def _of_folder(folder: Path) -> LoadedTokenizer:
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
        backend = tokenizer.backend_tokenizer
    except Exception as error:  # transformers raises what its parsers and validators raise
        raise ModelError(_what_is_broken(folder, error)) from error

    def render(turns: Turns) -> str:
        return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))

    return LoadedTokenizer(backend, render if tokenizer.chat_template else None)


def _what_is_broken(folder: Path, error: Exception) -> str:
    """In words. transformers' tokenizer loader checks config.json too, so either may be meant."""
    from transformers import AutoConfig

    reason = " ".join(str(error).split()).rstrip(".")
    try:
        AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as about_config:
        if str(about_config) == str(error):
            return (
                f"{folder / 'config.json'} cannot be used: {reason}. Correct it, or use the "
                "config.json that was published with the weights."
            )
    return (
        f"The tokenizer in {folder} cannot be read: {reason}. The folder needs a "
        "tokenizer.json of the fast kind; download the model again."
    )
