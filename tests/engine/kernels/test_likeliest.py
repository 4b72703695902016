"""The compiled step's reading of logits beside torch's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.context import Context
from engine.events import Tree
from engine.judge import Judge, Judgement
from engine.kernels.native import library as native
from engine.kernels.native import likeliest
from engine.proposers.base import DraftProposal
from engine.request import AcceptanceRule, Sampling
from engine.sampling import Sampler


@pytest.fixture(scope="module")
def library() -> native.Library:
    found = native.ready()
    if found is None:
        pytest.skip("no compiled step: no C++ compiler, or it is turned off")
    return found


@given(
    rows=st.integers(1, 16),
    width=st.integers(1, 200),
    extra=st.integers(0, 20),
    seed=st.integers(0, 999),
)
def test_tokens_and_chances_are_torchs(
    library: native.Library, rows: int, width: int, extra: int, seed: int
) -> None:
    """Also where the rows are part of wider ones, and where ties and impossible tokens are among them."""
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randn(rows, width + extra, generator=generator).mul(4).round()  # many ties
    whole[torch.rand(whole.shape, generator=generator) < 0.2] = float("-inf")
    whole[:, 0] = 1.0
    logits = whole[:, :width]
    found = likeliest.of(library, logits)
    assert found.tokens == logits.argmax(-1).tolist()
    places = [(row, (seed + 7 * row) % width) for row in range(rows)]
    expected = torch.softmax(logits.double(), -1)
    for (row, token), chance in zip(places, found.chances(places), strict=True):
        assert chance == pytest.approx(float(expected[row, token]), rel=1e-5, abs=1e-12)


def test_a_row_reads_the_same_beside_others(library: native.Library) -> None:
    logits = torch.randn(16, 4099, generator=torch.Generator().manual_seed(1))
    together = likeliest.of(library, logits)
    for row in range(16):
        alone = likeliest.of(library, logits[row : row + 1])
        assert alone.tokens == together.tokens[row : row + 1]
        assert alone.chances([(0, 5)]) == together.chances([(row, 5)])


def test_rows_without_a_number_and_tokens_beyond_the_logits_have_no_chance(
    library: native.Library,
) -> None:
    logits = torch.full((2, 40), float("-inf"))
    logits[1, 3] = 0.0
    found = likeliest.of(library, logits)
    assert found.tokens == [0, 3]
    assert found.chances([(0, 0), (1, 3), (1, 4), (1, 40)]) == [0.0, 1.0, 0.0, 0.0]


def judged(tokens: tuple[int, ...], logits: torch.Tensor, *, compiled: bool) -> Judgement:
    context = Context([1, 2, 3])
    sampler = Sampler(Sampling(temperature=0), AcceptanceRule.GREEDY, 1, context, logits.shape[1])
    judge = Judge(sampler)
    if not compiled:
        judge._library = None
    tree = Tree.chain(tokens)
    return judge(logits, DraftProposal(tree, None, (None,) * len(tokens)), context)


@given(seed=st.integers(0, 999), right=st.integers(0, 5))
def test_a_round_is_judged_as_with_torch(library: native.Library, seed: int, right: int) -> None:
    logits = torch.randn(6, 300, generator=torch.Generator().manual_seed(seed))
    best = logits.argmax(-1).tolist()
    tokens = tuple(best[:right] + [(token + 1) % 300 for token in best[right:5]])
    quick, plain = (judged(tokens, logits, compiled=compiled) for compiled in (True, False))
    assert quick.acceptance == plain.acceptance
    assert len(quick.acceptance.path) == right
    assert quick.next_p == pytest.approx(plain.next_p, rel=1e-5)
    assert [p is None for p in quick.p] == [p is None for p in plain.p]
    assert [p for p in quick.p if p] == pytest.approx([p for p in plain.p if p], rel=1e-5)
