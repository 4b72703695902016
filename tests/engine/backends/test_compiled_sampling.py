"""The compiled step's reading of logits beside torch's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.native import sampling
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler, truncated
from engine.decoding.verifier import Verifier, VerifierOutput
from engine.errors import ModelError
from engine.events import Tree
from engine.kernels.native.library import Library
from engine.noise import Draws, Stream, exponential, key
from engine.values.sampling import AcceptanceRule, Sampling

CUTS: tuple[dict[str, Any], ...] = (
    {},
    {"top_k": 5},
    {"top_p": 0.9},
    {"min_p": 0.1},
    {"top_k": 20, "top_p": 0.7, "min_p": 0.02},
)


@given(width=st.integers(1, 700), count=st.integers(1, 4), seed=st.integers(0, 999))
def test_the_first_places_are_those_of_the_largest_and_first_among_equals(
    library: Library, width: int, count: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    row = torch.randn(width, generator=generator).mul(4).round()  # many ties
    row[torch.rand(width, generator=generator) < 0.3] = float("-inf")
    expected = row.argsort(descending=True, stable=True).tolist()
    possible = [place for place in expected if row[place] > float("-inf")]
    assert sampling.top_indices(library, row, count) == possible[:count]


@given(
    rows=st.integers(1, 16),
    width=st.integers(1, 200),
    extra=st.integers(0, 20),
    seed=st.integers(0, 999),
)
def test_tokens_and_chances_are_torchs(
    library: Library, rows: int, width: int, extra: int, seed: int
) -> None:
    """Also where the rows are part of wider ones, and where ties and impossible tokens are among them."""
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randn(rows, width + extra, generator=generator).mul(4).round()  # many ties
    whole[torch.rand(whole.shape, generator=generator) < 0.2] = float("-inf")
    whole[:, 0] = 1.0
    logits = whole[:, :width]
    found = sampling.sample(library, logits, None)
    assert found.tokens == logits.argmax(-1).tolist()
    places = [(row, (seed + 7 * row) % width) for row in range(rows)]
    expected = torch.softmax(logits.double(), -1)
    for (row, token), chance in zip(places, found.probabilities(places), strict=True):
        assert chance == pytest.approx(float(expected[row, token]), rel=1e-5, abs=1e-12)


def test_a_row_reads_the_same_beside_others(library: Library) -> None:
    logits = torch.randn(16, 4099, generator=torch.Generator().manual_seed(1))
    together = sampling.sample(library, logits, None)
    for row in range(16):
        alone = sampling.sample(library, logits[row : row + 1], None)
        assert alone.tokens == together.tokens[row : row + 1]
        assert alone.probabilities([(0, 5)]) == together.probabilities([(row, 5)])


def test_rows_without_a_number_and_tokens_beyond_the_logits_have_no_chance(
    library: Library,
) -> None:
    logits = torch.full((2, 40), float("-inf"))
    logits[1, 3] = 0.0
    found = sampling.sample(library, logits, None)
    assert found.tokens == [0, 3]
    assert found.probabilities([(0, 0), (1, 3), (1, 4), (1, 40)]) == [0.0, 1.0, 0.0, 0.0]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 16),
    width=st.integers(1, 300),
    extra=st.integers(0, 20),
    temperature=st.floats(0.05, 5.0),
    seed=st.integers(0, 2**64 - 1),
    cut=st.sampled_from(CUTS),
)
def test_tokens_are_drawn_as_from_a_softmax(
    library: Library,
    rows: int,
    width: int,
    extra: int,
    temperature: float,
    seed: int,
    cut: dict[str, Any],
) -> None:
    generator = torch.Generator().manual_seed(seed & 0xFFFF)
    whole = torch.randn(rows, width + extra, generator=generator) * 3
    whole[torch.rand(whole.shape, generator=generator) < 0.2] = float("-inf")
    whole[:, 0] = 0.5
    logits = whole[:, :width]
    keys = tuple(key(seed, Stream.CHOICE, position) for position in range(rows))
    values = Sampling(temperature=temperature, **cut)
    found = sampling.sample(library, logits, Draws(values, keys))
    expected = truncated(torch.softmax(logits.double() / temperature, -1), values)
    # Two that finish together to the last bits may change places: the winner is as good as first.
    times = exponential(seed, Stream.CHOICE, range(rows), width) / expected
    for row, token in enumerate(found.tokens):
        assert times[row, token] <= times[row].min() * (1 + 1e-4)
    places = list(enumerate(found.tokens))
    places += [(row, token) for row in range(rows) for token in range(width)]
    exact = [float(expected[place]) for place in places]
    assert found.probabilities(places) == pytest.approx(exact, rel=1e-4)
    for row in range(rows):
        top = [p for _, p in found.top_tokens(row, 5)]
        kept = expected[row][expected[row] > 0]
        assert top == pytest.approx(kept.topk(min(5, len(kept))).values.tolist(), rel=1e-4)


def test_a_row_is_drawn_the_same_beside_others(library: Library) -> None:
    logits = torch.randn(16, 4099, generator=torch.Generator().manual_seed(1))
    keys = tuple(range(16))
    values = Sampling(temperature=0.8, top_p=0.95)
    together = sampling.sample(library, logits, Draws(values, keys))
    for row in range(16):
        draws = Draws(values, keys[row : row + 1])
        alone = sampling.sample(library, logits[row : row + 1], draws)
        assert alone.tokens == together.tokens[row : row + 1]
        assert alone.probabilities([(0, 5)]) == together.probabilities([(row, 5)])


def test_nothing_is_drawn_where_no_logit_is_a_number(library: Library) -> None:
    logits = torch.full((2, 40), float("-inf"))
    logits[1, 39] = 0.0
    found = sampling.sample(library, logits, Draws(Sampling(temperature=1.0), (1, 2)))
    assert found.tokens == [0, 39]
    assert found.probabilities([(0, 0), (1, 39), (1, 4), (1, 40)]) == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("rule", "cut"),
    [
        (AcceptanceRule.COUPLED, {"repetition_penalty": 1.2}),
        (AcceptanceRule.GREEDY, {"presence_penalty": 0.5}),
        (AcceptanceRule.REJECTION, {}),
        (AcceptanceRule.BLOCK, {}),
    ],
)
def test_what_takes_more_than_the_logits_is_left_to_the_rest(
    library: Library, rule: AcceptanceRule, cut: dict[str, float]
) -> None:
    logits = torch.randn(2, 40)
    sampling = Sampling(temperature=0.7, **cut)  # type: ignore[arg-type]
    sampler = Sampler(sampling, rule, 1, Context([1]), 40)
    assert sampler.sample_raw(logits, (3, 4), Stream.CHOICE) is None
    for each in CUTS:
        free = Sampler(
            Sampling(temperature=0.7, **each), AcceptanceRule.COUPLED, 1, Context([1]), 40
        )
        assert free.sample_raw(logits, (3, 4), Stream.CHOICE) is not None
    assert free.sample_raw(logits.double(), (3, 4), Stream.CHOICE) is None


def judged(tokens: tuple[int, ...], logits: torch.Tensor, *, compiled: bool) -> VerifierOutput:
    context = Context([1, 2, 3])
    sampler = Sampler(Sampling(temperature=0), AcceptanceRule.GREEDY, 1, context, logits.shape[1])
    judge = Verifier(sampler)
    if not compiled:
        sampler._library = None
    tree = Tree.chain(tokens)
    return judge(logits, DraftProposal(tree, None, (None,) * len(tokens)), context)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_row_without_numbers_fails_by_name(library: Library, compiled: bool, row: int) -> None:
    """The compiled step took the first token of such a row, at a probability of 0."""
    logits = torch.full((3, 40), -1.0)
    logits[:, 0] = 1.0
    assert judged((0, 0), logits, compiled=compiled).acceptance.path == (0, 1)
    logits[row] = math.nan
    with pytest.raises(ModelError, match="NaN"):
        judged((0, 0), logits, compiled=compiled)


@given(seed=st.integers(0, 999), right=st.integers(0, 5))
def test_a_round_is_judged_as_with_torch(library: Library, seed: int, right: int) -> None:
    logits = torch.randn(6, 300, generator=torch.Generator().manual_seed(seed))
    best = logits.argmax(-1).tolist()
    tokens = tuple(best[:right] + [(token + 1) % 300 for token in best[right:5]])
    quick, plain = (judged(tokens, logits, compiled=compiled) for compiled in (True, False))
    assert quick.acceptance == plain.acceptance
    assert len(quick.acceptance.path) == right
    assert quick.next_p == pytest.approx(plain.next_p, rel=1e-5)
    assert [p is None for p in quick.p] == [p is None for p in plain.p]
    assert [p for p in quick.p if p] == pytest.approx([p for p in plain.p if p], rel=1e-5)
