"""A byte-level BPE tokenizer as a GGUF file lists it. Reads JSON files; runs no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.files import read_json
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.gguf.tokenizers.pre_tokenizer import Splitting, splitting
from engine.models.checkpoints.gguf.tokenizers.token_types import TokenType


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """One token for each row of the embedding; ids are None where the model has no such token."""

    tokens: tuple[str, ...]
    kinds: tuple[int, ...]
    merges: tuple[str, ...]
    splitting: Splitting
    chat_template: str | None
    bos: int | None
    eos: int | None
    pad: int | None
    adds_bos: bool
    adds_eos: bool


def read_vocabulary(checkpoint: Checkpoint) -> Vocabulary:
    """Raises ModelError for a tokenizer of another kind."""
    content = _json(checkpoint.path / "tokenizer.json")
    _check_kind(checkpoint.path, content)
    settings = _json(checkpoint.path / "tokenizer_config.json", otherwise={})
    added = {int(token["id"]): token for token in content.get("added_tokens") or []}
    names = {int(number): str(token) for token, number in content["model"]["vocab"].items()}
    names |= {number: str(token["content"]) for number, token in added.items()}
    ids = {token: number for number, token in names.items()}

    def special(key: str) -> int | None:
        """By the tokenizer's own settings, else by config.json's."""
        token = settings.get(f"{key}_token")
        text = token.get("content") if isinstance(token, Mapping) else token
        number = ids.get(str(text), checkpoint.config.get(f"{key}_token_id"))
        return number if isinstance(number, int) else None

    adds_bos, adds_eos = _put_around(content)
    rows = range(checkpoint.vocabulary)
    eos = special("eos")
    return Vocabulary(
        tokens=tuple(names.get(row, f"[PAD{row}]") for row in rows),
        kinds=tuple(_kind(row, row in names, added.get(row)) for row in rows),
        merges=tuple(_merge(pair) for pair in content["model"].get("merges") or []),
        splitting=splitting(content),
        chat_template=_template(checkpoint.path, settings),
        bos=special("bos"),
        eos=eos if eos is not None else next(iter(checkpoint.eos_ids), None),
        pad=special("pad"),
        adds_bos=adds_bos,
        adds_eos=adds_eos,
    )


def _check_kind(folder: Path, content: Mapping[str, Any]) -> None:
    model = content.get("model")
    kind = model.get("type") if isinstance(model, Mapping) else None
    decoder = json.dumps(content.get("decoder"))
    if kind != "BPE" or "ByteLevel" not in decoder:
        raise ModelError(
            f"The tokenizer in {folder} is {kind or 'of an unknown kind'}, without bytes as its "
            "alphabet; only byte-level BPE is exported. llama.cpp's own convert_hf_to_gguf.py knows "
            "the other kinds."
        )


def _kind(row: int, known: bool, added: Mapping[str, Any] | None) -> int:
    if not known:
        return TokenType.UNUSED
    if added is None:
        return TokenType.NORMAL
    return TokenType.CONTROL if added.get("special") else TokenType.USER_DEFINED


def _merge(pair: str | list[str]) -> str:
    """Both notations of tokenizer.json: 'a b' and ['a', 'b']."""
    return pair if isinstance(pair, str) else " ".join(pair)


def _put_around(content: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the tokenizer puts a special token before a text, and after it."""
    processor = content.get("post_processor") or {}
    for part in processor.get("processors") or [processor]:
        if part.get("type") == "TemplateProcessing":
            return "SpecialToken" in part["single"][0], "SpecialToken" in part["single"][-1]
    return False, False


def _template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = settings.get("chat_template")
    if isinstance(found, list):  # several by name
        found = {one.get("name"): one.get("template") for one in found}.get("default")
    return found if isinstance(found, str) else None


def _json(file: Path, otherwise: Any = None) -> Any:
    if not file.is_file() and otherwise is not None:
        return otherwise
    try:
        return read_json(file)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{file} cannot be read: {error}. Only tokenizers of the fast kind (tokenizer.json) are "
            "exported; download the model again."
        ) from error
