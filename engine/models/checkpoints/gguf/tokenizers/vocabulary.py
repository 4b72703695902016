"""A byte-level BPE tokenizer as a GGUF file lists it. Reads JSON files; runs no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.gguf.tokenizers.pre_tokenizer import Splitting, splitting
from engine.models.checkpoints.gguf.tokenizers.special_tokens import TokenType
from engine.models.checkpoints.tokenizer import read_tokenizer
from engine.models.checkpoints.tokenizer_files import merge_texts
from engine.models.checkpoints.tokenizer_folder import (
    FILE,
    broken,
    chat_template,
    read_config,
    special_names,
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """One token for each row of the embedding; ids are None for a token that the model lacks."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...]
    splitting: Splitting
    chat_template: str | None
    bos: int | None
    eos: int | None
    pad: int | None
    adds_bos: bool
    adds_eos: bool


def read_vocabulary(checkpoint: Checkpoint) -> Vocabulary:
    """Return the vocabulary of a folder. Raises ModelError for a tokenizer of another kind."""
    folder = checkpoint.path
    if not (folder / FILE).is_file():
        raise ModelError(
            f"{folder} has no {FILE}, which the export needs. Download the model again."
        )
    content = read_tokenizer(folder)
    _check_kind(folder, content)
    try:
        config = read_config(folder)
    except (OSError, ValueError) as error:
        raise ModelError(broken(folder, error)) from error
    special = special_names(config)
    added = {int(token["id"]): token for token in content.get("added_tokens") or []}
    names = {int(number): str(token) for token, number in content["model"]["vocab"].items()}
    names |= {number: str(token["content"]) for number, token in added.items()}
    ids: dict[str | None, int] = {token: number for number, token in names.items()}

    def special_id(key: str) -> int | None:
        """Return the id by the tokenizer's own configuration, else by config.json."""
        stated = checkpoint.config.get(f"{key}_token_id")
        number = ids.get(special.get(f"{key}_token"), stated)
        return number if isinstance(number, int) else None

    adds_bos, adds_eos = _added_around(content)
    rows = range(checkpoint.vocabulary)
    eos = special_id("eos")
    return Vocabulary(
        tokens=tuple(names.get(row, f"[PAD{row}]") for row in rows),
        types=tuple(_type(row in names, added.get(row)) for row in rows),
        merges=tuple(merge_texts(content["model"])),
        splitting=splitting(content),
        chat_template=chat_template(folder, config),
        bos=special_id("bos"),
        eos=eos if eos is not None else next(iter(checkpoint.eos_ids), None),
        pad=special_id("pad"),
        adds_bos=adds_bos,
        adds_eos=adds_eos,
    )


def _check_kind(folder: Path, content: Mapping[str, Any]) -> None:
    kind = content["model"].get("type")
    decoder = json.dumps(content.get("decoder"))
    if kind != "BPE" or "ByteLevel" not in decoder:
        raise ModelError(
            f"The tokenizer in {folder} is {kind or 'of an unknown kind'}; only byte-level "
            "BPE can be exported. llama.cpp's convert_hf_to_gguf.py supports other kinds."
        )


def _type(has_name: bool, added: Mapping[str, Any] | None) -> TokenType:
    if not has_name:
        return TokenType.UNUSED
    if added is None:
        return TokenType.NORMAL
    return TokenType.CONTROL if added.get("special") else TokenType.USER_DEFINED


def _added_around(content: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether the tokenizer puts a special token before a text, and after it."""
    processor = content.get("post_processor") or {}
    for part in processor.get("processors") or [processor]:
        if part.get("type") == "TemplateProcessing":
            return "SpecialToken" in part["single"][0], "SpecialToken" in part["single"][-1]
    return False, False
