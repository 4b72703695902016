"""Try sampling and acceptance: random rounds on the GPU, beside the host's rules with the same noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.backends.cuda.trial.findings import Comparison
from engine.backends.cuda.trial.rounds import HostRules, RoundCase
from engine.events import Tree
from engine.kernels.cuda.sampling import branches
from engine.kernels.cuda.sampling.acceptance import (
    Rule,
    draft,
    empty_result,
    read_result,
    verify,
)
from engine.kernels.cuda.sampling.distribution import compute_distribution
from engine.kernels.cuda.sampling.state import SamplingState
from engine.kernels.cuda.trees import tree_table
from engine.values import MAX_DEPTH, RoundResult
from engine.values.sampling import AcceptanceRule, Sampling

_ROUNDS = ((48, 500), (4096, 50))
"""Tokens of a vocabulary, and rounds of each rule with it. The model's own follows, which costs the host
more. What divides it divides these too: Triton compiles other code for multiples of 16."""
_OWN_ROUNDS = 3
_LEVELS = 4
"""Steps from which a tree is drafted."""
_INTERPRETED = 6
"""Rounds where kernels are interpreted."""
_MOST_APART = 0.002
"""Most rounds, of all, that may end otherwise: the noise is in float32 here, so of two tokens within 3e-7
of one another the other may be drawn; and a cut may leave out another token."""
_SAMPLINGS = (
    Sampling(temperature=1.0),
    Sampling(temperature=0.7, top_p=0.9),
    Sampling(temperature=1.3, top_k=20, repetition_penalty=1.2),
    Sampling(temperature=0.9, min_p=0.05, presence_penalty=0.5, frequency_penalty=0.2),
)


@dataclass(frozen=True, slots=True)
class SamplingCase:
    """All rounds of one rule."""

    rule: AcceptanceRule
    vocabulary: int
    device: torch.device
    host: HostRules

    @property
    def shape(self) -> str:
        return f"{self.rule}, {self.vocabulary} tokens"

    def check(self, comparison: Comparison) -> Callable[[], object]:
        """See ``try_kernel``."""
        rounds = apart = 0
        for case in self._cases():
            logits, drafted_by = _logits(case, self.device)
            bench = _Bench(case, self.device)
            q = None if drafted_by is None else bench.distribution(drafted_by)
            p = bench.distribution(logits)
            result = bench.verify(p, q)
            near_p = self.host.probabilities(case, logits.cpu())
            expected = self.host.tokens(case, logits.cpu(), p.cpu(), None if q is None else q.cpu())
            distance = float((p.cpu() - near_p).abs().sum(-1).amax())
            comparison.error = max(comparison.error, distance if distance < 1e-3 else 0.0)
            rounds += 1
            apart += result.tokens != expected or not distance < 1e-3
            if not bench.advanced(result):
                comparison.fault("the text's counts are wrong after a round")
            if bench.branches and not bench.drafts_tree(p, self.host):
                comparison.fault("a tree is drafted otherwise than by the host's rules")
        if apart > _MOST_APART * rounds:
            comparison.fault(f"{apart} of {rounds} rounds end otherwise than by the host's rules")
        return lambda: bench.verify(p, q)

    def _cases(self) -> Iterator[RoundCase]:
        sizes = [(size + self.vocabulary % 16, count) for size, count in _ROUNDS]
        if self.device.type == "cpu":
            sizes = [(size, min(count, _INTERPRETED)) for size, count in sizes[:1]]
        for vocabulary, count in (*sizes, (self.vocabulary, _OWN_ROUNDS)):
            draw = torch.Generator().manual_seed(vocabulary)
            for number in range(count):
                yield _case(self.rule, vocabulary, number, draw)


def _case(rule: AcceptanceRule, vocabulary: int, number: int, draw: torch.Generator) -> RoundCase:
    def tokens(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(vocabulary, (count,), generator=draw).tolist())

    def below(most: int) -> int:
        return int(torch.randint(most, (), generator=draw))

    sampling = _SAMPLINGS[number % len(_SAMPLINGS)]
    if rule is AcceptanceRule.GREEDY:
        sampling = replace(sampling, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0)
    seed = (below(2**62) << 2) - 2**63 + number
    prompt, output = tokens(1 + below(4)), tokens(below(4))
    tree = Tree.chain(tokens(below(MAX_DEPTH + 1)))
    if number % 2 and not rule.weighs_q:
        tree = Tree(
            tree.tokens, tuple(node - 1 - below(min(node + 1, 3)) for node in range(len(tree)))
        )
    return RoundCase(vocabulary, rule, sampling, seed, prompt, output, tree)


def _logits(case: RoundCase, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Return the target's logits (nodes + 1, vocabulary), and a draft's (nodes, vocabulary) for every
    other round of a rule that weighs q. Both often prefer the drafted tokens."""
    draw, depth = torch.Generator().manual_seed(case.seed % 2**32), len(case.tree)
    x = 2 * torch.randn(depth + 1, case.vocabulary, generator=draw)
    if case.seed % 3 == 0:
        x = x.round()  # ties
    rows = [parent + 1 for parent in case.tree.parents]
    x[rows, list(case.tree.tokens)] = x.amax(-1)[rows] + torch.randn(depth, generator=draw) + 1
    if not (case.rule.weighs_q and depth and case.seed % 2):
        return x.to(device), None
    near = x[:depth] + 0.5 * torch.randn(depth, case.vocabulary, generator=draw)
    return x.to(device), near.to(device)


class _Bench:
    """One round on the device."""

    def __init__(self, case: RoundCase, device: torch.device) -> None:
        self.case, self.device = case, device
        self.state = SamplingState.empty(case.vocabulary, device)
        self.state.begin(case.sampling, case.seed, self._text(()), len(case.prompt))
        self.branches = not case.tree.is_chain
        self.state.put(case.tree.tokens, case.tree.row_parents if self.branches else None)
        self.result = empty_result(device)

    def distribution(self, logits: Tensor) -> Tensor:
        sampling = self.case.sampling
        p = torch.zeros(logits.shape, device=self.device)
        compute_distribution(
            logits, self.state, p, greedy=self.case.rule is AcceptanceRule.GREEDY,
            adjusts=sampling.penalises, truncates=sampling.truncates, tree=self.branches,
        )  # fmt: skip
        return p

    def verify(self, p: Tensor, q: Tensor | None) -> RoundResult:
        nodes, rule = len(self.case.tree), Rule[self.case.rule.name]
        verify(p, q, self.state, self.result, rule=rule, depth=nodes, tree=self.branches)
        return read_result(self.result.cpu(), nodes)

    def drafts_tree(self, q: Tensor, host: HostRules) -> bool:
        """Return whether rows of ``q`` give the host's tree, and first what a chain would have."""
        nodes, rule, ranked = len(self.case.tree), Rule[self.case.rule.name], []
        for index, row in enumerate(q[:_LEVELS].split(1)):
            ranked.append(branches.rank(row, self.state, rule=rule, index=index, count=nodes))
            if rule is Rule.COUPLED:
                draft(row, self.state, rule=rule, index=index)
                if not torch.equal(self.state.drafted[index], ranked[-1][0][0].int()):
                    return False
        levels = [(tokens.tolist(), p.tolist()) for tokens, p in ranked]
        for spread in (False, True):
            branches.grow(ranked, self.state, nodes, spread=spread)
            tree = host.tree(levels, nodes, spread=spread)
            rows, right = len(tree) + 1, tree_table(tree.row_parents)
            same = self.state.drafted[: len(tree)].tolist() == list(tree.tokens)
            for part in (slice(1), slice(1, rows + 1)):
                same &= torch.equal(self.state.tree[part, :rows].cpu(), right[part, :rows])
            if not same:
                return False
        return True

    def advanced(self, result: RoundResult) -> bool:
        """Return whether the state is that of the text with the round's tokens, and has a tree's path."""
        if self.branches:
            path = self.case.tree.path_of(result.tokens[:-1])
            rows = [0, *(node + 1 for node in path)]
            if self.state.accepted_rows[: len(rows)].tolist() != rows:
                return False
        after = SamplingState.empty(self.case.vocabulary, self.device)
        text = self._text(result.tokens)
        after.begin(self.case.sampling, self.case.seed, text, len(self.case.prompt))
        return torch.equal(after.seed_and_length, self.state.seed_and_length) and torch.equal(
            after.token_counts, self.state.token_counts
        )

    def _text(self, more: tuple[int, ...]) -> list[int]:
        return [*self.case.prompt, *self.case.output, *more]


def sampling_cases(vocabulary: int, device: torch.device, host: HostRules) -> list[SamplingCase]:
    """Return a case for each rule."""
    rules = [AcceptanceRule[rule.name] for rule in Rule]
    return [SamplingCase(rule, vocabulary, device, host) for rule in rules]
