"""Pre-tokenizers, which split text before merges apply, by llama.cpp's names.

A GGUF file does not hold the patterns, only the name of a pre-tokenizer that is built into llama.cpp
(``src/llama-vocab.cpp``). One table serves both directions: a file is read with the patterns of the
published tokenizers that the name stands for, and written with the name of the tokenizer's own patterns.
If there is none, the nearest is named, with a sentence that says how the two differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelError

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""The pattern of a ByteLevel step with ``use_regex``."""
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
PIP = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|[\r\n]+|[^\S\r\n]+(?!\S)|\s+"
_DIGIT = r"\p{N}"
_THREE_DIGITS = r"\p{N}{1,3}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_DEEPSEEK_LETTERS = (
    # Escaped, because editors and tools may normalise some of these characters.
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-"
    "\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
    "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b"
    "\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b"
    "\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943]+"
)
_DEEPSEEK_MARKS = "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreTokenizer:
    """One way to split text.

    names        llama.cpp's; the first is written
    steps        patterns: each splits the pieces of those before; unmatched text is a piece too
    whole_words  a piece that is a token is not merged
    adds_bos     a text begins with the BOS token, unless the file says otherwise
    composes     the published tokenizers normalise text to Unicode's NFC first, which llama.cpp does not
    """

    names: tuple[str, ...]
    steps: tuple[str, ...]
    whole_words: bool = False
    adds_bos: bool = False
    composes: bool = False


PRE_TOKENIZERS = (
    PreTokenizer(
        names=(
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ),
        steps=(LLAMA3,),
        whole_words=True,
        adds_bos=True,
    ),
    PreTokenizer(names=("smaug-bpe", "dbrx", "glm4", "chatglm-bpe"), steps=(LLAMA3,)),
    PreTokenizer(names=("qwen2", "deepseek-r1-qwen"), steps=(QWEN2,), composes=True),
    PreTokenizer(
        names=("stablelm2", "hunyuan", "megrez", "kormo", "f2llmv2", "solar-open", "grok-2"),
        steps=(QWEN2,),
    ),
    PreTokenizer(
        names=("qwen35",),
        steps=(QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"\s\p{L}", r"\s\p{L}\p{M}"),),
        composes=True,
    ),
    PreTokenizer(
        names=("smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"),
        steps=(_DIGIT, GPT2),
    ),
    PreTokenizer(names=("command-r",), steps=(_DIGIT, GPT2), composes=True),
    PreTokenizer(
        names=(
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
            "roberta-bpe",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "jais",
            "trillion",
            "granite-docling",
        ),
        steps=(GPT2,),
    ),
    PreTokenizer(names=("olmo", "mpt", "modern-bert"), steps=(GPT2,), composes=True),
    PreTokenizer(names=("tekken",), steps=(_TEKKEN,), whole_words=True, adds_bos=True),
    PreTokenizer(names=("gpt-4o", "llama4", "kanana2", "minimax-m2"), steps=(_GPT4O,)),
    PreTokenizer(names=("tiny_aya", "cohere2moe"), steps=(r"\d{1,3}(?=(?:\d{3})*\b)", _GPT4O)),
    PreTokenizer(
        names=("deepseek-llm",),
        steps=(r"[\r\n]", _DEEPSEEK_LETTERS, _DEEPSEEK_MARKS, r"\s+$", _CJK, r"\p{N}+"),
    ),
    PreTokenizer(
        names=("deepseek-coder",), steps=(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, _DIGIT)
    ),
    PreTokenizer(
        names=("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"),
        steps=(_THREE_DIGITS, "[一-龥\u3040-ゟ゠-ヿ]+", _DEEPSEEK3),
    ),
    PreTokenizer(
        names=("minicpm5",), steps=(_THREE_DIGITS, LLAMA3.replace("{1,3}", "+")), whole_words=True
    ),
    PreTokenizer(
        names=("seed-coder",),
        steps=(
            QWEN2.replace(r"|\p{N}|", r"|\p{N}{1}|").replace(
                r"[^\s\p{L}\p{N}]+[\r\n]*", r"[^\s\p{L}\p{N}\r\n]+"
            ),
        ),
    ),
    PreTokenizer(names=("falcon",), steps=(r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]")),
    PreTokenizer(names=("viking",), steps=(" ?[^(\\s|.,!?…。，、।۔،)]+", _DIGIT)),
    PreTokenizer(
        names=("poro-chat", "bloom", "gpt3-finnish"), steps=(" ?[^(\\s|.,!?…。，、।۔،)]+",)
    ),
    PreTokenizer(
        names=("default",), steps=(r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")
    ),
)
"""All that a family here may need; other names of llama.cpp belong to models that no family runs."""

_BY_NAME: Mapping[str, PreTokenizer] = {
    name: each for each in PRE_TOKENIZERS for name in each.names
}


def pre_tokenizer_named(name: str) -> PreTokenizer:
    """Return the pre-tokenizer that llama.cpp calls ``name``. Raises ModelError for an unknown name."""
    pre_tokenizer = _BY_NAME.get(name)
    if pre_tokenizer is None:
        raise ModelError(
            f"The file's pre-tokenizer {name!r} (tokenizer.ggml.pre) is not supported. Use "
            "the model's safetensors, or another conversion of it."
        )
    return pre_tokenizer


@dataclass(frozen=True, slots=True)
class Splitting:
    """The name for ``tokenizer.ggml.pre``, and a ``note`` if it is not exactly the tokenizer's own."""

    name: str
    note: str | None = None


_ANSWERS = " Prompts given as token ids are not affected."
_NEAR: Mapping[tuple[str, ...], Splitting] = {
    # qwen2 makes longer pieces, but no merge of Pip's crosses Pip's own splits, so the tokens are the
    # same. Only qwen2's case-insensitive contractions differ: they split an apostrophe before capitals.
    (PIP,): Splitting(
        "qwen2",
        "llama.cpp has no rule that splits text exactly like this tokenizer, so the "
        "nearest one, qwen2, is used. Only an apostrophe before S, T, D, M, LL, VE or "
        "RE in capitals may give other tokens." + _ANSWERS,
    )
}


def splitting(tokenizer: Mapping[str, Any]) -> Splitting:
    """Return the name for a byte-level BPE tokenizer (the content of its tokenizer.json)."""
    steps = tuple(_steps(tokenizer.get("pre_tokenizer") or {}))
    whole = bool(tokenizer["model"].get("ignore_merges"))
    same = [each for each in PRE_TOKENIZERS if each.steps == steps]
    exact = [each for each in same if each.whole_words == whole]
    for each in (*exact, *same) if whole else exact:
        return Splitting(each.names[0])
    return _NEAR.get(steps) or Splitting(
        "default",
        "llama.cpp has no known rule that splits text like this tokenizer, so its "
        "default is used: some text may become other tokens there." + _ANSWERS,
    )


def _steps(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pattern of each step that splits; for an unknown step its type in brackets."""
    match part:
        case {"type": "Sequence", "pretokenizers": list(inner)}:
            for one in inner:
                yield from _steps(one)
        case {"type": "Split", "pattern": {"Regex": str(pattern)}, "behavior": "Isolated"}:
            # Some files have the characters.
            yield pattern.replace("\r", r"\r").replace("\n", r"\n")
        case {"type": "Digits", "individual_digits": True}:
            yield _DIGIT
        case {"type": "ByteLevel", "add_prefix_space": False}:
            if part.get("use_regex", True):
                yield GPT2
        case _:
            yield f"<{part.get('type')}>"
