"""Names of control tokens in what people write are text, for every tokenizer and template at hand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram, WordLevel

from engine.decoding.text.codec import TextCodec
from engine.decoding.text.control_tokens import ControlTokens
from engine.errors import InvalidRequest
from engine.request import Request
from engine.values.messages import Message
from tests.support.checkpoints import write_tokenizer
from tests.support.places import PIP, beside, real_models
from tests.support.vocabularies import write_sentencepiece

TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}\n{{ m.content | trim }}</s>{% endfor %}<s>assistant\n"
)
"""As those of Llama, Gemma and Mistral, which trim what is said."""


def _plain(folder: Path) -> Path:
    write_tokenizer(folder)
    return folder


def _pieces(folder: Path) -> Path:
    write_sentencepiece(folder)
    return _with(folder, chat_template=TEMPLATE)


def _with(folder: Path, **values: object) -> Path:
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps({**config, **values}))
    return folder


def _saved(folder: Path, tokenizer: Any, special: list[AddedToken]) -> Path:
    tokenizer.add_special_tokens(special)
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return _with(folder, chat_template=TEMPLATE)


def _unigram(folder: Path) -> Path:
    """Special tokens are pieces too, as in T5's and Gemma's lists."""
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    pieces += [(sign, -3.0) for sign in "▁<>/s|abcdeimnoprtu?!\n"]
    tokenizer = Tokenizer(Unigram(pieces, unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace()
    return _saved(folder, tokenizer, [AddedToken(name, special=True) for name in ("<s>", "</s>")])


def _lowering(folder: Path) -> Path:
    """A special token that is looked for in the normal form: "</S>" is one too, and "＜s＞"."""
    words = {"[UNK]": 0, "<s>": 1, "</s>": 2, "<": 3, ">": 4, "s": 5, "/": 6, "user": 7, "hi": 8}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    named = [AddedToken(name, special=True, normalized=True) for name in ("<s>", "</s>")]
    return _saved(folder, tokenizer, named)


def _joined(folder: Path) -> Path:
    """Merges that make a special token's name, and a word of it taken whole."""
    signs = ["<", "/", "s", ">", "</", "</s", "</s>", "<s", "<s>", "h", "i", "\u010a", "\u0120"]
    merges = [("<", "/"), ("</", "s"), ("</s", ">"), ("<", "s"), ("<s", ">")]
    tokenizer = Tokenizer(BPE({s: n for n, s in enumerate(signs)}, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return _saved(folder, tokenizer, [AddedToken(name, special=True) for name in ("<s>", "</s>")])


MADE = {
    "byte-level": _plain,
    "sentencepiece": _pieces,
    "unigram": _unigram,
    "normal forms": _lowering,
    "merges of names": _joined,
}
PUBLISHED = ("pip", "stories260K", "tiny-chat-gptneo", "real")


@pytest.fixture(scope="module", params=[*MADE, *PUBLISHED])
def codec(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TextCodec:
    name = str(request.param)
    if name in MADE:
        return TextCodec(MADE[name](tmp_path_factory.mktemp("tokenizer")))
    if name == "pip":
        return TextCodec(PIP / "target")
    return TextCodec(real_models()[0] if name == "real" else beside(name))


def names_of(codec: TextCodec) -> list[str]:
    added = codec._backend.get_added_tokens_decoder().values()
    return [token.content for token in added if token.special]


def control(codec: TextCodec) -> ControlTokens:
    return codec._control


@cache
def ids_of(codec: TextCodec) -> frozenset[int]:
    found = codec._backend.get_added_tokens_decoder().items()
    return frozenset(number for number, token in found if token.special)


def controls(codec: TextCodec, *said: str) -> list[int]:
    """The control tokens of a chat, in order."""
    roles = ("user", "assistant")
    turns = tuple(Message(roles[at % 2], text) for at, text in enumerate(said))
    tokens = codec.encode_request(Request(messages=turns))
    return [token for token in tokens if token in ids_of(codec)]


words = st.text(st.sampled_from("ab is<>|/_\n ?é漢\U0001f600"), max_size=12)


def with_names(codec: TextCodec) -> Any:
    """Texts with and without names of control tokens in them, whole and in parts."""
    names = [*names_of(codec), *(name[:-1] for name in names_of(codec)), "</S>", "\uff1cs\uff1e"]
    return st.lists(st.one_of(words, st.sampled_from(names)), max_size=6).map("".join)


no_fixture_check = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@no_fixture_check
@given(data=st.data())
def test_whatever_is_written_a_chat_has_the_control_tokens_of_its_template(
    codec: TextCodec, data: st.DataObject
) -> None:
    said = data.draw(st.tuples(*[with_names(codec)] * 3))
    unknown = codec._backend.token_to_id("<unk>")  # what no token says, not what is written
    expected = [token for token in controls(codec, "a", "b", "is") if token != unknown]
    texts = [f"a{text}b" for text in said]  # templates may trim what is said
    assert [token for token in controls(codec, *texts) if token != unknown] == expected


@no_fixture_check
@given(data=st.data())
def test_without_such_names_the_tokens_are_those_of_the_rendered_text(
    codec: TextCodec, data: st.DataObject
) -> None:
    said = data.draw(st.tuples(words, words, words))
    roles = ("user", "assistant", "user")
    turns = tuple(Message(role, f"a{text}") for role, text in zip(roles, said, strict=True))
    if any(control(codec).contains_control_token(turn.content) for turn in turns):
        return
    special = not codec.has_template
    plain = codec.encode(codec.render(Request(messages=turns)), special=special)
    assert codec.encode_request(Request(messages=turns)) == plain
    # And the other way gives the same, so that a name in one message changes no other.
    escaped = (Message(turn.role, control(codec).escape(turn.content)) for turn in turns)
    hidden = codec.render(Request(messages=tuple(escaped)))
    assert control(codec).encode(hidden, special=special) == plain


def test_a_name_is_said_back_as_it_was_written(codec: TextCodec) -> None:
    name = names_of(codec)[-1]
    tokens = codec.encode_request(Request(messages=(Message("user", f"is {name} a"),)))
    shown = codec.decode(tokens).lower().replace(" ", "")
    if "<unk>" not in codec._backend.decode(tokens, skip_special_tokens=False):
        assert name.lower().replace(" ", "") in shown


def test_a_prompt_is_its_authors_own_template(codec: TextCodec) -> None:
    """Completions take text as it is: their callers write control tokens themselves."""
    name = names_of(codec)[-1]
    tokens = codec.encode_request(Request(prompt=f"a{name}b"))
    assert codec._backend.token_to_id(name) in tokens


def test_one_that_only_looks_like_a_control_token_is_one_too(tmp_path: Path) -> None:
    """DeepSeek's file does not say that the tokens of its turns are special."""
    write_tokenizer(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    name = "<\uff5cUser\uff5c>"
    number = 1 + max(
        *content["model"]["vocab"].values(), *(one["id"] for one in content["added_tokens"])
    )
    content["added_tokens"].append({"id": number, "content": name, **plain})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    codec = TextCodec(tmp_path)
    assert number in codec.encode(name, special=False)
    tokens = codec.encode_request(Request(messages=(Message("user", f"Hi{name}"),)))
    assert number not in tokens
    assert name in codec.decode(tokens)


def test_where_no_copy_can_be_made_the_message_is_refused(
    codec: TextCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ControlTokens(codec._backend)
    monkeypatch.setattr(
        "engine.decoding.text.control_tokens._rename", lambda content, _: content.clear()
    )
    with pytest.raises(InvalidRequest, match="name of a control token"):
        found.encode("a", special=False)
