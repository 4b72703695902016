"""Sessions: what a turn reuses, what a prompt may not be, how a reply ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import proposers
from engine.cache import KVCache
from engine.controllers.experience import Drafter
from engine.errors import ContextExceeded, InvalidRequest
from engine.events import (
    Emitted,
    Event,
    Finished,
    FinishReason,
    Origin,
    Prefilled,
    Started,
)
from engine.prefix import PREFILL_PART
from engine.proposers.base import Resources
from engine.request import AcceptanceRule, Control, Message, Request, Sampling, Speculation
from engine.session import Session
from engine.stats import Tally
from engine.testing.checkpoints import VOCABULARY, open_session
from engine.testing.fakes import TableModel
from engine.text import TextCodec

PROMPT = tuple(range(40, 70))
COUPLED = Sampling(temperature=1.0, seed=3)


@pytest.fixture
def session(pair: tuple[Path, Path], pair_heads: tuple[Path, ...]) -> Session:
    return open_session(*pair, heads=pair_heads)


@pytest.fixture
def fake(pair: tuple[Path, Path]) -> tuple[Session, TableModel]:
    """A target that says 40, 41, 42, ... and counts what it is fed."""

    def count(tokens: list[int]) -> list[float]:
        return [float(token == 5 + (tokens[-1] - 4) % 300) for token in range(VOCABULARY)]

    model = TableModel(count, VOCABULARY, context=100)  # type: ignore[arg-type]
    return Session(model, TextCodec(pair[0]), Resources()), model


def asked(
    tokens: tuple[int, ...] = PROMPT,
    *,
    proposer: str = "draft",
    depth: int = 4,
    sampling: Sampling = COUPLED,
    max_tokens: int | None = 20,
    stop: tuple[str, ...] = (),
    ignore_eos: bool = True,
    reuse_cache: bool = True,
) -> Request:
    return Request(
        token_ids=tokens,
        sampling=sampling,
        speculation=Speculation(proposer=proposer, depth=depth),
        max_tokens=max_tokens,
        stop=stop,
        ignore_eos=ignore_eos,
        reuse_cache=reuse_cache,
    )


def never() -> bool:
    return False


def after(looks: int) -> Callable[[], bool]:
    """A cancel switch that is on from the given look on."""
    left = iter(range(looks))
    return lambda: next(left, None) is None


def told(
    session: Session, request: Request, cancelled: Callable[[], bool] = never
) -> tuple[list[Event], Finished]:
    events = list(session.run(request, cancelled))
    last = events[-1]
    assert isinstance(last, Finished)
    return events, last


def prefilled(events: list[Event]) -> Prefilled:
    return next(event for event in events if isinstance(event, Prefilled))


def fresh_reply(
    pair: tuple[Path, Path], request: Request, heads: tuple[Path, ...] = ()
) -> tuple[int, ...]:
    return told(open_session(*pair, heads=heads), request)[1].token_ids


def test_events_come_in_order_and_agree_with_each_other(session: Session) -> None:
    events, finished = told(session, asked())
    assert [type(event) for event in events[:2]] == [Started, Prefilled]
    emitted = [event for event in events if isinstance(event, Emitted)]
    assert len(emitted) == len(events) - 3
    pieces = [piece for event in emitted for piece in event.pieces]
    assert tuple(piece.token for piece in pieces) == finished.token_ids
    assert len(finished.token_ids) == 20
    assert "".join(event.text for event in emitted) + finished.tail == finished.text
    for event in emitted:
        turn = event.round
        assert len(event.pieces) == turn.emitted
        assert [node.token for node in event.drafted] == list(turn.tree.tokens)
        assert [node.accepted for node in event.drafted] == [
            index in turn.accepted_path for index in range(len(turn.tree))
        ]
        accepted = len(turn.accepted_path)
        for index, piece in enumerate(event.pieces):
            assert piece.origin is (Origin.DRAFT if index < accepted else turn.origin)
            assert piece.p is not None and 0 < piece.p <= 1


def test_a_reply_can_be_made_again_from_the_seed_it_tells(session: Session) -> None:
    events, finished = told(session, asked(sampling=Sampling(temperature=1.0)))
    started = events[0]
    assert isinstance(started, Started)
    assert started.prompt_tokens == PROMPT
    again = Sampling(temperature=1.0, seed=started.seed)
    assert told(session, asked(sampling=again))[1].token_ids == finished.token_ids


def test_auto_acceptance_is_told_as_what_it_became(session: Session) -> None:
    for sampling, rule in ((Sampling(), "greedy"), (COUPLED, "coupled")):
        started = told(session, asked(sampling=sampling))[0][0]
        assert isinstance(started, Started)
        assert started.acceptance == rule


# -- reuse between turns


@pytest.mark.parametrize("proposer", proposers.names())
def test_a_follow_up_prefills_only_what_is_new(
    session: Session, pair: tuple[Path, Path], pair_heads: tuple[Path, ...], proposer: str
) -> None:
    """Prompt and reply are in the cache, but for the reply's last token."""
    _, first = told(session, asked(proposer=proposer))
    follow_up = asked((*PROMPT, *first.token_ids, 7, 8, 9), proposer=proposer)
    events, second = told(session, follow_up)
    assert prefilled(events).reused == len(PROMPT) + len(first.token_ids) - 1
    assert prefilled(events).tokens == len(PROMPT) + len(first.token_ids) + 3
    assert second.token_ids == fresh_reply(pair, follow_up, pair_heads)


def test_the_model_is_fed_every_token_of_a_chat_once(fake: tuple[Session, TableModel]) -> None:
    session, model = fake
    chat = PROMPT
    for _ in range(3):
        _, finished = told(session, asked(chat, proposer="none", max_tokens=5))
        chat = (*chat, *finished.token_ids, 200)
    assert model.fed == len(chat) - 2  # the last reply's last token and what comes behind it


def test_an_edited_turn_keeps_what_comes_before_it(
    session: Session, pair: tuple[Path, Path]
) -> None:
    told(session, asked())
    edited = asked((*PROMPT[:12], 99, *PROMPT[13:]))
    events, finished = told(session, edited)
    assert prefilled(events).reused == 12
    assert finished.token_ids == fresh_reply(pair, edited)


def test_the_same_prompt_again_computes_only_its_last_token(session: Session) -> None:
    _, first = told(session, asked())
    events, second = told(session, asked())
    assert prefilled(events).reused == len(PROMPT) - 1
    assert second.token_ids == first.token_ids


def test_reuse_can_be_declined(session: Session) -> None:
    _, first = told(session, asked())
    events, second = told(session, asked(reuse_cache=False))
    assert prefilled(events).reused == 0
    assert second.token_ids == first.token_ids


@pytest.mark.parametrize("looks", range(2, 6))
def test_after_a_cancelled_reply_the_chat_goes_on_as_if_fresh(
    session: Session, pair: tuple[Path, Path], looks: int
) -> None:
    _, cut = told(session, asked(), after(looks))
    assert cut.reason is FinishReason.CANCELLED
    follow_up = asked((*PROMPT, *cut.token_ids, 7, 8))
    events, finished = told(session, follow_up)
    assert prefilled(events).reused >= len(PROMPT) + len(cut.token_ids) - 1
    assert finished.token_ids == fresh_reply(pair, follow_up)
    assert isinstance(session.target.cache, KVCache)
    session.target.cache.check()


def test_after_a_stopped_reply_the_chat_goes_on_as_if_fresh(
    session: Session, pair: tuple[Path, Path]
) -> None:
    """The round that held the stop string may have verified tokens behind it."""
    whole = told(session, asked(depth=8))[1]
    stop = session.codec.decode(whole.token_ids[:9])[-3:]
    _, stopped = told(session, asked(depth=8, stop=(stop,)))
    assert stopped.reason is FinishReason.STOP
    assert whole.token_ids[: len(stopped.token_ids)] == stopped.token_ids
    follow_up = asked((*PROMPT, *stopped.token_ids, 7, 8))
    assert told(session, follow_up)[1].token_ids == fresh_reply(pair, follow_up)


def test_a_chat_may_switch_proposers_every_turn(session: Session, pair: tuple[Path, Path]) -> None:
    chat = PROMPT
    for turn, proposer in enumerate(("draft", "ngram", "none", "draft", "ngram", "draft")):
        request = asked(chat, proposer=proposer, depth=3 + turn, max_tokens=9)
        _, finished = told(session, request)
        plain = asked(chat, proposer="none", max_tokens=9)
        assert finished.token_ids == fresh_reply(pair, plain), turn
        chat = (*chat, *finished.token_ids, 50 + turn)


def test_a_proposer_is_kept_until_its_options_change(session: Session) -> None:
    """A slider moved through its range once left an index of the chat behind for every stop."""
    kept = []
    for longest in (3, 3, 4):
        request = Request(
            token_ids=PROMPT,
            max_tokens=2,
            speculation=Speculation(proposer="ngram", options={"prompt_lookup_max": longest}),
        )
        told(session, request)
        assert len(session._proposers) == 1
        kept.append(session._proposers["ngram"][1])
    assert kept[0] is kept[1] is not kept[2]


def test_a_round_that_fails_inside_does_not_spoil_the_next_reply(
    session: Session, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(session.target, "commit", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            list(session.run(asked(), never))
    assert told(session, asked())[1].token_ids == fresh_reply(pair, asked())


# -- how replies end


def test_a_long_prompt_is_left_between_two_parts_of_its_prefill(
    fake: tuple[Session, TableModel],
) -> None:
    _, model = fake
    long = TableModel(lambda tokens: [0.0] * VOCABULARY, VOCABULARY, context=4 * PREFILL_PART)
    session = Session(long, fake[0].codec, Resources())
    _, finished = told(session, asked((9,) * (3 * PREFILL_PART), proposer="none"), after(1))
    assert finished.reason is FinishReason.CANCELLED
    assert finished.token_ids == () and finished.text == ""
    assert long.fed == PREFILL_PART
    assert model.fed == 0


def drafted_by_table(codec: TextCodec, context: int = 4 * PREFILL_PART) -> Session:
    """A target and a draft that count what they are fed."""

    def model() -> TableModel:
        return TableModel(lambda tokens: [0.0] * VOCABULARY, VOCABULARY, context=context)

    return Session(model(), codec, Resources(draft=model()))


def test_the_drafts_prefill_is_prefill_and_no_part_of_the_first_round(
    fake: tuple[Session, TableModel],
) -> None:
    """It used to run inside round 1: that round's draft time told of the whole prompt."""
    session = drafted_by_table(fake[0].codec)
    prompt = (9,) * (2 * PREFILL_PART)
    for event in session.run(asked(prompt, max_tokens=8), never):
        if isinstance(event, Prefilled):
            assert session.resources.draft.fed == len(prompt) - 1  # type: ignore[union-attr]


def test_without_reuse_the_draft_starts_anew_as_the_target_does(
    fake: tuple[Session, TableModel],
) -> None:
    """The second of two equal races found the draft's cache warm."""
    session = drafted_by_table(fake[0].codec)
    draft = session.resources.draft
    assert isinstance(draft, TableModel)
    fed = []
    for reuse in (False, False, True):
        before = draft.fed
        told(session, asked(reuse_cache=reuse, max_tokens=1))
        fed.append(draft.fed - before)
    assert fed == [len(PROMPT) - 1, len(PROMPT) - 1, 0]


def test_the_drafts_prefill_is_left_between_two_parts(fake: tuple[Session, TableModel]) -> None:
    session = drafted_by_table(fake[0].codec)
    prompt = (9,) * (3 * PREFILL_PART)
    _, finished = told(session, asked(prompt), after(4))
    assert finished.reason is FinishReason.CANCELLED
    assert session.target.tokens == list(prompt[:-1])
    assert session.resources.draft.fed == PREFILL_PART  # type: ignore[union-attr]
    assert told(session, asked(prompt))[1].reason is FinishReason.LENGTH


def test_a_prompt_beyond_the_drafts_context_is_not_fed_to_it(
    fake: tuple[Session, TableModel],
) -> None:
    session = drafted_by_table(fake[0].codec)
    session.resources = Resources(draft=fake[1])  # its context holds 100 tokens
    assert len(told(session, asked((9,) * 200))[1].token_ids) == 20
    assert fake[1].fed == 0


def test_cancelling_ends_the_reply_within_one_round(session: Session) -> None:
    events, finished = told(session, asked(depth=2), after(4))
    assert finished.reason is FinishReason.CANCELLED
    rounds = [event for event in events if isinstance(event, Emitted)]
    assert len(rounds) <= 3
    assert finished.token_ids == tuple(piece.token for e in rounds for piece in e.pieces)


def test_a_reply_ends_at_max_tokens_or_where_the_context_ends(
    fake: tuple[Session, TableModel],
) -> None:
    session, model = fake
    for wanted, got in ((1, 1), (7, 7), (None, 70), (1000, 70)):
        _, finished = told(session, asked(proposer="ngram", max_tokens=wanted, sampling=Sampling()))
        assert len(finished.token_ids) == got
        assert finished.reason is FinishReason.LENGTH
        assert session.target.cache.length <= model.info.context


def test_an_end_of_sequence_token_stops_the_reply_and_shows_as_nothing(
    pair: tuple[Path, Path],
) -> None:
    def ending(tokens: list[int]) -> list[float]:
        return [float(token == (1 if len(tokens) > 33 else 60)) for token in range(VOCABULARY)]

    model = TableModel(ending, VOCABULARY, eos=frozenset({1}))  # type: ignore[arg-type]
    session = Session(model, TextCodec(pair[0]), Resources())
    request = asked(proposer="ngram", sampling=Sampling(), ignore_eos=False)
    _, finished = told(session, request)
    assert finished.reason is FinishReason.STOP
    assert finished.token_ids == (60, 60, 60, 60, 1)
    assert finished.text == session.codec.decode([60] * 4)
    _, ignored = told(session, asked(proposer="ngram", sampling=Sampling()))
    assert len(ignored.token_ids) == 20
    assert ignored.reason is FinishReason.LENGTH


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_a_stop_string_cuts_text_and_tokens_the_same_at_every_depth(
    session: Session, depth: int
) -> None:
    plain = asked(proposer="none", sampling=Sampling())
    whole = told(session, plain)[1]
    stop = whole.text[5:9]
    expected = told(session, asked(proposer="none", sampling=Sampling(), stop=(stop,)))[1]
    assert expected.text == whole.text[: whole.text.index(stop)]
    _, stopped = told(session, asked(depth=depth, sampling=Sampling(), stop=(stop,)))
    assert stopped == expected


# -- what is refused


@pytest.mark.parametrize("over", [1, 2, 50])
def test_a_prompt_longer_than_the_context_is_refused_with_the_excess(
    session: Session, over: int
) -> None:
    context = session.target.context
    with pytest.raises(ContextExceeded, match=rf"Shorten it by {over} token") as caught:
        session.prepare(asked((9,) * (context - 1 + over)))
    assert caught.value.over == over
    assert caught.value.field == "messages"
    assert str(context) in str(caught.value)


def test_a_prompt_that_leaves_room_for_one_token_gets_one(session: Session) -> None:
    request = asked((9,) * (session.target.context - 1), max_tokens=None)
    assert len(told(session, request)[1].token_ids) == 1


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
        session.prepare(request_)
    assert caught.value.field == field


def test_without_a_draft_the_draft_proposer_is_refused(pair: tuple[Path, Path]) -> None:
    with pytest.raises(InvalidRequest, match="needs a draft model"):
        open_session(pair[0]).prepare(asked())


def test_a_chat_in_words_is_answered_in_words(session: Session) -> None:
    request = Request(
        messages=(Message("user", "Tell me of the little key."),),
        max_tokens=12,
        sampling=Sampling(temperature=0.8, seed=2),
        speculation=Speculation(acceptance=AcceptanceRule.REJECTION),
    )
    events, finished = told(session, request)
    started = events[0]
    assert isinstance(started, Started)
    assert session.codec.decode(started.prompt_tokens) == "Tell me of the little key."
    assert finished.text == session.codec.decode(finished.token_ids)


# -- who decides how far to draft


def controlled(control: Control | None, **speculation: Any) -> Request:
    return replace(asked(max_tokens=60), speculation=Speculation(controller=control, **speculation))


def test_what_is_decided_by_measuring_is_told_in_the_stream(session: Session) -> None:
    for _ in range(2):
        events, _ = told(session, controlled(None))
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
        events, _ = told(session, controlled(control, proposer="ngram"))
        rounds = [event.round for event in events if isinstance(event, Emitted)]
        assert all(turn.budget.decision is None for turn in rounds)
        assert max(turn.budget.depth for turn in rounds) == deepest


def test_what_verifying_takes_is_measured_once_and_only_where_it_matters(
    session: Session,
) -> None:
    told(session, controlled(Control.FIXED))
    assert not session._experience.verify.known
    told(session, controlled(Control.AUTO))
    assert session._experience.verify.known


def test_under_rejection_a_given_seed_starts_without_what_earlier_replies_taught(
    session: Session,
) -> None:
    """An earlier reply may have been drawn with the same noise, and depths would know it."""
    request = controlled(None, acceptance=AcceptanceRule.REJECTION)
    told(session, request)
    key = "draft", AcceptanceRule.REJECTION
    assert session._drafters[key].stands() == Drafter().stands()
    told(session, replace(request, sampling=Sampling(temperature=1.0)))
    assert session._drafters[key].stands() != Drafter().stands()
