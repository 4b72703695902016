"""What the target would write next: the same that it wrote, by whatever rule, and how sure it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import ContextExceeded, NotLoaded
from engine.local.engine import LocalEngine
from engine.reply import ReplyState
from engine.request import PLAIN, Request, Speculation
from engine.values.sampling import Sampling
from tests.support.loading import request_for


@pytest.fixture(scope="module")
def engine(pair: tuple[Path, Path]) -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as made:
        made.load(request_for(*pair))
        yield made


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.9, seed=5),
        Sampling(temperature=1.3, seed=6, top_k=40, top_p=0.9),
        Sampling(temperature=0.8, seed=7, repetition_penalty=1.3, presence_penalty=0.4),
    ],
    ids=["greedy", "warm", "truncated", "penalised"],
)
def test_every_token_of_a_reply_is_the_first_candidate_in_its_place(
    engine: LocalEngine, sampling: Sampling
) -> None:
    request = Request(
        prompt="Once upon a time",
        sampling=sampling,
        speculation=Speculation(proposer=PLAIN),
        max_tokens=8,
        ignore_eos=True,
    )
    reply = ReplyState.of(engine.generate(request))
    assert reply.token_ids is not None and reply.tokens is not None
    for position, (token, told) in enumerate(zip(reply.token_ids, reply.tokens, strict=True)):
        first, second = engine.top_tokens(request, reply.token_ids[:position], 2)
        assert first.id == token
        assert first.score >= second.score and 0 < second.p <= 1
        assert told.p == pytest.approx(first.p, abs=1e-3)
    again = ReplyState.of(engine.generate(request))
    assert again.token_ids == reply.token_ids


def test_what_cannot_be_asked_is_refused(engine: LocalEngine) -> None:
    assert engine.loaded is not None
    request = Request(prompt="Once")
    with pytest.raises(ContextExceeded):
        engine.top_tokens(request, (5,) * engine.loaded.context, 2)
    with closing(LocalEngine()) as empty, pytest.raises(NotLoaded):
        empty.top_tokens(request, (), 2)
