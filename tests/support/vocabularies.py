"""Tokenizers of another kind, and models whose tokens have other ids, for drafting across them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, normalizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

_CONTROL = ("<unk>", "<s>", "</s>")
_TEXT = (
    "The draft reads the text in its own tokens, and the target never knows.",
    "Once upon a time there was a very little lighthouse with a lamp that told tales.",
)
_SPACE = "\u2581"


def write_sentencepiece(folder: Path, *, byte_tokens: bool = True) -> None:
    """A BPE tokenizer in SentencePiece's way, as Llama 2 has one: at most 400 tokens.

    Without ``byte_tokens`` it has no word for a character that is not in its texts.
    """
    alphabet = [*sorted(set("".join(_TEXT)) - {" "}), _SPACE]
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = _marked()
    trainer = BpeTrainer(vocab_size=100, initial_alphabet=alphabet, show_progress=False)
    # Word by word, as SentencePiece joins no two of them.
    tokenizer.train_from_iterator([word for text in _TEXT for word in text.split()], trainer)
    content = json.loads(tokenizer.to_str())
    learned = sorted(content["model"]["vocab"], key=content["model"]["vocab"].__getitem__)
    single = [f"<0x{byte:02X}>" for byte in range(256)] if byte_tokens else []
    tokens = [*_CONTROL, *single, *learned]
    content["model"] |= {
        "vocab": {token: number for number, token in enumerate(tokens)},
        "unk_token": _CONTROL[0],
        "fuse_unk": True,
        "byte_fallback": byte_tokens,
    }
    content["added_tokens"] = [_added(number, name) for number, name in enumerate(_CONTROL)]
    content["post_processor"] = _begins_with(1, _CONTROL[1])
    whole = Tokenizer.from_str(json.dumps(content))
    whole.decoder = decoders.Sequence(
        [
            decoders.Replace(_SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    folder.mkdir(parents=True, exist_ok=True)
    whole.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "TokenizersBackend",
        "bos_token": _CONTROL[1],
        "eos_token": _CONTROL[2],
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def relabel(folder: Path, *, seed: int = 3) -> None:
    """Gives every token of the model in ``folder`` another id; it says what it said before."""
    content = json.loads((folder / "tokenizer.json").read_text())
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    new = list(range(len(embedding)))
    random.Random(seed).shuffle(new)
    moved = torch.empty_like(embedding)
    moved[new] = embedding
    save_file(
        {**weights, "model.embed_tokens.weight": moved},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    model = content["model"]
    model["vocab"] = {token: new[number] for token, number in model["vocab"].items()}
    for added in content["added_tokens"]:
        added["id"] = new[added["id"]]
    content["added_tokens"].sort(key=lambda added: added["id"])
    (folder / "tokenizer.json").write_text(json.dumps(content))
    for name in ("config.json", "generation_config.json"):
        settings = json.loads((folder / name).read_text())
        for role in ("bos_token_id", "eos_token_id"):
            if isinstance(settings.get(role), int):
                settings[role] = new[settings[role]]
        (folder / name).write_text(json.dumps(settings))


def _marked() -> Any:
    return normalizers.Sequence([normalizers.Prepend(_SPACE), normalizers.Replace(" ", _SPACE)])


def _added(number: int, name: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": name, "special": True, **flags}


def _begins_with(number: int, name: str) -> dict[str, Any]:
    first = {"SpecialToken": {"id": name, "type_id": 0}}
    texts = [{"Sequence": {"id": which, "type_id": 0}} for which in "AB"]
    return {
        "type": "TemplateProcessing",
        "single": [first, texts[0]],
        "pair": [first, texts[0], first, texts[1]],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }
