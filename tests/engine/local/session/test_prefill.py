"""How a prompt is read in, by the target and by the draft."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.decoding.context import PREFILL_CHUNK
from engine.decoding.text.codec import TextCodec
from engine.drafting.controllers.auto import Auto
from engine.drafting.resources import Resources
from engine.events import Emitted, Finished, FinishReason, Prefilled, Round
from engine.local.session import Session
from engine.request import Request, Speculation
from engine.values.sampling import AcceptanceRule
from tests.engine.local.session.conftest import PROMPT, after, answered, asked, never
from tests.support.checkpoints import VOCABULARY
from tests.support.fakes import TableModel


def test_a_long_prompt_is_left_between_two_parts_of_its_prefill(
    fake: tuple[Session, TableModel],
) -> None:
    _, model = fake
    long = TableModel(lambda tokens: [0.0] * VOCABULARY, VOCABULARY, context=4 * PREFILL_CHUNK)
    session = Session(long, fake[0].codec, Resources())
    _, finished = answered(session, asked((9,) * (3 * PREFILL_CHUNK), proposer="none"), after(1))
    assert finished.reason is FinishReason.CANCELLED
    assert finished.token_ids == () and finished.text == ""
    assert long.fed == PREFILL_CHUNK
    assert model.fed == 0


def drafted_by_table(codec: TextCodec, context: int = 4 * PREFILL_CHUNK) -> Session:
    """A target and a draft that count what they are fed."""

    def model() -> TableModel:
        return TableModel(lambda tokens: [0.0] * VOCABULARY, VOCABULARY, context=context)

    return Session(model(), codec, Resources(draft=model()))


def by_speed(prompt: tuple[int, ...]) -> Request:
    """A request whose draft is as deep as is expected to be fastest."""
    return replace(asked(prompt), speculation=Speculation(proposer="draft"))


@pytest.fixture
def drafts_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafting is expected to be fastest, from the first round on."""
    decide = Auto.budget
    monkeypatch.setattr(
        Auto,
        "budget",
        lambda self, **beside: replace(
            decide(self, **beside), depth=3, nodes=3, floor=0.0, row_floor=0.0
        ),
    )


def test_the_drafts_prefill_of_a_short_prompt_comes_before_the_first_round(
    fake: tuple[Session, TableModel],
) -> None:
    """It used to run inside round 1: that round's draft time was that of the whole prompt."""
    session, prompt = drafted_by_table(fake[0].codec), (9,) * 100
    fed = [
        session.resources.draft.fed  # type: ignore[union-attr]
        for event in session.run(asked(prompt, max_tokens=8), never)
        if isinstance(event, Prefilled)
    ]
    assert fed == [len(prompt) - 1]


@pytest.mark.usefixtures("drafts_pay")
def test_the_first_words_of_a_long_prompt_do_not_wait_for_the_drafts_prefill(
    fake: tuple[Session, TableModel],
) -> None:
    session, prompt = drafted_by_table(fake[0].codec, 20 * PREFILL_CHUNK), (9,) * 4000
    draft = session.resources.draft
    assert isinstance(draft, TableModel)
    seconds, rounds = [], []
    for event in session.run(by_speed(prompt), never):
        match event:
            case Prefilled():
                seconds.append(event.seconds)
                assert (draft.fed > 0) == (len(seconds) > 1)
            case Emitted(round=Round() as round):
                rounds.append((len(seconds), len(round.tree)))
    drafted = [drafted for after, drafted in rounds if after == 2]
    plain = [drafted for after, drafted in rounds if after == 1]
    assert plain and not any(plain) and drafted and drafted[0]
    assert seconds[0] < seconds[1]


@pytest.mark.usefixtures("drafts_pay")
def test_a_reply_that_ends_early_leaves_the_rest_of_the_drafts_prefill(
    fake: tuple[Session, TableModel],
) -> None:
    session, prompt = drafted_by_table(fake[0].codec, 20 * PREFILL_CHUNK), (9,) * 4000
    draft = session.resources.draft
    assert isinstance(draft, TableModel)
    answered(session, replace(by_speed(prompt), max_tokens=1))
    assert draft.fed == 0
    events, _ = answered(session, replace(by_speed(prompt), max_tokens=2))
    assert 0 < draft.fed < len(prompt) - 1
    first, late = (event.seconds for event in events if isinstance(event, Prefilled))
    assert first < late  # what was done of it is told
    assert len(answered(session, by_speed(prompt))[1].token_ids) == 20
    assert draft.fed >= len(prompt) - 1


def test_the_draft_reads_a_long_prompt_only_where_that_pays(
    fake: tuple[Session, TableModel],
) -> None:
    """One question after the other: what was decoded without a draft counts for the whole chat."""
    session, prompt = drafted_by_table(fake[0].codec, 20 * PREFILL_CHUNK), (9,) * 4000
    draft = session.resources.draft
    assert isinstance(draft, TableModel)
    statistics = session.controllers.proposer_statistics("draft", AcceptanceRule.COUPLED)
    statistics.observe_prefill(1, 1e9)
    request = by_speed(prompt)
    for answers in range(1, 4):
        (*_, finished) = session.run(request, never)
        assert isinstance(finished, Finished) and len(finished.token_ids) == 20
        assert draft.fed == 0 and session._slots.first.undrafted == 20 * answers
        request = replace(request, token_ids=(*request.token_ids, *finished.token_ids, 9))
    answered(session, replace(request, speculation=Speculation(proposer="draft", depth=4)))
    assert draft.fed >= len(request.token_ids) - 1 and session._slots.first.undrafted == 0


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
        answered(session, asked(reuse_cache=reuse, max_tokens=1))
        fed.append(draft.fed - before)
    assert fed == [len(PROMPT) - 1, len(PROMPT) - 1, 0]


def test_the_drafts_prefill_is_left_between_two_parts(fake: tuple[Session, TableModel]) -> None:
    session = drafted_by_table(fake[0].codec, 20 * PREFILL_CHUNK)
    prompt = (9,) * (3 * PREFILL_CHUNK)
    _, finished = answered(session, asked(prompt), after(4))
    assert finished.reason is FinishReason.CANCELLED
    assert answered(session, asked(prompt))[1].reason is FinishReason.LENGTH


def test_a_prompt_beyond_the_drafts_context_is_not_fed_to_it(
    fake: tuple[Session, TableModel],
) -> None:
    target = drafted_by_table(fake[0].codec).target.model
    session = Session(target, fake[0].codec, Resources(draft=fake[1]))  # whose context holds 100
    assert len(answered(session, asked((9,) * 200))[1].token_ids) == 20
    assert fake[1].fed == 0
