"""How a reply ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.events import Emitted, FinishReason
from engine.local.session import Session
from engine.values.sampling import Sampling
from tests.engine.local.session.conftest import after, answered, asked
from tests.support.checkpoints import VOCABULARY
from tests.support.fakes import TableModel


def test_cancelling_ends_the_reply_within_one_round(session: Session) -> None:
    events, finished = answered(session, asked(depth=2), after(4))
    assert finished.reason is FinishReason.CANCELLED
    rounds = [event for event in events if isinstance(event, Emitted)]
    assert len(rounds) <= 3
    assert finished.token_ids == tuple(token.id for e in rounds for token in e.tokens)


def test_a_reply_ends_at_max_tokens_or_where_the_context_ends(
    fake: tuple[Session, TableModel],
) -> None:
    session, model = fake
    for wanted, got in ((1, 1), (7, 7), (None, 70), (1000, 70)):
        _, finished = answered(
            session, asked(proposer="ngram", max_tokens=wanted, sampling=Sampling())
        )
        assert len(finished.token_ids) == got
        assert finished.reason is FinishReason.LENGTH
        assert session.target.state.length <= model.info.context


def test_an_end_of_sequence_token_stops_the_reply_and_shows_as_nothing(
    pair: tuple[Path, Path],
) -> None:
    def ending(tokens: list[int]) -> list[float]:
        return [float(token == (1 if len(tokens) > 33 else 60)) for token in range(VOCABULARY)]

    model = TableModel(ending, VOCABULARY, eos=frozenset({1}))  # type: ignore[arg-type]
    session = Session(model, TextCodec(pair[0]), Resources())
    request = asked(proposer="ngram", sampling=Sampling(), ignore_eos=False)
    _, finished = answered(session, request)
    assert finished.reason is FinishReason.STOP
    assert finished.token_ids == (60, 60, 60, 60, 1)
    assert finished.text == session.codec.decode([60] * 4)
    _, ignored = answered(session, asked(proposer="ngram", sampling=Sampling()))
    assert len(ignored.token_ids) == 20
    assert ignored.reason is FinishReason.LENGTH


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_a_stop_string_cuts_text_and_tokens_the_same_at_every_depth(
    session: Session, depth: int
) -> None:
    plain = asked(proposer="none", sampling=Sampling())
    whole = answered(session, plain)[1]
    stop = whole.text[5:9]
    expected = answered(session, asked(proposer="none", sampling=Sampling(), stop=(stop,)))[1]
    assert expected.text == whole.text[: whole.text.index(stop)]
    assert (expected.stop_string, whole.stop_string) == (stop, None)
    _, stopped = answered(session, asked(depth=depth, sampling=Sampling(), stop=(stop,)))
    assert stopped == expected
