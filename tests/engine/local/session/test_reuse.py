"""What a turn reuses of those before it."""

from __future__ import annotations

import functools
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import FinishReason
from engine.local.session import PreparedRequest, Session
from engine.models.sequence_state import KVCache
from engine.request import Request, Speculation
from engine.values.messages import Message
from engine.values.prompt import OpaquePart, Prompt, TokenPart
from tests.engine.local.session.conftest import (
    PROMPT,
    after,
    answered,
    asked,
    fresh_reply,
    never,
    prefilled,
)
from tests.support.checkpoints import open_session, write_random, write_tokenizer
from tests.support.fakes import TableModel
from tests.support.families import write_family
from tests.support.heads import IN_FOLDERS


@pytest.mark.parametrize("proposer", IN_FOLDERS)
def test_a_follow_up_prefills_only_what_is_new(
    session: Session, pair: tuple[Path, Path], pair_heads: tuple[Path, ...], proposer: str
) -> None:
    """Prompt and reply are in the cache, but for the reply's last token."""
    _, first = answered(session, asked(proposer=proposer))
    follow_up = asked((*PROMPT, *first.token_ids, 7, 8, 9), proposer=proposer)
    events, second = answered(session, follow_up)
    assert prefilled(events).reused == len(PROMPT) + len(first.token_ids) - 1
    assert prefilled(events).tokens == len(PROMPT) + len(first.token_ids) + 3
    assert second.token_ids == fresh_reply(pair, follow_up, pair_heads)


def test_a_prompt_is_not_reused_where_a_value_of_its_template_is_merely_equal(
    tmp_path: Path,
) -> None:
    write_random(tmp_path)
    write_tokenizer(tmp_path, template="{{ x }}")
    session = open_session(tmp_path)
    for value in (1, True, 1.0):
        request = Request(messages=(Message("user", "Hi"),), template_values=(("x", value),))
        assert session.codec.decode(session.prompt(request).tokens) == str(value)


@pytest.mark.parametrize("native", [True, False], ids=["compiled", "in torch"])
def test_an_edit_goes_back_to_a_saved_state_of_a_recurrent_model(
    tmp_path: Path, native: bool
) -> None:
    """It reads again at most about twice what was changed, and says what a fresh start says."""
    write_family(tmp_path, "qwen3.5")
    session, fresh = (open_session(tmp_path, native=native) for _ in range(2))
    text = tuple(4 + token % 300 for token in range(400))
    answered(session, asked(text, proposer="ngram"))
    for changed in (20, 60, 150):
        text = (*text[:-changed], *(7 + (3 * token) % 290 for token in range(changed)))
        events, last = answered(session, asked(text, proposer="ngram"))
        assert len(text) - prefilled(events).reused <= 2 * changed + 32
        assert last.token_ids == answered(fresh, asked(text, proposer="none"))[1].token_ids
    events, _ = answered(session, asked((*text, *text[:30]), proposer="none"))
    assert prefilled(events).reused == len(text) - 1


def test_the_model_is_fed_every_token_of_a_chat_once(fake: tuple[Session, TableModel]) -> None:
    session, model = fake
    chat = PROMPT
    for _ in range(3):
        _, finished = answered(session, asked(chat, proposer="none", max_tokens=5))
        chat = (*chat, *finished.token_ids, 200)
    assert model.fed == len(chat) - 2  # the last reply's last token and what comes behind it


def test_an_edited_turn_keeps_what_comes_before_it(
    session: Session, pair: tuple[Path, Path]
) -> None:
    answered(session, asked())
    edited = asked((*PROMPT[:12], 99, *PROMPT[13:]))
    events, finished = answered(session, edited)
    assert prefilled(events).reused == 12
    assert finished.token_ids == fresh_reply(pair, edited)


def test_the_same_prompt_again_computes_only_its_last_token(session: Session) -> None:
    _, first = answered(session, asked())
    events, second = answered(session, asked())
    assert prefilled(events).reused == len(PROMPT) - 1
    assert second.token_ids == first.token_ids


def test_reuse_can_be_declined(session: Session) -> None:
    _, first = answered(session, asked())
    events, second = answered(session, asked(reuse_cache=False))
    assert prefilled(events).reused == 0
    assert second.token_ids == first.token_ids


@pytest.mark.parametrize("looks", range(2, 6))
def test_after_a_cancelled_reply_the_chat_goes_on_as_if_fresh(
    session: Session, pair: tuple[Path, Path], looks: int
) -> None:
    _, cut = answered(session, asked(), after(looks))
    assert cut.reason is FinishReason.CANCELLED
    follow_up = asked((*PROMPT, *cut.token_ids, 7, 8))
    events, finished = answered(session, follow_up)
    assert prefilled(events).reused >= len(PROMPT) + len(cut.token_ids) - 1
    assert finished.token_ids == fresh_reply(pair, follow_up)
    assert isinstance(session.target.state, KVCache)
    session.target.state.check()


def test_after_a_stopped_reply_the_chat_goes_on_as_if_fresh(
    session: Session, pair: tuple[Path, Path]
) -> None:
    """The round that held the stop string may have verified tokens behind it."""
    whole = answered(session, asked(depth=8))[1]
    stop = session.codec.decode(whole.token_ids[:9])[-3:]
    _, stopped = answered(session, asked(depth=8, stop=(stop,)))
    assert stopped.reason is FinishReason.STOP
    assert whole.token_ids[: len(stopped.token_ids)] == stopped.token_ids
    follow_up = asked((*PROMPT, *stopped.token_ids, 7, 8))
    assert answered(session, follow_up)[1].token_ids == fresh_reply(pair, follow_up)


def test_a_chat_may_switch_proposers_every_turn(session: Session, pair: tuple[Path, Path]) -> None:
    chat = PROMPT
    for turn, proposer in enumerate(("draft", "ngram", "none", "draft", "ngram", "draft")):
        request = asked(chat, proposer=proposer, depth=3 + turn, max_tokens=9)
        _, finished = answered(session, request)
        plain = asked(chat, proposer="none", max_tokens=9)
        assert finished.token_ids == fresh_reply(pair, plain), turn
        chat = (*chat, *finished.token_ids, 50 + turn)


def test_a_proposer_is_kept_until_its_options_change(session: Session) -> None:
    """A slider moved through its range once left an index of the chat behind for every stop."""
    kept = []
    for options in ({}, {"prompt_lookup_max": 5}, {"prompt_lookup_max": 4}):  # 5 is the default
        request = Request(
            token_ids=PROMPT,
            max_tokens=2,
            speculation=Speculation(proposer="ngram", options=options),
        )
        answered(session, request)
        assert len(session._slots.first._proposers) == 1
        kept.append(session._slots.first._proposers["ngram"][1])
    assert kept[0] is kept[1] is not kept[2]


def test_a_round_that_fails_inside_does_not_spoil_the_next_reply(
    session: Session, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(session.target, "commit", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            list(session.run(asked(), never))
    assert answered(session, asked())[1].token_ids == fresh_reply(pair, asked())


@pytest.mark.parametrize("proposer", ("none", "draft", "eagle3", "block", "suffix", "best"))
@pytest.mark.parametrize(("start", "length"), ((0, 30), (12, 1), (12, 9), (29, 1)))
def test_equal_placeholders_share_a_state_only_if_their_contents_are_equal(
    session: Session, pair: tuple[Path, Path], proposer: str, start: int, length: int
) -> None:
    """Otherwise a second image would find the first one's keys and values."""

    def prompt(image: bytes) -> Prompt:
        opaque = OpaquePart(PROMPT[start : start + length], sha256(image).digest())
        return Prompt((TokenPart(PROMPT[:start]), opaque, TokenPart(PROMPT[start + length :])))

    request = asked(proposer=proposer)
    answers = []
    for image, reused in ((b"cat", 0), (b"cat", len(PROMPT) - 1), (b"dog", start), (b"cat", start)):
        events = list(session.run(request, never, PreparedRequest(prompt(image), None, None)))
        assert prefilled(events).reused == min(reused, len(PROMPT) - 1), image
        answers.append(events[-1].token_ids)  # type: ignore[union-attr]
        if proposer in ("draft", "best"):
            slot = session._slots.first.proposer(request.speculation)
            draft = getattr(slot, "members", {}).get("draft", slot)
            assert draft.reader.tokens[: len(PROMPT) - 1] == list(prompt(image).keys[:-1])
    # The random model reads placeholders as tokens, so its words are the same.
    assert set(answers) == {plain_reply(pair)}


@functools.cache
def plain_reply(pair: tuple[Path, Path]) -> tuple[int, ...]:
    """What every proposer must say, computed once."""
    return fresh_reply(pair, asked(proposer="none"))


@given(
    st.lists(
        st.one_of(
            st.builds(TokenPart, st.lists(st.integers(0, 2), max_size=3).map(tuple)),
            st.builds(
                OpaquePart,
                st.lists(st.just(0), max_size=3).map(tuple),
                st.sampled_from((b"\0", b"\0\0", b"a")),
            ),
        ),
        max_size=4,
    )
)
def test_equal_keys_mean_equal_contents(parts: list[TokenPart | OpaquePart]) -> None:
    """A token has one key, its id; every place of every content has its own, which is no id."""
    prompt = Prompt(tuple(parts))
    contents = [
        token if isinstance(part, TokenPart) else (part.content_hash, place)
        for part in parts
        for place, token in enumerate(part.tokens)
    ]
    assert len(contents) == len(prompt.keys) == len(prompt.tokens)
    for content, key in zip(contents, prompt.keys, strict=True):
        assert (key == content) if isinstance(content, int) else key < 0
        assert [key == other for other in prompt.keys] == [content == c for c in contents]
