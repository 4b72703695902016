"""Who decides how far to draft, and how that is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.drafting.controllers.proposer_statistics import ProposerStatistics
from engine.events import Emitted
from engine.local.session import Session
from engine.request import Control, Request, Speculation
from engine.stats import Tally
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.local.session.conftest import answered, asked


def controlled(control: Control | None, **speculation: Any) -> Request:
    return replace(asked(max_tokens=60), speculation=Speculation(controller=control, **speculation))


def test_what_is_decided_by_measuring_is_told_in_the_stream(session: Session) -> None:
    for _ in range(2):
        events, _ = answered(session, controlled(None))
        decisions = [
            event.round.budget.decision
            for event in events
            if isinstance(event, Emitted) and event.round.budget.decision
        ]
        assert decisions
        assert all(decision.why.startswith("drafting ") for decision in decisions)
        tally = Tally()
        for event in events:
            tally.add(event)
        assert tally.statistics().decision == decisions[-1]


def test_fixed_and_off_decide_nothing(session: Session) -> None:
    for control, deepest in ((Control.FIXED, 4), (Control.OFF, 0)):
        events, _ = answered(session, controlled(control, proposer="ngram"))
        rounds = [event.round for event in events if isinstance(event, Emitted)]
        assert all(turn.budget.decision is None for turn in rounds)
        assert max(turn.budget.depth for turn in rounds) == deepest


def test_what_verifying_takes_is_measured_once_and_only_where_it_matters(
    session: Session,
) -> None:
    answered(session, controlled(Control.FIXED))
    assert not session.controllers.costs.verify.known
    answered(session, controlled(Control.AUTO))
    assert session.controllers.costs.verify.known


def test_under_rejection_a_given_seed_starts_without_what_earlier_replies_taught(
    session: Session,
) -> None:
    """An earlier reply may have been drawn with the same noise, and depths would know it."""
    request = controlled(None, acceptance=AcceptanceRule.REJECTION)
    answered(session, request)
    learnt = session.controllers.proposer_statistics("draft", AcceptanceRule.REJECTION)
    assert list(learnt.survival()) == list(ProposerStatistics().survival())
    untaught = list(ProposerStatistics().survival())
    for _ in range(20):  # where the machine is slow, a reply may go without drafts
        answered(session, replace(request, sampling=Sampling(temperature=1.0)))
        if list(learnt.survival()) != untaught:
            return
    pytest.fail("no reply taught anything")
