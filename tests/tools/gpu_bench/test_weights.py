"""Random weights that know one cycle of tokens, and sizes that are those of real models."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from tools.gpu_bench import engines, shapes
from tools.gpu_bench.shapes import REAL, REHEARSAL, choose
from tools.gpu_bench.weights import RandomWeights, TokenCycle

CPU = torch.device("cpu")
seeds = st.integers(0, 2**31)


@given(vocabulary=st.integers(2, 500), seed=seeds)
def test_all_tokens_stand_in_one_circle(vocabulary: int, seed: int) -> None:
    cycle = TokenCycle.random(vocabulary, seed)
    assert sorted(cycle.after(0, vocabulary)) == list(range(vocabulary))
    assert cycle.after(0, vocabulary)[-1] == 0
    assert torch.equal(cycle.before()[cycle.following], torch.arange(vocabulary))


@given(vocabulary=st.integers(50, 500), seed=seeds, right=st.sampled_from([0.5, 0.6, 0.8, 1.0]))
def test_a_mistaken_circle_is_right_at_its_share_of_all_tokens(
    vocabulary: int, seed: int, right: float
) -> None:
    cycle = TokenCycle.random(vocabulary, seed)
    mistaken = cycle.mistaken(right, seed).following
    assert sorted(mistaken.tolist()) == list(range(vocabulary))
    agree = int((mistaken == cycle.following).sum())
    assert agree == vocabulary - round((1 - right) * vocabulary)


def test_mistakes_are_scattered_along_the_circle() -> None:
    """With one seed for both, all of them stood together: drafts were right always, or never."""
    cycle = TokenCycle.random(10_000, 1)
    wrong = cycle.mistaken(0.8, 1).following != cycle.following
    along = wrong[torch.tensor(cycle.after(0, 10_000))]
    for part in along.split(1000):
        assert 0.15 < float(part.float().mean()) < 0.25


def test_the_same_name_gives_the_same_numbers() -> None:
    architecture = REHEARSAL[0].architecture
    cycle = TokenCycle.random(architecture.vocabulary, 0)
    first, again, other = (RandomWeights(architecture, cycle, seed, CPU) for seed in (0, 0, 1))
    name = "model.layers.0.self_attn.q_proj.weight"
    assert torch.equal(first(name), again(name))
    assert not torch.equal(first(name), other(name))
    assert not torch.equal(first(name), first(name.replace("q_proj", "o_proj")))
    with pytest.raises(KeyError):
        first("model.layers.9.self_attn.q_proj.weight")


@pytest.mark.parametrize("kind", engines.KINDS)
@pytest.mark.parametrize("sizes", REHEARSAL, ids=lambda sizes: sizes.name)
def test_a_model_says_the_circle_in_every_format(sizes: shapes.Sizes, kind: str) -> None:
    cycle = TokenCycle.random(sizes.shape.vocabulary, 3)
    model = engines.make(sizes, RandomWeights(sizes.architecture, cycle, 3, CPU), kind, 64)
    text = cycle.after(7, 40)
    logits = model.forward(text[:-1], model.new_state(64), last=39)
    assert logits.argmax(-1).tolist() == text[1:]


@pytest.mark.parametrize(
    ("name", "billions"),
    [("Llama-3.2-1B", 1.24), ("Llama-3.1-8B", 8.03), ("Qwen3-8B", 8.19), ("Qwen3-32B", 32.76)],
)
def test_sizes_are_those_of_the_real_models(name: str, billions: float) -> None:
    (sizes,) = choose([name], REAL)
    tied = sizes.shape.vocabulary * sizes.shape.hidden if name == "Llama-3.2-1B" else 0
    assert (sizes.parameters - tied) / 1e9 == pytest.approx(billions, abs=0.01)
    assert sizes.draft().parameters < 0.25 * sizes.parameters


def test_a_step_reads_all_but_the_embedding_and_the_cache() -> None:
    (sizes,) = choose(["llama-3.1-8b"], REAL)
    table = 128_256 * 4096
    assert sizes.read_bytes("bf16", 0) == 2 * (sizes.parameters - table)
    assert sizes.read_bytes("bf16", 10) - sizes.read_bytes("bf16", 0) == 10 * 131_072


def test_an_unknown_size_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidRequest, match=r"'gpt-5'; known here are Llama-3\.2-1B, "):
        choose(["gpt-5"], REAL)
