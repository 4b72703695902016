"""Words with speculation beside words without: what the tests of losslessness share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path

import torch

from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.drafting import proposers
from engine.events import Emitted, Finished, Round
from engine.local.session import PreparedRequest, Session
from engine.request import OptionValue, Request, Speculation
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.checkpoints import open_session
from tests.support.chi_square import chi_square

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
PROMPTS = [wording.format(subject) for subject, wording in product(SUBJECTS, WORDINGS)]
GREEDY = Sampling()
COUPLED = tuple(
    Sampling(temperature=temperature, seed=seed, **cuts)  # type: ignore[arg-type]
    for seed, (temperature, cuts) in enumerate(
        product(
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
PLAIN = Speculation(proposer="none", depth=0)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole reply: its tokens, and the rounds that wrote them behind so many tokens of prompt."""

    prompt: int
    tokens: tuple[int, ...]
    rounds: tuple[Round, ...]

    @property
    def drafted(self) -> int:
        return sum(len(one.tree) for one in self.rounds)

    @property
    def accepted(self) -> int:
        return sum(len(one.accepted_path) for one in self.rounds)

    @property
    def longest_rejection(self) -> int:
        """The most drafted tokens that one round rolled back."""
        return max(len(one.tree) - len(one.accepted_path) for one in self.rounds)

    def rolled_back_over(self, size: int) -> int:
        """Rounds that wrote into the next block of ``size`` positions and kept nothing there."""
        found, pending = 0, self.prompt - 1
        for one in self.rounds:
            kept = pending + len(one.accepted_path)
            found += kept // size < (pending + len(one.tree)) // size
            pending += one.emitted
        return found


def answer(session: Session, request: Request, prepared: PreparedRequest | None = None) -> Answer:
    """What ``session`` says to ``request``. Raises AssertionError where it does not come to its end."""
    prompt = len(session.encode(request))
    events = list(session.run(request, lambda: False, prepared))
    last = events[-1]
    assert isinstance(last, Finished), last
    rounds = [event.round for event in events if isinstance(event, Emitted)]
    assert last.token_ids is not None
    return Answer(prompt, last.token_ids, tuple(one for one in rounds if one is not None))


def asked(
    prompt: str | Sequence[int], sampling: Sampling, speculation: Speculation, tokens: int
) -> Request:
    """``prompt`` as a message, or as it is where it is token ids; the reply has ``tokens``."""
    words = isinstance(prompt, str)
    return Request(
        messages=(Message("user", str(prompt)),) if words else (),
        token_ids=None if words else tuple(map(int, prompt)),
        sampling=sampling,
        speculation=speculation,
        max_tokens=tokens,
        ignore_eos=True,
    )


class Pair:
    """One model pair twice, for plain decoding and for speculation: they share no cache.

    ``compiled`` False: steps and choices are torch's, whether or not there are compiled ones.
    """

    def __init__(
        self,
        target: Path,
        draft: Path | None = None,
        dtype: str = "auto",
        heads: Sequence[Path] = (),
        compiled: bool = True,
    ) -> None:
        self.plain = open_session(target, dtype=dtype, native=compiled)
        self.speculative = open_session(target, draft, dtype=dtype, heads=heads, native=compiled)
        self._known: dict[object, tuple[int, ...]] = {}

    @property
    def proposers(self) -> tuple[str, ...]:
        """All but plain decoding, which they are compared with."""
        offered = proposers.available(self.speculative.resources.loaded)
        return tuple(name for name in offered if name != "none")

    def check(
        self,
        prompt: str | Sequence[int],
        sampling: Sampling,
        speculation: Speculation,
        tokens: int,
    ) -> Answer:
        """The reply with speculation. Raises AssertionError where plain decoding says other words."""
        key = (prompt if isinstance(prompt, str) else tuple(prompt), sampling, tokens)
        if key not in self._known:
            self._known[key] = answer(self.plain, asked(prompt, sampling, PLAIN, tokens)).tokens
            assert len(self._known[key]) == tokens
        found = answer(self.speculative, asked(prompt, sampling, speculation, tokens))
        assert found.tokens == self._known[key], (prompt, sampling, speculation)
        return found


def tree_options(name: str, nodes: int) -> dict[str, OptionValue]:
    """The option for trees of ``nodes``, where a proposer can draft them."""
    known = {field.name for field in fields(proposers.options_of(name))}
    return {"tree_nodes": nodes} if "tree_nodes" in known else {}


# -- rules that weigh q: not the same words, but the same distribution

AGAIN = "again and again and again and"
SEEDS = range(200)


def assert_distribution(session: Session, speculation: Speculation) -> None:
    """First tokens against p, and second tokens after the commonest first one, by chi-square.

    One in a million, as depths that follow times draw anew in each run.
    """
    sampling = Sampling(temperature=1.2, top_k=12)
    prompt = session.encode(asked(AGAIN, sampling, PLAIN, 3))
    replies = []
    for seed in SEEDS:
        request = asked(prompt, replace(sampling, seed=seed), speculation, 3)
        replies.append(answer(session, request).tokens)
    firsts = [each[0] for each in replies]
    assert chi_square_p(firsts, _distribution(session, prompt, sampling)) > 1e-6
    common, _ = Counter(firsts).most_common(1)[0]
    seconds = [each[1] for each in replies if each[0] == common]
    assert chi_square_p(seconds, _distribution(session, [*prompt, common], sampling)) > 1e-6


def _distribution(session: Session, tokens: list[int], sampling: Sampling) -> torch.Tensor:
    """The target's p after ``tokens``, straight from its logits: (vocabulary,)."""
    model = session.target.model
    logits = model.forward(tokens, model.new_state(len(tokens)), last=1)
    sampler = Sampler(sampling, AcceptanceRule.REJECTION, 0, Context(tokens), model.info.vocabulary)
    return sampler.probabilities(logits)[0].double()


def chi_square_p(tokens: list[int], p: torch.Tensor) -> float:
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
    return chi_square(observed, wanted) if len(wanted) > 1 else 1.0
