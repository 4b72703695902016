"""A reply that stopped is written on as if it had not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import ContextExceeded
from engine.events import Emitted, Finished, FinishReason
from engine.local.session import Session
from engine.values.sampling import Sampling
from tests.engine.local.session.conftest import COUPLED, PROMPT, answered, asked

PENALISED = Sampling(temperature=0.8, seed=5, presence_penalty=1.0, repetition_penalty=1.3)


@pytest.mark.parametrize("sampling", [Sampling(), COUPLED, PENALISED])
@pytest.mark.parametrize("proposer", ["none", "draft", "ngram"])
@pytest.mark.parametrize("cut", [1, 7, 19])
def test_the_words_are_those_of_a_reply_that_never_stopped(
    session: Session, sampling: Sampling, proposer: str, cut: int
) -> None:
    depth = 0 if proposer == "none" else 4
    request = replace(
        asked(sampling=sampling, max_tokens=20),
        speculation=replace(asked().speculation, proposer=proposer, depth=depth or None),
    )
    _, whole = answered(session, request)
    _, first = answered(session, replace(request, max_tokens=cut))
    rest = replace(request, reply_prefix=first.token_ids, max_tokens=20 - cut)
    events, finished = answered(session, rest)
    assert finished == whole
    new = [token for e in events if isinstance(e, Emitted) for token in e.tokens or ()]
    assert tuple(token.id for token in new) == whole.token_ids[cut:]
    assert new[0].start == len(first.text.removesuffix(first.tail))


def test_a_stop_string_is_found_across_the_cut(session: Session) -> None:
    request = asked(sampling=COUPLED)
    _, whole = answered(session, request)
    stop = whole.text[len(whole.text) // 2 - 3 : len(whole.text) // 2 + 3]
    _, stopped = answered(session, replace(request, stop=(stop,)))
    cut = len(stopped.token_ids) - 1
    again = replace(request, stop=(stop,), reply_prefix=whole.token_ids[:cut])
    _, finished = answered(session, again)
    assert (finished.text, finished.reason) == (stopped.text, FinishReason.STOP)


def test_what_stands_counts_for_the_context_and_not_for_max_tokens(session: Session) -> None:
    room = session.target.context - len(PROMPT)
    reply_prefix = tuple(40 + at % 50 for at in range(room - 3))
    _, finished = answered(session, replace(asked(max_tokens=None), reply_prefix=reply_prefix))
    assert isinstance(finished, Finished) and len(finished.token_ids or ()) == room
    with pytest.raises(ContextExceeded):
        session.encode(replace(asked(), reply_prefix=(*reply_prefix, 40, 40, 40)))
