"""What a prompt and a request may not be."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ContextExceeded, InvalidRequest
from engine.local.session import Session
from engine.request import Request, Speculation
from tests.engine.local.session.conftest import answered, asked
from tests.support.checkpoints import VOCABULARY, open_session


@pytest.mark.parametrize("over", [1, 2, 50])
def test_a_prompt_longer_than_the_context_is_refused_with_the_excess(
    session: Session, over: int
) -> None:
    context = session.target.context
    with pytest.raises(ContextExceeded, match=rf"Shorten it by {over} token") as caught:
        session.encode(asked((9,) * (context - 1 + over)))
    assert caught.value.over == over
    assert caught.value.field == "messages"
    assert str(context) in str(caught.value)


def test_a_prompt_that_leaves_room_for_one_token_gets_one(session: Session) -> None:
    request = asked((9,) * (session.target.context - 1), max_tokens=None)
    assert len(answered(session, request)[1].token_ids) == 1


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (asked((5, VOCABULARY)), "prompt"),
        (asked((5, -1)), "prompt"),
        (Request(token_ids=()), "messages"),
        (Request(prompt=""), "messages"),
        (asked(proposer="oracle"), "proposer"),
        (Request(prompt="a", speculation=Speculation(options={"x": 1})), "options"),
    ],
)
def test_what_cannot_be_run_is_refused_before_it_starts(
    session: Session, request_: Request, field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        session.encode(request_)
    assert caught.value.field == field


def test_without_a_draft_the_draft_proposer_is_refused(pair: tuple[Path, Path]) -> None:
    with pytest.raises(InvalidRequest, match="needs a draft model"):
        open_session(pair[0]).prepare(asked())
