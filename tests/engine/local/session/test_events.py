"""What a session tells of a reply, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.events import Emitted, Origin, Prefilled, Started
from engine.local.session import Session
from engine.request import Request, Speculation
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.local.session.conftest import COUPLED, PROMPT, answered, asked


def test_events_come_in_order_and_agree_with_each_other(session: Session) -> None:
    events, finished = answered(session, asked())
    assert [type(event) for event in events[:2]] == [Started, Prefilled]
    emitted = [event for event in events if isinstance(event, Emitted)]
    assert len(emitted) == len(events) - 3
    tokens = [token for event in emitted for token in event.tokens or ()]
    assert tuple(token.id for token in tokens) == finished.token_ids
    assert len(tokens) == 20
    assert "".join(event.text for event in emitted) + finished.tail == finished.text
    for event in emitted:
        turn = event.round
        assert turn is not None and event.tokens is not None
        assert len(event.tokens) == turn.emitted
        assert list(event.drafted) == [session.codec.token_text(t) for t in turn.tree.tokens]
        accepted = len(turn.accepted_path)
        for index, token in enumerate(event.tokens):
            assert token.origin is (Origin.DRAFT if index < accepted else turn.origin)
            assert token.p is not None and 0 < token.p <= 1
            assert finished.text[token.start :].startswith(token.text)


def test_a_reply_can_be_made_again_from_the_seed_it_tells(session: Session) -> None:
    events, finished = answered(session, asked(sampling=Sampling(temperature=1.0)))
    started = events[0]
    assert isinstance(started, Started)
    assert started.prompt_tokens == PROMPT
    again = Sampling(temperature=1.0, seed=started.seed)
    assert answered(session, asked(sampling=again))[1].token_ids == finished.token_ids


def test_auto_acceptance_is_told_as_what_it_became(session: Session) -> None:
    for sampling, rule in ((Sampling(), "greedy"), (COUPLED, "coupled")):
        started = answered(session, asked(sampling=sampling))[0][0]
        assert isinstance(started, Started)
        assert started.acceptance == rule


def test_a_chat_in_words_is_answered_in_words(session: Session) -> None:
    request = Request(
        messages=(Message("user", "Tell me of the little key."),),
        max_tokens=12,
        sampling=Sampling(temperature=0.8, seed=2),
        speculation=Speculation(acceptance=AcceptanceRule.REJECTION),
    )
    events, finished = answered(session, request)
    started = events[0]
    assert isinstance(started, Started)
    assert session.codec.decode(started.prompt_tokens) == "Tell me of the little key."
    assert finished.text == session.codec.decode(finished.token_ids)


@pytest.mark.parametrize("sampling", [Sampling(), COUPLED, replace(COUPLED, top_k=2)], ids=str)
def test_the_likeliest_tokens_are_told_where_the_target_spoke(
    session: Session, sampling: Sampling
) -> None:
    events, _ = answered(session, asked(sampling=sampling))
    told = [event for event in events if isinstance(event, Emitted) and event.round is not None]
    assert told
    for event in told:
        turn = event.round
        assert turn is not None and turn.next_p is not None
        tokens, chances = zip(*turn.top_tokens, strict=True)
        assert len(tokens) == (2 if sampling.top_k else 3)
        assert event.top_texts == tuple(map(session.codec.token_text, tokens))
        assert list(chances) == sorted(chances, reverse=True)
        assert sum(chances) <= 1 + 1e-5
        if turn.next_token in tokens:
            assert turn.next_p == pytest.approx(chances[tokens.index(turn.next_token)])
        else:
            assert turn.next_p <= chances[-1]
        if not sampling.temperature:
            assert turn.next_token == tokens[0]
