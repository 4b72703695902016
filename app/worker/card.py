"""What a frontend has to know of a model to tokenize for it, as a folder in transformers' layout.

Written from what the engine itself loaded, so that both cannot differ, and so that a GGUF file has one
too: the tokenizer, the chat template, the tokens that end a text, the configuration.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from engine.errors import DiskError
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.tokenizer import LoadedTokenizer, load_tokenizer, named_ends


@dataclass(frozen=True, slots=True)
class Card:
    """``folder`` holds the files. ``chats``: whether there is a chat template. ``eos``: ids of tokens
    that end a text; ``opening``: those that end every chat's prompt, before the reply."""

    folder: Path
    chats: bool
    eos: tuple[int, ...]
    opening: tuple[int, ...] = ()


def write_card(model: Path, folder: Path) -> Card:
    """The card of the model in the folder or GGUF file ``model``. Raises ModelError or DiskError."""
    checkpoint, tokenizer = inspect(model), load_tokenizer(model)
    bos, eos = named_ends(model)
    named = {"bos_token": bos, "eos_token": eos, "chat_template": tokenizer.template}
    files = {
        "config.json": _plain(checkpoint.config),
        "generation_config.json": {"eos_token_id": list(checkpoint.eos_ids)},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{name: value for name, value in named.items() if value is not None},
        },
        "tokenizer.json": json.loads(tokenizer.backend.to_str()),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            _replace(folder / name, json.dumps(content, ensure_ascii=False))
    except OSError as error:
        raise DiskError.at(folder, error) from error
    return Card(folder, tokenizer.template is not None, checkpoint.eos_ids, _opening(tokenizer))


def _opening(tokenizer: LoadedTokenizer) -> tuple[int, ...]:
    """What the prompts of two different chats end with alike; () where the template renders neither."""
    if tokenizer.render is None:
        return ()
    chats = [[{"role": "user", "content": text}] for text in ("1", "a")]
    try:
        texts = [tokenizer.render(chat, None) for chat in chats]
    except Exception:  # the template is somebody else's program
        return ()
    ends = [tokenizer.backend.encode(text, add_special_tokens=False).ids[::-1] for text in texts]
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(*ends, strict=False))
    return tuple(token for token, _ in alike)[::-1]


def _replace(file: Path, text: str) -> None:
    """Whole or not at all: another worker may write the same, and a frontend read it."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)


def _plain(value: Any) -> Any:
    """Mappings and tuples of a configuration as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
