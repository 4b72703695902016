"""How a tokenizer cuts text before it merges, by the names that llama.cpp has for it.

A GGUF file does not hold the rule, only the name of one that is built into llama.cpp. Where none is
the tokenizer's own, the nearest is named, with a sentence that says where the two differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

GPT2 = "<gpt2>"
"""What the step ByteLevel does where it has ``use_regex``: GPT-2's own rule."""
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
PIP = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|[\r\n]+|[^\S\r\n]+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class Splitting:
    """The name for ``tokenizer.ggml.pre``; ``note`` where it is not the tokenizer's own rule."""

    name: str
    note: str | None = None


_SAME: Mapping[tuple[str, ...], str] = {
    (LLAMA3,): "llama-bpe",
    (QWEN2,): "qwen2",
    (r"\p{N}", GPT2): "smollm",
    (GPT2,): "gpt-2",
}
_ANSWERS = " Prompts given as token ids are not concerned."
_NEAR: Mapping[tuple[str, ...], Splitting] = {
    # qwen2 cuts longer pieces, but no merge of Pip's reaches across Pip's own cuts: the tokens are
    # the same. Not so where qwen2, blind to case, cuts off an apostrophe with the next capital.
    (PIP,): Splitting(
        "qwen2",
        "llama.cpp has no rule that cuts text exactly as this tokenizer does, so its nearest, qwen2, "
        "is named. Only an apostrophe before S, T, D, M, LL, VE or RE in capitals may give other "
        "tokens." + _ANSWERS,
    )
}
_WHOLE_WORDS_FIRST = ("llama-bpe",)
"""With these names llama.cpp takes a piece that is a token as it is, before it tries merges."""


def splitting(tokenizer: Mapping[str, Any]) -> Splitting:
    """The rule of a byte-level BPE tokenizer (the content of its tokenizer.json)."""
    steps = tuple(_steps(tokenizer.get("pre_tokenizer") or {}))
    whole = bool(tokenizer["model"].get("ignore_merges"))
    name = _SAME.get(steps)
    if name is not None and (whole or name not in _WHOLE_WORDS_FIRST):
        return Splitting(name)
    return _NEAR.get(steps) or Splitting(
        "default",
        "llama.cpp has no rule that is known to cut text as this tokenizer does, so its default is "
        "named: text may become other tokens there." + _ANSWERS,
    )


def _steps(part: Mapping[str, Any]) -> Iterator[str]:
    """One text for each step that cuts; the kind alone, in brackets, for one that is not known."""
    match part:
        case {"type": "Sequence", "pretokenizers": list(inner)}:
            for one in inner:
                yield from _steps(one)
        case {"type": "Split", "pattern": {"Regex": str(pattern)}, "behavior": "Isolated"}:
            yield pattern
        case {"type": "Digits", "individual_digits": True}:
            yield r"\p{N}"
        case {"type": "ByteLevel", "add_prefix_space": False}:
            if part.get("use_regex", True):
                yield GPT2
        case _:
            yield f"<{part.get('type')}>"
