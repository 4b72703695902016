"""Whole rounds on a device or in Triton's interpreter, and the same by the torch rules."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from engine.decoding.acceptance import accept_matching, rejection_sample, verify_block
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.decoding.verifier import ancestries
from engine.events import Tree
from engine.kernels.cuda.sampling.acceptance import Rule, empty_result, read_result, verify
from engine.kernels.cuda.sampling.distribution import compute_distribution
from engine.kernels.cuda.sampling.state import SamplingState
from engine.noise import Stream, place_in_draft, uniform
from engine.values import RoundResult
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.kernels.cuda.where import DEVICE
from tests.support.sampling_references import (
    draw_reference,
    truncated_reference,
    weights_reference,
)

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 20, 4000]),
    top_p=st.sampled_from([1.0, 0.95, 0.5, 0.001]),
    min_p=st.sampled_from([0.0, 0.03, 0.9]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.6]),
    frequency_penalty=st.sampled_from([0.0, -0.3]),
)


@dataclass
class Bench:
    """The sampling state of one sequence on the device, and its text."""

    sampling: Sampling
    seed: int
    vocabulary: int
    prompt: list[int]
    output: list[int]
    bias: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        self.state = SamplingState.empty(self.vocabulary, DEVICE)
        self.state.begin(self.sampling, self.seed, self.text, len(self.prompt), self.bias)
        self.result = empty_result(DEVICE)

    @property
    def text(self) -> list[int]:
        return [*self.prompt, *self.output]

    def distribution(
        self,
        logits: Tensor,
        drafted: list[int] | Tree,
        allowed: Tensor | None = None,
        greedy: bool = False,
    ) -> Tensor:
        """Return the probabilities of rows after none and each of ``drafted``, a chain or a tree."""
        tree, branches = tree_of(drafted), isinstance(drafted, Tree)
        self.state.put(tree.tokens, tree.row_parents if branches else None)
        out = torch.zeros(len(logits), self.vocabulary, device=DEVICE)
        bits = None if allowed is None else packed(allowed).to(DEVICE)
        compute_distribution(
            logits.to(DEVICE), self.state, out,
            allowed=bits, greedy=greedy,
            adjusts=self.sampling.penalises or bool(self.bias), truncates=self.sampling.truncates,
            tree=branches,
        )  # fmt: skip
        return out

    def expected(
        self, logits: Tensor, drafted: list[int] | Tree, allowed: Tensor | None = None
    ) -> Tensor:
        """Compute the same in torch, with the penalties of the engine's sampler."""
        adjusted = self.adjusted(logits, drafted)
        if allowed is not None:
            adjusted = torch.where(allowed, adjusted, -torch.inf)
        weights = weights_reference(adjusted / self.sampling.temperature)
        kept = truncated_reference(weights, self.sampling)
        return kept / kept.long().sum(-1, keepdim=True)

    def adjusted(self, logits: Tensor, drafted: list[int] | Tree) -> Tensor:
        before = ancestries(tree_of(drafted))[: len(logits)]
        return self.sampler().adjusted(logits.float(), before)

    def sampler(self) -> Sampler:
        context = Context(self.prompt)
        context.tokens += self.output
        return Sampler(
            self.sampling,
            AcceptanceRule.COUPLED,
            self.seed,
            context,
            self.vocabulary,
            bias=self.bias,
        )

    def verify(
        self, p: Tensor, q: Tensor | None, rule: Rule, depth: int, tree: bool = False
    ) -> RoundResult:
        verify(p, q, self.state, self.result, rule=rule, depth=depth, tree=tree)
        return read_result(self.result.cpu(), depth)

    def expected_tokens(
        self, p: Tensor, q: Tensor | None, drafted: list[int] | Tree, rule: Rule
    ) -> tuple[int, ...]:
        """Return the tokens that ``engine.decoding.acceptance`` emits with the kernels' noise."""
        position, tree = len(self.text), tree_of(drafted)

        def draw(weights: Tensor, row: int, is_residual: bool) -> int:
            stream = Stream.RESIDUAL if is_residual else Stream.CHOICE
            return draw_reference(weights, self.seed, stream, position + row)

        if rule is Rule.GREEDY:
            verdict = accept_matching(p.argmax(-1).tolist(), tree)
        elif rule is Rule.COUPLED:
            pairs = zip(p, (0, *tree.depths), strict=True)
            verdict = accept_matching([draw(row, depth, False) for row, depth in pairs], tree)
        else:
            judge_chain = verify_block if rule is Rule.BLOCK else rejection_sample

            def coin(node: int) -> float:
                return uniform(self.seed, Stream.ACCEPT, place_in_draft(position, node))

            verdict = judge_chain(p, q, tree, coin, draw)
        return (*(tree.tokens[node] for node in verdict.path), verdict.next_token)


def tree_of(drafted: list[int] | Tree) -> Tree:
    return drafted if isinstance(drafted, Tree) else Tree.chain(drafted)


def packed(allowed: Tensor) -> Tensor:
    """Pack a mask (rows, vocabulary) as a grammar does: a bit for each token, lowest first."""
    rows, vocabulary = allowed.shape
    bits = torch.zeros(rows, -(-vocabulary // 32) * 32, dtype=torch.long)
    bits[:, :vocabulary] = allowed
    words = (bits.view(rows, -1, 32) << torch.arange(32)).sum(-1)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).int()


def logits_like(kind: str, rows: int, vocabulary: int, seed: int) -> Tensor:
    """Return ordinary, tied, flat, extreme or mostly impossible logits: (rows, vocabulary)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, vocabulary, generator=generator)
    if kind == "tied":
        return (2 * x).round() / 2
    if kind == "flat":
        return x * 1e-6
    if kind == "extreme":
        return x.sign() * torch.exp(8 * x.abs()).clamp_max(1e30)
    if kind == "impossible":
        mostly = torch.where(x.abs() < 1.2, -torch.inf, x)
        mostly[:, seed % vocabulary] = 0.5
        return mostly
    return 3 * x
