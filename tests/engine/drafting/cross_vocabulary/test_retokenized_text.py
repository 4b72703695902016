"""A text in the draft's tokens: whole, however it arrives, and at a cost that does not grow."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafting.cross_vocabulary.retokenized_text import RetokenizedText, target_tokens
from engine.drafting.cross_vocabulary.token_table import TokenTable, VocabularyMap
from tests.engine.drafting.cross_vocabulary.conftest import mapped

PAIRS = [("bytes", "pieces"), ("pieces", "bytes"), ("bytes", "bytes"), ("pieces", "pieces")]
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581<"))
words = st.lists(st.sampled_from(["the ", "tale", " ", "\n", "é", "漢", "😀", " lamp"])).map(
    "".join
)
# Any tokens: most make no text that anybody would write, and some no text at all.
anything = st.lists(st.integers(0, 358), max_size=80)


def read(vocabularies: VocabularyMap, *parts: list[int]) -> list[int]:
    retokenized = RetokenizedText(vocabularies)
    for part in parts:
        settled = list(retokenized.settled)
        retokenized.extend(part)
        assert retokenized.settled[: len(settled)] == settled  # it only grows
    return [*retokenized.settled, *(retokenized.unsettled() or ())]


def text_of(table: TokenTable, tokens: list[int]) -> bytes:
    """The text of ``tokens``, without a space that the tokenizer added."""
    data = b"".join(table.token_bytes.get(token, b"") for token in tokens)
    return data.removeprefix(b" ") if table.leading_space != "never" else data


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@given(text=texts | words)
def test_the_draft_reads_what_the_target_wrote(
    tables: dict[str, TokenTable], ours: str, theirs: str, text: str
) -> None:
    target, draft = tables[ours], tables[theirs]
    tokens = target.encode(("" if target.leading_space == "never" else " ") + text)
    retokenized = read(mapped(target, draft), tokens)
    assert tuple(retokenized[: len(draft.opening)]) == draft.opening
    assert text_of(draft, retokenized) == text.encode()


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@given(tokens=anything, chance=st.randoms())
def test_the_draft_reads_the_same_however_the_text_arrives(
    tables: dict[str, TokenTable],
    ours: str,
    theirs: str,
    tokens: list[int],
    chance: random.Random,
) -> None:
    """Long texts, so that runs end in all ways: a draft must not depend on what was rejected."""
    vocabularies = mapped(tables[ours], tables[theirs])
    tokens = tokens * 8
    cuts = sorted(chance.randrange(len(tokens) + 1) for _ in range(5))
    parts = [tokens[a:b] for a, b in itertools.pairwise([0, *cuts, len(tokens)])]
    assert read(vocabularies, *parts) == read(vocabularies, tokens)
    assert read(vocabularies, *([token] for token in tokens)) == read(vocabularies, tokens)


def test_a_text_in_runs_has_the_tokens_it_has_as_a_whole(tables: dict[str, TokenTable]) -> None:
    """Where words are separated by spaces, which no token has in its midst."""
    chance = random.Random(2)
    text = " ".join(chance.choice(["the", "lamp", "told", "tales.", "It"]) for _ in range(400))
    draft = tables["pieces"]
    retokenized = read(mapped(tables["bytes"], draft), tables["bytes"].encode(text))
    assert retokenized == [*draft.opening, *draft.encode(" " + text)]


@pytest.mark.parametrize("text", ["the lamp told tales. ", "tale", "漢😀é", " ", "\n\n"])
def test_the_work_for_a_token_does_not_grow_with_the_text(
    tables: dict[str, TokenTable], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spaces or none, a token costs at most a run."""
    encoded: list[int] = []
    encode_bytes = TokenTable.encode_bytes

    def counted(self: TokenTable, data: bytes | bytearray) -> list[int] | None:
        encoded.append(len(data))
        return encode_bytes(self, data)

    monkeypatch.setattr(TokenTable, "encode_bytes", counted)
    retokenized = RetokenizedText(mapped(tables["bytes"], tables["pieces"]))
    for token in tables["bytes"].encode(text * 300):
        encoded.clear()
        retokenized.extend([token])
        retokenized.unsettled()
        assert sum(encoded) <= 2 * 260


def test_control_tokens_are_matched_by_role_or_by_name_and_else_spelled(
    tables: dict[str, TokenTable],
) -> None:
    target, draft = tables["bytes"], tables["pieces"]
    number = {name: token for token, name in target.control.items()}
    chat = [number["<|start|>"], number["<|user|>"], *target.encode("tale"), number["<|end|>"]]
    retokenized = read(mapped(target, draft), chat)
    assert retokenized[0] == draft.bos and retokenized.count(1) == 1  # its own opening, once
    assert retokenized[-1] == draft.eos
    assert text_of(draft, retokenized) == b"<|user|>tale"
    same = read(mapped(target, target), chat)
    assert same == chat[1:]


def test_a_space_that_the_target_added_is_not_read(tables: dict[str, TokenTable]) -> None:
    """At the beginning, and behind a control token."""
    target, draft = tables["pieces"], tables["bytes"]
    tokens = [1, *target.encode(" the lamp"), 2, *target.encode(" tales")]
    assert text_of(draft, read(mapped(target, draft), tokens)) == b"the lamptales"


def test_an_unfinished_character_waits_where_the_draft_has_no_bytes(
    tables: dict[str, TokenTable],
) -> None:
    retokenized = RetokenizedText(mapped(tables["bytes"], tables["bare"]))
    *first, last = tables["bytes"].encode("tale é")
    retokenized.extend(first)
    assert retokenized.unsettled() is None
    retokenized.extend([last])
    assert retokenized.unsettled() is not None


# -- the draft's words in the target's tokens


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@given(before=texts | words, text=texts | words)
def test_what_the_draft_wrote_is_proposed_and_its_last_token_held_back(
    tables: dict[str, TokenTable], ours: str, theirs: str, before: str, text: str
) -> None:
    target, draft = tables[ours], tables[theirs]
    vocabularies = mapped(target, draft)
    written = draft.encode(text)
    whole = target_tokens(vocabularies, written, ended=True)
    assert b"".join(target.token_bytes[token] for token in whole) == text.encode()
    assert target_tokens(vocabularies, written, ended=False) == whole[:-1]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_character_across_the_border_is_finished_by_bytes(
    tables: dict[str, TokenTable], ours: str, theirs: str
) -> None:
    target, draft = tables[ours], tables[theirs]
    for character, begun in itertools.product(("é", "漢", "😀"), (1, 2, 3)):
        data = character.encode()[begun:]
        written = [draft.ids[bytes([byte])] for byte in data] + draft.encode(" tale")
        retokenized = target_tokens(mapped(target, draft), written, ended=True)
        expected = [target.ids[bytes([byte])] for byte in data] + target.encode(" tale")
        assert retokenized == expected


def test_a_character_that_the_draft_left_unfinished_is_not_proposed(
    tables: dict[str, TokenTable],
) -> None:
    target, draft = tables["bytes"], tables["pieces"]
    written = [*draft.encode(" tale"), draft.ids[b"\xf0"], draft.ids[b"\x9f"]]
    tokens = target.encode(" tale")
    assert target_tokens(mapped(target, draft), written, ended=False) == tokens[:-1]
    broken = [*written, *draft.encode("a tale")]  # the character never comes
    assert target_tokens(mapped(target, draft), broken, ended=False) == tokens[:-1]


def test_without_bytes_in_the_target_a_begun_character_is_not_gone_on_with(
    tables: dict[str, TokenTable],
) -> None:
    target, draft = tables["bare"], tables["bytes"]
    written = [draft.ids[b"\xa9"], *draft.encode(" tale")]
    assert target_tokens(mapped(target, draft), written, ended=True) == []
