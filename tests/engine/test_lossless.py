"""Speculation changes speed, never words: whole models, every proposer and controller.

Runs on the embedded pair. Where its weights are not there, a random pair stands in; the names of the
tests show which. A trained model that lies beside the repository runs with n-gram drafting.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare

from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.drafting import controllers, proposers
from engine.events import Emitted, Finished
from engine.kernels.formats import QUANTISED
from engine.local.session import Session
from engine.request import AcceptanceRule, Control, Message, Request, Sampling, Speculation
from engine.stats import Statistics, Tally
from tests.support.checkpoints import open_session
from tests.support.heads import fit_medusa, write_heads
from tests.support.places import PIP

EMBEDDED = "pip" if (PIP / "draft" / "model.safetensors").is_file() else "random"
TOKENS = 8

SUBJECTS = (
    "a little key",
    "the lighthouse",
    "my sister Ana",
    "rain in spring",
    "a clockmaker",
    "the draft model",
    "two grey cats",
    "an old bridge",
    "the number seven",
    "a paper boat",
    "speculative decoding",
    "the baker's oven",
    "a fox and a crow",
    "temperature",
    "green apples",
    "the last train",
    "a wooden chest",
    "the north wind",
    "a very long word",
    "Señor Muñoz, 漢字 and 😀",
)
WORDINGS = (
    "Tell me a short tale about {}.",
    "What is {}?",
    "Write a JSON record with name and size for {}.",
    "Rewrite in upper case: {0}, {0} and again {0}.",
    "Make a list of three things about {}.",
    "Hello! I am thinking of {}.",
    "Explain {} to a friend, please.",
    "If {} costs 4 and I buy 3, what do I pay?",
    "Replace 'the' with 'a': the end of {0} is the start of {0}.",
    "Once upon a time there was {}, and",
)
PROMPTS = [wording.format(subject) for subject, wording in itertools.product(SUBJECTS, WORDINGS)]
GREEDY = (Sampling(),)
COUPLED = tuple(
    Sampling(temperature=temperature, seed=seed, **cuts)  # type: ignore[arg-type]
    for seed, (temperature, cuts) in enumerate(
        itertools.product(
            (0.7, 1.0, 1.5),
            (
                {},
                {"top_p": 0.9},
                {"top_k": 20, "min_p": 0.02},
                {"repetition_penalty": 1.2, "frequency_penalty": 0.3, "top_p": 0.95},
            ),
        )
    )
)


class Pair:
    """One model pair twice: for plain decoding and for speculation."""

    def __init__(
        self, target: Path, draft: Path | None, dtype: str = "auto", heads: Sequence[Path] = ()
    ) -> None:
        self.plain = open_session(target, dtype=dtype)
        self.speculative = open_session(target, draft, dtype=dtype, heads=heads)

    @property
    def proposers(self) -> tuple[str, ...]:
        """All but plain decoding, which they are compared with."""
        offered = proposers.available(self.speculative.resources)
        return tuple(name for name in offered if name != "none")


@pytest.fixture(scope="module")
def folders(request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """Target and draft."""
    if EMBEDDED == "pip":
        return PIP / "target", PIP / "draft"
    pair: tuple[Path, Path] = request.getfixturevalue("pair")
    return pair


@pytest.fixture(scope="module")
def heads(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """One of every kind, for the target; Medusa's are right now and then."""
    root = tmp_path_factory.mktemp("heads")
    written = write_heads(root, folders[0])
    fit_medusa(root / "medusa", folders[0])
    return written


@pytest.fixture(scope="module")
def embedded(folders: tuple[Path, Path], heads: tuple[Path, ...]) -> Pair:
    return Pair(*folders, heads=heads)


@pytest.fixture(scope="module")
def beside(stories: Path) -> Pair:
    return Pair(stories, None)


def asked(prompt: str, sampling: Sampling, speculation: Speculation) -> Request:
    return Request(
        messages=(Message("user", prompt),),
        sampling=sampling,
        speculation=speculation,
        max_tokens=TOKENS,
        ignore_eos=True,
    )


def reply(session: Session, request: Request) -> tuple[tuple[int, ...], Statistics]:
    tally = Tally()
    for event in session.run(request, lambda: False):
        tally.add(event)
    assert isinstance(event, Finished)
    return event.token_ids, tally.statistics()


def branches(name: str) -> bool:
    """Whether a proposer can draft trees."""
    return "tree_nodes" in {field.name for field in fields(proposers.options_of(name))}


def compare(
    pair: Pair, prompts: list[str], samplings: tuple[Sampling, ...], *, stands: bool = True
) -> None:
    """Every prompt, with the next sampling of the cycle, through every proposer.

    Controllers, depths and sizes of trees are drawn, so that each meets every proposer and many
    samplings.
    ``stands``: over so many prompts some drafted token is sure to be accepted.
    """
    plain = Speculation(proposer="none", depth=0)
    totals = {name: Statistics() for name in pair.proposers}
    chance, met = random.Random(5), set()
    for prompt, sampling in zip(prompts, itertools.cycle(samplings), strict=False):
        expected, _ = reply(pair.plain, asked(prompt, sampling, plain))
        assert len(expected) == TOKENS
        for name in pair.proposers:
            # Fixed ones draft most, so they come up twice as often.
            control = Control(chance.choice((*controllers.names(), Control.FIXED)))
            depth = chance.randint(1, 8)
            options = {"tree_nodes": chance.choice((0, 5, 15))} if branches(name) else {}
            speculation = Speculation(
                proposer=name, depth=depth, controller=control, options=options
            )
            tokens, figures = reply(pair.speculative, asked(prompt, sampling, speculation))
            assert tokens == expected, (prompt, name, control, depth, sampling)
            met.add((name, control))
            totals[name] += figures
    assert met == set(itertools.product(pair.proposers, controllers.names()))
    for name, total in totals.items():
        # A draft that never stands, or always, would leave half of the engine untested.
        if proposers.needs_of(name):
            assert total.accepted < total.drafted
        if name in ("draft", "medusa"):
            assert total.accepted or not stands


def test_there_are_200_prompts() -> None:
    assert len(set(PROMPTS)) >= 200


@pytest.mark.parametrize("samplings", [GREEDY, COUPLED], ids=["greedy", "coupled"])
@pytest.mark.parametrize("which", [EMBEDDED])
def test_the_embedded_pair_says_the_same_with_every_proposer(
    embedded: Pair, samplings: tuple[Sampling, ...], which: str
) -> None:
    assert embedded.proposers == proposers.names()[1:]
    compare(embedded, PROMPTS, samplings)


@pytest.mark.parametrize("samplings", [GREEDY, COUPLED], ids=["greedy", "coupled"])
@pytest.mark.parametrize("kind", QUANTISED)
def test_a_quantised_pair_says_the_same_with_every_proposer(
    kind: str,
    samplings: tuple[Sampling, ...],
    folders: tuple[Path, Path],
    heads: tuple[Path, ...],
) -> None:
    """Every fourth prompt: what differs from the unquantised pair is tested bit by bit elsewhere."""
    pair = Pair(*folders, dtype=kind, heads=heads)
    assert pair.proposers == proposers.names()[1:]
    compare(pair, PROMPTS[::4], samplings, stands=False)


@pytest.mark.parametrize("samplings", [GREEDY, COUPLED], ids=["greedy", "coupled"])
def test_a_trained_model_beside_the_repository_says_the_same_without_a_draft(
    beside: Pair, samplings: tuple[Sampling, ...]
) -> None:
    compare(beside, PROMPTS[::5], samplings)


# -- rejection sampling: not the same words, but the same distribution


def first_tokens(session: Session, request: Request, sampling: Sampling) -> Iterator[list[int]]:
    """The replies' tokens for many seeds."""
    for seed in range(250):
        seeded = Sampling(temperature=sampling.temperature, top_k=sampling.top_k, seed=seed)
        ids = tuple(session.prepare(request))
        again = Request(
            token_ids=ids,
            sampling=seeded,
            speculation=request.speculation,
            max_tokens=3,
            ignore_eos=True,
        )
        yield list(reply(session, again)[0])


def distribution(session: Session, tokens: list[int], sampling: Sampling) -> torch.Tensor:
    """The target's p after ``tokens``, straight from its logits."""
    model = session.target.model
    logits = model.forward(tokens, model.new_cache(len(tokens)), last=1)
    sampler = Sampler(sampling, AcceptanceRule.REJECTION, 0, Context(tokens), model.info.vocabulary)
    return sampler.probabilities(logits)[0].double()


def p_value(tokens: list[int], p: torch.Tensor) -> float:
    """Chi-square of the counts against ``p``; tokens expected less than 5 times are one class."""
    counts = Counter(tokens)
    assert all(p[token] > 0 for token in counts)
    expected = (p * len(tokens) / p.sum()).tolist()
    common = [token for token, value in enumerate(expected) if value >= 5]
    observed = [counts[token] for token in common]
    wanted = [expected[token] for token in common]
    rest = len(tokens) - sum(wanted)
    if rest > 1:
        observed.append(len(tokens) - sum(observed))
        wanted.append(rest)
    else:
        wanted = [value * sum(observed) / sum(wanted) for value in wanted]
    return float(chisquare(observed, wanted).pvalue) if len(wanted) > 1 else 1.0


REJECTION = AcceptanceRule.REJECTION
WEIGHED = [
    *((name, Control.FIXED, REJECTION) for name in proposers.names() if name != "none"),
    *(("draft", Control(each), REJECTION) for each in controllers.names() if each != "fixed"),
    ("best", Control.AUTO, REJECTION),
    *(
        ("draft", Control.FIXED, rule)
        for rule in AcceptanceRule
        if rule.weighs_q and rule != REJECTION
    ),
]
"""Every proposer; every controller and every other such rule with the one that draws its drafts; and
the one that the controller chooses the proposer for."""


@pytest.mark.parametrize(("name", "control", "rule"), WEIGHED)
@pytest.mark.parametrize("which", [EMBEDDED])
def test_rules_that_weigh_q_leave_the_targets_distribution(
    embedded: Pair, name: str, control: Control, rule: AcceptanceRule, which: str
) -> None:
    """First tokens against p, and second tokens after the commonest first one."""
    session = embedded.speculative
    sampling = Sampling(temperature=1.2, top_k=12)
    request = Request(
        messages=(Message("user", "again and again and again and"),),
        speculation=Speculation(
            proposer=name,
            depth=2,
            controller=control,
            acceptance=rule,
            options={"tree_nodes": 6} if branches(name) else {},
        ),
    )
    prompt = session.prepare(request)
    replies = list(first_tokens(session, request, sampling))
    assert p_value([each[0] for each in replies], distribution(session, prompt, sampling)) > 1e-4
    common, _ = Counter(each[0] for each in replies).most_common(1)[0]
    seconds = [each[1] for each in replies if each[0] == common]
    assert p_value(seconds, distribution(session, [*prompt, common], sampling)) > 1e-4


def test_rules_that_weigh_q_accept_at_least_as_often_as_coupled(embedded: Pair) -> None:
    """The reason to offer them: sampled drafts stand more often, most of all judged together."""
    rates = {}
    for rule in (AcceptanceRule.COUPLED, AcceptanceRule.REJECTION, AcceptanceRule.BLOCK):
        total = Statistics()
        for seed, prompt in enumerate(PROMPTS[:30]):
            speculation = Speculation(proposer="draft", depth=3, acceptance=rule)
            request = asked(prompt, Sampling(temperature=1.0, seed=seed), speculation)
            total += reply(embedded.speculative, request)[1]
        rates[rule] = total.acceptance_rate or 0.0
    assert rates[AcceptanceRule.REJECTION] > rates[AcceptanceRule.COUPLED] - 0.02
    assert rates[AcceptanceRule.BLOCK] > rates[AcceptanceRule.REJECTION] - 0.02


def test_a_round_shows_what_the_rule_decided_on(embedded: Pair) -> None:
    """Greedy: an accepted token is the likeliest; coupled: q and p are both told."""
    speculation = Speculation(proposer="draft", depth=4)
    for sampling in (Sampling(), Sampling(temperature=1.0, seed=1)):
        for event in embedded.speculative.run(
            asked(PROMPTS[0], sampling, speculation), lambda: False
        ):
            if isinstance(event, Emitted):
                turn = event.round
                assert turn is not None
                for node, (p, q) in enumerate(zip(turn.p, turn.q, strict=True)):
                    assert q is not None and 0 < q <= 1
                    assert p is not None or node not in turn.accepted_path
