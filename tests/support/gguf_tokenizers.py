"""What llama.cpp's converter makes of a tokenizer.json: the metadata of a GGUF file."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.models.checkpoints.gguf.tokenizers.special_tokens import TokenType

_SPACE = "\u2581"
_NO_SCORE = -1e9
_SCRIPTS = (
    (0, 0x20), (0x20, 0x7F), (0x80, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700),
    (0x900, 0xE80), (0x1100, 0x1200), (0x1E00, 0x2100), (0x2100, 0x2700), (0x3000, 0x3100),
    (0x4E00, 0xA000), (0xAC00, 0xD7A4), (0xE000, 0xE100), (0xF900, 0xFB00), (0xFE00, 0xFFFF),
    (0x1D400, 0x1D800), (0x1F300, 0x1FB00), (0x20000, 0x2A6E0), (0xE0000, 0xE0080),
)  # fmt: skip
_WORDS = (
    "don't", "DON'T", "'Ve", "\u017f", "'\u017f", "a \u00a0b", "\u3000", "1234567", "3.14159",
    "\u00bd\u00b2", "e\u0301", "\u00e9", "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea", "\ufeff", "\u200b", "\u2581", "<b>", "</s>", "<s>", "<unk>", "<0x0A>",
    "<|im_end|>", "<|endoftext|>", "<tool_call>",
)  # fmt: skip


def metadata_of(content: Mapping[str, Any], rows: int = 0, **settings: Any) -> dict[str, Any]:
    """``settings`` go under ``tokenizer.ggml``; at least ``rows`` tokens, the last of them invented."""
    model, added = content["model"], {one["content"]: one for one in content["added_tokens"]}
    ids = {**model["vocab"], **{text: one["id"] for text, one in added.items()}}
    count = max(rows, 1 + max(ids.values()))
    pieces = model.get("byte_fallback", False)
    texts = [f"[PAD{number}]" for number in range(count)]
    types, scores = [TokenType.UNUSED] * count, [-10_000.0] * count
    for text, number in ids.items():
        texts[number] = text
        types[number], scores[number] = TokenType.NORMAL, -float(number)
        if pieces and not text.strip(_SPACE):
            scores[number] = _NO_SCORE
        if pieces and text.startswith("<0x") and len(text) == 6:
            types[number], scores[number] = TokenType.BYTE, 0.0
        if text in added:
            special = added[text]["special"]
            types[number] = TokenType.CONTROL if special else TokenType.USER_DEFINED
            texts[number] = text if special or not pieces else text.replace(_SPACE, " ")
        if text == model["unk_token"]:
            types[number] = TokenType.UNKNOWN
    merges = [one if isinstance(one, str) else " ".join(one) for one in model["merges"]]
    values: dict[str, Any] = {"model": "llama" if pieces else "gpt2", "tokens": texts}
    values |= {"token_type": np.array(types, np.int32)}
    values |= {"scores": np.array(scores, np.float32)} if pieces else {"merges": merges}
    return {f"tokenizer.ggml.{name}": value for name, value in (values | settings).items()}


def hard_text(characters: int) -> list[str]:
    """Letters of all scripts, marks, controls, runs of one character, special tokens; in pieces."""
    rng = random.Random(15)
    alphabet = [chr(code) for first, end in _SCRIPTS for code in range(first, end)]
    pieces, size = [], 0
    while size < characters:
        first, end = rng.choice(_SCRIPTS)
        piece = "".join(
            (
                "".join(chr(rng.randrange(first, end)) for _ in range(rng.randrange(200))),
                "".join(rng.choice(alphabet) for _ in range(rng.randrange(100))),
                chr(rng.randrange(0x20, 0x7F)) * rng.randrange(80),
                rng.choice(" \n\t=-x") * rng.randrange(60),
                rng.choice(("", " ", "\n", "\r\n")).join(rng.choices(_WORDS, k=20)),
            )
        )
        pieces.append(piece)
        size += len(piece)
    return pieces
