"""What tokens spell, against what the tokenizers themselves make of texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafting.cross_vocabulary.token_table import (
    LeadingSpace,
    TokenTable,
    read_token_table,
    split_unfinished,
)
from engine.errors import ModelError
from tests.support.folders import write_model
from tests.support.places import ROOT
from tests.support.vocabularies import write_sentencepiece

PIP = ROOT / "assets" / "pip" / "target"
# SentencePiece's own sign for a space is none it can tell from one.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581<"))
KINDS = ("bytes", "pieces")


def spelled(table: TokenTable, tokens: list[int]) -> bytes:
    return b"".join(table.token_bytes[token] for token in tokens)


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts)
def test_the_tokens_of_a_text_spell_it(tables: dict[str, TokenTable], kind: str, text: str) -> None:
    assert spelled(tables[kind], tables[kind].encode(text)) == text.encode()


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.binary(max_size=12), text=texts)
def test_any_bytes_become_tokens_and_an_unfinished_character_is_kept(
    tables: dict[str, TokenTable], kind: str, data: bytes, text: str
) -> None:
    table = tables[kind]
    for cut in (text.encode() + "😀".encode()[:length] for length in range(4)):
        tokens = table.encode_bytes(cut)
        assert tokens is not None and spelled(table, tokens) == cut
    assert table.encode_bytes(data) is not None


def test_without_byte_tokens_an_unfinished_character_cannot_be_said(
    tables: dict[str, TokenTable],
) -> None:
    assert tables["bare"].encode_bytes("tale é".encode()[:-1]) is None
    assert tables["bare"].encode_bytes(b"tale") is not None


@given(text=texts, rest=st.binary(max_size=3))
def test_what_may_still_become_a_character_is_split_off(text: str, rest: bytes) -> None:
    whole, left = split_unfinished(text.encode() + "漢".encode()[:2])
    assert (whole, left) == (text, "漢".encode()[:2])
    assert split_unfinished(text.encode()) == (text, b"")
    assert len(split_unfinished(rest)[1]) < 4


def test_a_byte_token_stands_for_its_byte_only_where_no_character_does(
    tables: dict[str, TokenTable],
) -> None:
    pieces = tables["pieces"]
    assert pieces.ids[b"a"] == pieces.encode("a")[0] != 3 + ord("a")
    assert pieces.ids[b"\n"] == 3 + ord("\n")
    assert pieces.ids[b"\xf0"] == 3 + 0xF0


def test_roles_opening_and_leading_space_are_read(tables: dict[str, TokenTable]) -> None:
    pieces, byte_level = tables["pieces"], tables["bytes"]
    assert (pieces.opening, pieces.bos, pieces.eos) == ((1,), 1, 2)
    assert pieces.leading_space is LeadingSpace.ALWAYS
    assert (byte_level.opening, byte_level.bos, byte_level.eos) == ((), 0, 1)
    assert byte_level.leading_space is LeadingSpace.NEVER
    assert set(byte_level.control.values()) >= {"<|user|>", "<|assistant|>"}
    assert not set(pieces.control) & set(pieces.token_bytes)


@pytest.mark.parametrize(
    ("settings", "leading"),
    [
        ({"prepend_scheme": "first"}, LeadingSpace.FIRST),
        ({"prepend_scheme": "never"}, LeadingSpace.NEVER),
        ({"add_prefix_space": True}, LeadingSpace.ALWAYS),
    ],
)
def test_an_added_space_is_found_and_left_out_of_encoding(
    tmp_path: Path, settings: dict[str, object], leading: LeadingSpace
) -> None:
    write_sentencepiece(tmp_path)
    file = tmp_path / "tokenizer.json"
    content = json.loads(file.read_text())
    content["normalizer"] = None
    content["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", **settings}
    file.write_text(json.dumps(content))
    table = read_token_table(tmp_path)
    assert table.leading_space is leading
    assert spelled(table, table.encode("a tale")) == b"a tale"


def test_a_folder_without_tokenizer_json_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        read_token_table(tmp_path)


def test_another_kind_of_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"is a BPE, neither byte-level"):
        read_token_table(write_model(tmp_path))


def test_a_tokenizer_that_changes_is_read_again(tmp_path: Path) -> None:
    write_sentencepiece(tmp_path)
    before = read_token_table(tmp_path)
    assert read_token_table(tmp_path) is before
    write_sentencepiece(tmp_path, byte_tokens=False)
    assert len(read_token_table(tmp_path).token_bytes) < len(before.token_bytes)


def test_pips_own_tokenizer_spells_words_in_any_script() -> None:
    table = read_token_table(PIP)
    text = "Señor Muñoz, 漢字 and 😀\n\tdef f(x): return 1"
    assert spelled(table, table.encode(text)) == text.encode()
