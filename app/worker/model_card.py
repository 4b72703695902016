"""The model card: what a frontend needs to tokenize for a model, as a folder in transformers' layout.

It has the tokenizer, the chat template, the end-of-text tokens and the configuration. It is written from
what the engine loaded, so that both agree and GGUF files have one too.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from engine.errors import DiskError
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.tokenizer import LoadedTokenizer, load_tokenizer, named_ends


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A card's files in ``folder``. ``eos``: ids of the tokens that end a text. ``generation_prompt``:
    ids that every chat's prompt ends with, before the reply."""

    folder: Path
    has_template: bool
    eos: tuple[int, ...]
    generation_prompt: tuple[int, ...] = ()


def write_model_card(model: Path, folder: Path) -> ModelCard:
    """Write the card of a model, a folder or GGUF file, to ``folder``. Raises ModelError or DiskError."""
    checkpoint, tokenizer = inspect(model), load_tokenizer(model)
    bos, eos = named_ends(model)
    named = {"bos_token": bos, "eos_token": eos, "chat_template": tokenizer.template}
    files = {
        "config.json": checkpoint.config,
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
            _replace(folder / name, json.dumps(content, ensure_ascii=False, default=dict))
    except OSError as error:
        raise DiskError.at(folder, error) from error
    has_template = tokenizer.template is not None
    return ModelCard(folder, has_template, checkpoint.eos_ids, _generation_prompt(tokenizer))


def _generation_prompt(tokenizer: LoadedTokenizer) -> tuple[int, ...]:
    """Return the common end of two different chats' prompts; () if the template does not render them."""
    if tokenizer.render is None:
        return ()
    chats = [[{"role": "user", "content": text}] for text in ("1", "a")]
    try:
        texts = [tokenizer.render(chat, None, {}) for chat in chats]
    except Exception:  # a template comes with the model and may raise anything
        return ()
    ends = [tokenizer.backend.encode(text, add_special_tokens=False).ids[::-1] for text in texts]
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(*ends, strict=False))
    return tuple(token for token, _ in alike)[::-1]


def _replace(file: Path, text: str) -> None:
    """Write a file atomically: other workers may write it, and frontends read it, at the same time."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)
