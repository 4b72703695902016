"""Text to tokens and back: pieces join to the whole, characters stay whole, stop strings are found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.text.codec import Detokenizer, StopStrings, TextCodec
from engine.errors import InvalidRequest, ModelError
from engine.request import Request
from engine.values.messages import Message
from tests.support.checkpoints import VOCABULARY, write_tokenizer

texts = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from(" aé漢😀\n")), min_size=1, max_size=30
)
tokens = st.lists(st.integers(0, VOCABULARY - 1), max_size=25)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(made)
    return made


@pytest.fixture(scope="module")
def codec(folder: Path) -> TextCodec:
    return TextCodec(folder)


@pytest.fixture(scope="module")
def sentencepiece(stories: Path) -> TextCodec:
    """Spaces are part of tokens, the first is dropped in decoding, rare bytes are <0xXX>."""
    return TextCodec(stories)


def pieces(codec: TextCodec, prompt: Sequence[int], output: Sequence[int]) -> list[str]:
    detokenizer = Detokenizer(codec, prompt)
    return [*(detokenizer.push(token) for token in output), detokenizer.flush()]


@settings(max_examples=100, deadline=None)
@given(prompt=texts, output=tokens)
def test_pieces_join_to_the_full_decode_for_any_tokens(
    codec: TextCodec, prompt: str, output: list[int]
) -> None:
    """Also for bytes that make no character, and for special tokens, which show as nothing."""
    before = codec.encode(prompt, special=False)
    whole = codec.decode([*before, *output])
    assert codec.decode(before) + "".join(pieces(codec, before, output)) == whole


@settings(max_examples=100, deadline=None)
@given(prompt=texts, reply=texts)
def test_pieces_join_to_the_full_decode_with_sentencepiece_spaces(
    sentencepiece: TextCodec, prompt: str, reply: str
) -> None:
    before = sentencepiece.encode(prompt, special=True)
    output = sentencepiece.encode(reply, special=False)
    whole = sentencepiece.decode([*before, *output])
    joined = "".join(pieces(sentencepiece, before, output))
    assert sentencepiece.decode(before) + joined == whole


@settings(max_examples=60, deadline=None)
@given(reply=texts)
def test_a_character_is_never_split(codec: TextCodec, reply: str) -> None:
    shown = ""
    output = codec.encode(reply, special=False)
    for piece in pieces(codec, codec.encode("x", special=False), output):
        shown += piece
        assert reply.startswith(shown)
    assert shown == reply


def test_a_character_comes_with_its_last_byte(codec: TextCodec) -> None:
    output = codec.encode("😀", special=False)
    assert len(output) == 4
    assert pieces(codec, [], output) == ["", "", "", "😀", ""]


def test_an_unfinished_character_at_the_end_is_shown_as_a_replacement(codec: TextCodec) -> None:
    output = codec.encode("a😀", special=False)[:-1]
    assert pieces(codec, [], output)[-1] == "\ufffd"


def test_bytes_that_make_no_character_do_not_hold_text_back_for_long(codec: TextCodec) -> None:
    """Once the window of an endless run of them grew without bound."""
    byte = codec.encode("é", special=False)[-1]
    detokenizer = Detokenizer(codec, [])
    shown = [detokenizer.push(byte) for _ in range(200)]
    assert sum(map(len, shown)) >= 195
    assert len(detokenizer._window) <= 10


def test_a_leading_space_survives_a_run_of_special_tokens(sentencepiece: TextCodec) -> None:
    word = sentencepiece.encode("was", special=False)
    assert pieces(sentencepiece, [*word, *[1] * 10], word)[0].startswith(" ")


def test_the_first_piece_keeps_the_space_before_it(sentencepiece: TextCodec) -> None:
    prompt = sentencepiece.encode("Once upon a", special=True)
    output = sentencepiece.encode("time", special=False)
    assert "".join(pieces(sentencepiece, prompt, output)) == " time"


def test_tokens_are_shown_one_by_one_with_space_and_name(
    codec: TextCodec, sentencepiece: TextCodec
) -> None:
    assert codec.token_text(codec.encode(" the", special=False)[0]).startswith(" ")
    assert codec.token_text(1) == "<|end|>"
    assert sentencepiece.token_text(sentencepiece.encode("the", special=False)[0])[0] == " "
    assert codec.token_text(VOCABULARY + 99) == ""


# -- stop strings


def naive_stop(pushed: Sequence[str], stops: Sequence[str]) -> tuple[str, bool]:
    """All text before the first stop string to be complete; the earliest where several are."""
    text = ""
    for part in pushed:
        text += part
        found = [text.index(stop) for stop in stops if stop in text]
        if found:
            return text[: min(found)], True
    return text, False


@settings(max_examples=200, deadline=None)
@given(
    parts=st.lists(st.text("ab", max_size=3), max_size=12),
    stops=st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
)
def test_stop_strings_are_found_across_pieces_and_nothing_else_is_lost(
    parts: list[str], stops: list[str]
) -> None:
    search, shown = StopStrings(stops), ""
    for part in parts:
        shown += search.push(part)
        assert not any(stop in shown for stop in stops)
        if search.found is not None:
            break
    if search.found is None:
        shown += search.flush()
    assert (shown, search.found is not None) == naive_stop(parts, stops)


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    search = StopStrings(["END"])
    assert [search.push(part) for part in ("tale", " E", "N", "joy EN")] == [
        "tale",
        " ",
        "",
        "ENjoy ",
    ]
    assert search.flush() == "EN" and search.found is None
    assert (search.push("EN"), search.push("D and"), search.found) == ("", "", "END")
    assert StopStrings([]).push("END") == "END"


# -- prompts


def test_a_chat_goes_through_the_template_and_its_marks_become_single_tokens(
    codec: TextCodec,
) -> None:
    messages = (Message("user", "Hi"), Message("assistant", "Yo"), Message("user", "So?"))
    text = "<|user|>Hi<|end|><|assistant|>Yo<|end|><|user|>So?<|end|><|assistant|>"
    assert codec.render(Request(messages=messages)) == text
    encoded = codec.encode_request(Request(messages=messages))
    assert encoded == codec.encode(text, special=False)
    assert encoded[-1] == 4


def test_a_model_without_a_template_continues_the_text(sentencepiece: TextCodec) -> None:
    assert not sentencepiece.has_template
    request = Request(messages=(Message("user", "Once"), Message("user", "upon")))
    assert sentencepiece.encode_request(request) == sentencepiece.encode("Once\nupon", special=True)


def test_token_ids_are_taken_as_they_are(codec: TextCodec) -> None:
    assert codec.encode_request(Request(token_ids=(5, 6, 7))) == [5, 6, 7]


def changed(folder: Path, to: Path, name: str, **values: object) -> Path:
    shutil.copytree(folder, to, dirs_exist_ok=True)
    settings = json.loads((to / name).read_text())
    (to / name).write_text(json.dumps({**settings, **values}))
    return to


def test_a_template_that_refuses_the_messages_says_so(folder: Path, tmp_path: Path) -> None:
    template = "{{ raise_exception('No system prompt, please') }}"
    strict = TextCodec(changed(folder, tmp_path, "tokenizer_config.json", chat_template=template))
    with pytest.raises(InvalidRequest, match="rejected these messages: No system prompt") as caught:
        strict.render(Request(messages=(Message("system", "Be brief"),)))
    assert caught.value.field == "messages"


def test_nothing_is_cut_or_padded_because_a_tokenizer_file_asks_for_it(
    folder: Path, tmp_path: Path
) -> None:
    """Files from embedding models come with truncation to 512 tokens; a prompt lost its end."""
    cutting = {
        "truncation": {
            "direction": "Right",
            "max_length": 4,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": {
            "strategy": {"Fixed": 9},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "<|start|>",
        },
    }
    codec = TextCodec(changed(folder, tmp_path, "tokenizer.json", **cutting))
    assert len(codec.encode("a" * 50, special=False)) >= 25
    assert codec.encode("a", special=False) == TextCodec(folder).encode("a", special=False)


def test_a_folder_without_a_tokenizer_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer in .* cannot be read"):
        TextCodec(tmp_path)


def test_threads_share_one_tokenizer(codec: TextCodec) -> None:
    """Requests are tokenised in their callers' threads while the engine's thread decodes."""
    text = "The target verifies what the draft wrote ahead. " * 20
    encoded = codec.encode(text, special=False)
    messages = (Message("user", text),)

    def work(number: int) -> bool:
        if number % 2:
            return "".join(pieces(codec, [], encoded)) == text
        tokens = codec.encode_request(Request(messages=messages))
        return codec.decode(tokens) == text

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(40)))
