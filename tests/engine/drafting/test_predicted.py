"""Predicted replies: fewer rounds where the prediction is right, and always the same words."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from engine.decoding.context import Context
from engine.drafting.predicted import PredictedProposer
from engine.drafting.proposers.none import NoneProposer
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget
from engine.request import PREDICTED, Control, Request, Speculation
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.checkpoints import open_session, write_random
from tests.support.lossless import (
    COUPLED,
    GREEDY,
    PLAIN,
    PROMPTS,
    Answer,
    Pair,
    answer,
    asked,
    assert_distribution,
)
from tests.support.places import PIP

TOKENS = 60


@functools.cache
def pip() -> Pair:
    return Pair(PIP / "target", PIP / "draft")


def by_prediction(result: Answer) -> tuple[int, int]:
    """Tokens drafted from the prediction, and how many were accepted."""
    rounds = [one for one in result.rounds if one.proposer == PREDICTED]
    return sum(len(one.tree) for one in rounds), sum(len(one.accepted_path) for one in rounds)


@pytest.mark.parametrize(
    ("proposer", "sampling", "control"),
    [
        ("draft", COUPLED[0], Control.FIXED),
        ("ngram", GREEDY, Control.FIXED),
        ("best", COUPLED[11], Control.FIXED),
        ("best", GREEDY, Control.AUTO),
        ("draft", COUPLED[0], Control.AUTO),
    ],
)
def test_words_stay_and_rounds_are_saved(
    proposer: str, sampling: Sampling, control: Control
) -> None:
    """Predictions that are right, wrong, and right but for a word in the middle."""
    prompt = PROMPTS[0]
    plain = answer(pip().plain, asked(prompt, sampling, PLAIN, TOKENS))
    text = pip().plain.codec.decode(plain.tokens)
    wanted = Speculation(proposer=proposer, depth=8, controller=control)
    middle = len(text) // 2
    edited = f"{text[:middle]} something else {text[middle:]}"
    for predicted, share in ((text, 0.6), (edited, 0.3), ("None of this will be said.", 0.0)):
        request = replace(asked(prompt, sampling, wanted, TOKENS), predicted=predicted)
        result = answer(pip().speculative, request)
        assert result.tokens == plain.tokens
        drafted, accepted = by_prediction(result)
        if control is Control.FIXED:  # else times decide who drafts
            assert drafted and accepted >= share * TOKENS


@pytest.mark.parametrize("rule", [AcceptanceRule.REJECTION, AcceptanceRule.BLOCK])
def test_the_distribution_stays_under_rules_that_weigh_q(rule: AcceptanceRule) -> None:
    class Predicting:
        """The session with the same prediction in every request."""

        def __init__(self) -> None:
            self.session = pip().speculative

        def __getattr__(self, name: str) -> object:
            return getattr(self.session, name)

        def run(self, request: Request, *rest: object) -> object:
            if request.speculation.deepest:
                request = replace(request, predicted=" again and then and again")
            return self.session.run(request, *rest)  # type: ignore[arg-type]

    wanted = Speculation(proposer="draft", depth=3, acceptance=rule)
    assert_distribution(Predicting(), wanted)  # type: ignore[arg-type]


def test_nothing_is_drafted_beyond_its_end_nor_from_the_reply_itself() -> None:
    none = NoneProposer(NoneProposer.Options(), Resources())
    proposer, context = PredictedProposer((7, 8, 9), none, "none"), Context((1, 2))
    proposer.begin(context, None)  # type: ignore[arg-type]  # nothing is drawn
    assert proposer.propose(context, Budget(8, 8)).tree.tokens == (7, 8, 9)
    context.tokens += [7, 8, 9, 30, 31, 7, 8, 9]
    assert not proposer.propose(context, Budget(8, 8)).tree.tokens


def test_a_token_that_the_model_lacks_ends_the_prediction(tmp_path: Path) -> None:
    """Gemma 3's tokenizer has such a token for images. Its embedding was read from behind the matrix."""
    write_random(tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.add_special_tokens(["<image>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    session = open_session(tmp_path)
    request = Request(token_ids=(40, 50, 60), max_tokens=8, ignore_eos=True, speculation=PLAIN)
    wanted = Speculation(proposer="ngram", depth=3)
    result = answer(session, replace(request, predicted="ab<image>", speculation=wanted))
    assert result.tokens == answer(session, request).tokens
    assert list(result.rounds[0].tree.tokens) == session.codec.encode("ab", special=False)


def test_a_request_that_drafts_nothing_takes_no_prediction() -> None:
    for wanted in (PLAIN, Speculation(proposer="draft", controller=Control.OFF)):
        with pytest.raises(InvalidRequest) as caught:
            Request(prompt="Once", predicted="upon", speculation=wanted)
        assert caught.value.field == "predicted"
