"""The tokenizer that is trained, and chats in its tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from tools.pip.corpora.example import Message, chat
from tools.pip.tokenizer import Encoder, render, save_tokenizer


@pytest.mark.parametrize(
    "text",
    ["a  b\n\n c\t", "12345 + 6,7", "Grüße, 世界 🦊\u200d", '{\n  "a": [1, 2]\n}\n', "\r\n x ", ""],
)
def test_any_text_round_trips(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_digits_stand_alone(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("it is 2026").tokens
    assert tokens[-4:] == ["2", "0", "2", "6"]


def test_transformers_reads_the_folder_and_encodes_chats_alike(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    save_tokenizer(tokenizer, tmp_path, context=64)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    messages = chat("  Hi there\n", "It's 12.", "\n\n  {\n 1}", "", system="Be kind. ")
    as_dicts = [{"role": said.role, "content": said.content} for said in messages]
    ours = Encoder(tokenizer)
    ids = theirs.apply_chat_template(as_dicts, return_dict=True)["input_ids"]
    assert ids == ours.chats([messages])[0].tokens
    opened = theirs.apply_chat_template(as_dicts[:-1], add_generation_prompt=True, return_dict=True)
    assert opened["input_ids"] == ours.prompt(messages[:-1])
    assert theirs.eos_token_id == ours.end
    assert theirs.bos_token_id == ours.bos
    assert theirs.decode(theirs.encode("a ,b !", add_special_tokens=False)) == "a ,b !"


def test_a_chat_up_to_a_reply_is_a_prefix_of_the_longer_chat(tokenizer: Tokenizer) -> None:
    """Prefix reuse between turns rests on this."""
    encoder = Encoder(tokenizer)
    messages = chat("1\n\n", "{\n", "  x", "\ty", "Hi", "...\n")
    whole = encoder.chats([messages])[0].tokens
    for turn in (1, 3, 5):
        prompt = encoder.prompt(messages[:turn])
        assert whole[: len(prompt)] == prompt


def test_only_replies_are_learned_in_a_chat(tokenizer: Tokenizer) -> None:
    encoder = Encoder(tokenizer)
    document = encoder.chats([chat("Hi", "It is 1.", "Say", "ok", system="Be")])[0]
    learned = [token for token, yes in zip(document.tokens, document.learned, strict=True) if yes]
    assert tokenizer.decode(learned, skip_special_tokens=False) == "It is 1.<|end|>ok<|end|>"


def test_the_fast_rendering_is_the_template() -> None:
    assert render((Message("user", " a "),), reply_next=True) == (
        "<|bos|><|user|>\na<|end|>\n<|assistant|>\n"
    )
