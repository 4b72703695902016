"""Operations of traced programs against torch, on one thread and on several."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.backends.native import build
from engine.decoding.sampling import truncated
from engine.kernels.native import structures
from engine.kernels.native.library import Kind, Library, Matrix
from engine.kernels.native.program import (
    Attention,
    LayerCache,
    Program,
    ProgramTracer,
    Sees,
    Unsupported,
)
from engine.kernels.native.structures import Draws
from engine.kernels.operands import Number, Rows, Tokens
from engine.kernels.torch.linear import Biased, make_linear
from engine.noise import Stream, key, sample
from engine.values.sampling import Sampling


@pytest.fixture(scope="module", params=[1, 3], ids=["one thread", "three"])
def threads(request: pytest.FixtureRequest, library: Library) -> Library:
    """The compiled step on one thread and on three."""
    return Library(Path(build.build()), request.param)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def tokens_of(*ids: int) -> Tokens:
    tokens = Tokens(len(ids))
    tokens[:] = ids
    return tokens


def given(recorder: ProgramTracer, values: Tensor, count: Number | None = None) -> Tensor:
    """Return rows that hold ``values`` when the program runs; ``count``: their number, if not all."""
    rows = Rows(count or Number(len(values)), Number(), most=len(values))
    return recorder.take(values, rows)


def run(recorder: ProgramTracer) -> None:
    Program(recorder).run(0, len(recorder))


def close(found: Tensor, expected: Tensor) -> None:
    assert torch.allclose(found, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_tables_are_read_as_they_are_stored(dtype: torch.dtype, threads: Library) -> None:
    table = draw(40, 32).to(dtype)
    table[7, :4] = torch.tensor([0.0, -0.0, 3e-7, 60000.0])  # a half of 3e-7 is subnormal
    recorder, rows = ProgramTracer(threads), Rows(Number(5), Number(4), 1, most=5)
    tokens = tokens_of(39, 7, 0, 3, 3, 7)
    taken, looked_up = recorder.take(table, rows), recorder.embed(table, tokens, 1, rows)
    run(recorder)
    assert torch.equal(taken, table[5:10].float())
    assert torch.equal(looked_up, table[[7, 0, 3, 3, 7]].float())


def test_rows_of_a_matrix_are_looked_up(threads: Library) -> None:
    matrix = Matrix(threads, Kind.BF16, draw(21, 48))
    recorder, rows = ProgramTracer(), Rows(Number(2), Number(), most=2)
    found = recorder.embed(matrix, tokens_of(20, 3), 0, rows)
    run(recorder)
    assert torch.equal(found, matrix.rows([20, 3]))


@pytest.mark.parametrize("count", [1, 4, 16, 37])
def test_matmuls_take_any_number_of_rows_and_a_bias(count: int, threads: Library) -> None:
    weight, bias, x = draw(50, 32), draw(50, seed=1), draw(count, 32, seed=2)
    matrix = Matrix(threads, Kind.FP32, weight)
    recorder = ProgramTracer()
    plain = recorder.linear(matrix, given(recorder, x))
    biased = recorder.linear(Biased(matrix, bias), given(recorder, x))
    first = recorder.linear(matrix, given(recorder, x), Number(1))
    run(recorder)
    assert torch.equal(plain, matrix(x))
    assert torch.equal(biased, matrix(x) + bias)
    assert torch.equal(first[:1], plain[:1]) and not first[1:].any()


@pytest.mark.parametrize("count", [1, 5])
def test_norms_have_weights_and_shifts_or_none(count: int, threads: Library) -> None:
    x, weight, bias = draw(count, 48) * 3, draw(48, seed=1), draw(48, seed=2)
    recorder = ProgramTracer(threads)
    rows = given(recorder, x)
    bare = recorder.norm(rows, 1e-6, scale=0.5)
    whole = recorder.norm(rows, 1e-2, weight=weight, bias=bias)
    run(recorder)
    close(bare, 0.5 * F.rms_norm(x, (48,), None, 1e-6))
    close(whole, F.rms_norm(x, (48,), weight, 1e-2) + bias)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("width", [32, 1050], ids=["by rows", "by columns"])
def test_numbers_are_activated_gated_added_and_capped(
    name: str, width: int, threads: Library
) -> None:
    x, y = 4 * draw(3, width), draw(3, width, seed=1)
    recorder, count = ProgramTracer(threads), Number(3)
    rows, other = given(recorder, x, count), given(recorder, y, count)
    alone, gated = recorder.activate(name, rows), recorder.activate(name, rows, times=other)
    added, capped = recorder.add(rows, other, -2.5), recorder.cap(rows, 3.0)
    run(recorder)
    close(alone, FUNCTIONS[name](x))
    close(gated, FUNCTIONS[name](x) * y)
    close(added, x - 2.5 * y)
    close(capped, 3 * torch.tanh(x / 3))


def test_rows_are_joined_parted_and_picked(threads: Library) -> None:
    """And a narrow row is added to each part of a wide one."""
    x, y = draw(3, 32), draw(3, 16, seed=1)
    recorder, count = ProgramTracer(threads), Number(2)
    joined = recorder.join(given(recorder, x, count), given(recorder, y, count))
    picked = recorder.pick(joined, Number(1))
    narrow = recorder.embed(y, tokens_of(2))
    added = recorder.add(picked, narrow, 2.0)
    run(recorder)
    assert torch.equal(joined[:2], torch.cat([x, y], dim=1)[:2])
    assert not joined[2:].any()
    assert torch.equal(picked, joined[1:2])
    close(added, picked + 2 * y[2:].repeat(1, 3))


@pytest.mark.parametrize("vocabulary", [1, 9, 37, 640])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_the_first_of_the_likeliest_is_named(
    vocabulary: int, place: float, threads: Library
) -> None:
    logits = draw(1, vocabulary)
    high = int(place * (vocabulary - 1))
    logits[0, high:] = logits.max() + 1
    numbers = torch.randperm(vocabulary, generator=torch.Generator().manual_seed(1))
    recorder, tokens, likely = ProgramTracer(threads), Tokens(3), (c.c_float * 2)()
    row = given(recorder, logits)
    recorder.sample(row, tokens, likely, 0)
    recorder.sample(row, tokens, likely, 1, numbers)
    run(recorder)
    assert tokens[:] == [0, high, int(numbers[high])]
    p = float(torch.softmax(logits, dim=1)[0, high])
    assert list(likely) == pytest.approx([p, p], rel=1e-5)


KEYS = (c.c_uint64 * 40)(*(key(5, Stream.CHOICE, position) for position in range(40)))


@pytest.mark.parametrize("vocabulary", [1, 9, 37, 640])
@pytest.mark.parametrize("called", [False, True], ids=["counted", "called otherwise"])
@pytest.mark.parametrize("cut", [{}, {"top_p": 0.9}, {"top_k": 3, "min_p": 0.05}])
def test_a_drawn_token_is_the_noises(
    vocabulary: int, called: bool, cut: dict[str, Any], threads: Library
) -> None:
    """As if tokens of the target that the draft lacks took part with probability 0."""
    values, count = Sampling(temperature=0.8, **cut), len(KEYS)
    wide = 3 * vocabulary if called else vocabulary
    numbers = torch.randperm(wide, generator=torch.Generator().manual_seed(1))[:vocabulary]
    names = numbers if called else torch.arange(vocabulary)
    recorder, tokens, likely = (
        ProgramTracer(threads),
        Tokens(count + 1),
        (c.c_float * count)(),
    )
    draws = Draws(c.addressof(KEYS), structures.Sampling.of(values))
    rows = 2 * draw(count, vocabulary)
    for at, row in enumerate(rows.split(1)):
        recorder.sample(
            given(recorder, row), tokens, likely, at, numbers if called else None, draws
        )
    run(recorder)
    p = torch.zeros(count, wide)
    p[:, names] = truncated(torch.softmax(rows / values.temperature, dim=1), values)
    expected = sample(p, 5, Stream.CHOICE, range(count)).tolist()
    assert tokens[1:] == expected
    assert list(likely) == pytest.approx(p[range(count), expected].tolist(), rel=1e-5)
    draws.keys = None  # from now on the likeliest
    run(recorder)
    assert tokens[1:] == names[rows.argmax(dim=1)].tolist()


@pytest.mark.parametrize("keys", [None, KEYS], ids=["likeliest", "drawn"])
def test_logits_that_are_no_numbers_name_a_token(
    keys: c.Array[c.c_uint64] | None, threads: Library
) -> None:
    recorder, tokens, likely = ProgramTracer(threads), Tokens(2), (c.c_float * 1)()
    sampling = structures.Sampling.of(Sampling(temperature=1.0, top_p=0.9))
    draws = Draws(None if keys is None else c.addressof(keys), sampling)
    recorder.sample(given(recorder, torch.full((1, 70), torch.nan)), tokens, likely, 0, draws=draws)
    run(recorder)
    assert 0 <= tokens[1] < 70


def rotated(x: Tensor, rope: Tensor) -> Tensor:
    """Return x (rows, heads, head_dim) rotated by rope (rows, head_dim / 2, 2)."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.view_as_complex(rope)[:, None]).flatten(2)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize(("rows", "groups"), [(1, 2), (5, 3), (18, 1)])
def test_attention_is_that_of_torch(
    causal: bool, normed: bool, rows: int, groups: int, threads: Library
) -> None:
    kv_heads, width, before, room = 2, 32, 21, 64
    heads, end = kv_heads * groups, before + rows
    angles = torch.arange(room)[:, None] * torch.linspace(0.9, 0.1, width // 2)
    rope = torch.stack([angles.cos(), angles.sin()], dim=2)
    keys, values = (draw(end, kv_heads * width, seed=seed) for seed in (1, 2))
    queries = draw(rows, heads * width, seed=3)
    weights = (1 + 0.1 * draw(heads, width), 1 + 0.1 * draw(kv_heads, width))
    ours, theirs = weights if normed else (None, None)

    recorder, cache = ProgramTracer(threads), LayerCache()
    text = Rows(Number(end), Number(), most=end)
    last = Rows(Number(rows), Number(before - 1), 1, most=rows)
    held = torch.zeros(kv_heads, room // 16, width, 16), torch.zeros(kv_heads, room, width)
    cache.move(*held, rope)
    shape = Attention(cache, heads, kv_heads, 1e-5)
    recorder.store_kv(given(recorder, keys), given(recorder, values), shape, theirs, text)
    sees = Sees.CAUSAL if causal else Sees.STEP
    result = recorder.attention(given(recorder, queries), shape, ours, last, sees, None)
    run(recorder)

    def normal(x: Tensor, weight: Tensor | None, count: int) -> Tensor:
        by_head = x.view(len(x), count, width)
        return by_head if weight is None else F.rms_norm(by_head, (width,), None, 1e-5) * weight

    key = rotated(normal(keys, theirs, kv_heads), rope[:end]).repeat_interleave(groups, dim=1)
    value = values.view(end, kv_heads, width).repeat_interleave(groups, dim=1)
    query = rotated(normal(queries, ours, heads), rope[before:end])
    scores = torch.einsum("qhd,khd->hqk", query, key)
    if causal:
        scores += torch.full((rows, end), -torch.inf).triu(before + 1)
    expected = torch.einsum("hqk,khd->qhd", torch.softmax(scores, dim=2), value).flatten(1)
    assert torch.allclose(result, expected, atol=2e-5)


def test_a_part_of_a_program_goes_on_where_another_ended(threads: Library) -> None:
    """Each step adds the row of the token that the step before sampled."""
    table = draw(30, 32).contiguous()
    matrix = Matrix(threads, Kind.FP32, table)
    recorder, tokens, likely = ProgramTracer(threads), Tokens(6), (c.c_float * 5)()
    x, ends = given(recorder, torch.zeros(1, 32)), [0]
    for step in range(5):
        x = recorder.norm(recorder.add(x, recorder.embed(table, tokens, step)), 1e-6)
        recorder.sample(recorder.linear(matrix, x), tokens, likely, step)
        ends.append(len(recorder))
    program = Program(recorder)
    tokens[0] = 4
    program.run(0, len(recorder))
    at_once = tokens[:]
    tokens[1:] = [0] * 5
    for first, end in pairwise(ends):
        program.run(first, end)
    assert tokens[:] == at_once

    state, expected = torch.zeros(1, 32), [4]
    for _ in range(5):
        state = F.rms_norm(state + table[expected[-1]], (32,), None, 1e-6)
        expected.append(int((state @ table.T).argmax()))
    assert at_once == expected


def test_what_does_not_fit_is_told_when_it_is_recorded(library: Library) -> None:
    recorder, tokens = ProgramTracer(library), Tokens(1)
    x, wide = given(recorder, draw(2, 24)), given(recorder, draw(2, 32))
    with pytest.raises(Unsupported, match="24 numbers is no whole vectors"):
        recorder.norm(x, 1e-6)
    with pytest.raises(Unsupported, match="joined rows are no whole vectors"):
        recorder.join(x, wide)
    with pytest.raises(Unsupported, match="a linear layer is not compiled"):
        recorder.linear(make_linear(draw(8, 24)), x)
    with pytest.raises(Unsupported, match="not float32 in one piece"):
        recorder.norm(wide, 1e-6, weight=draw(32).bfloat16())
    with pytest.raises(Unsupported, match=r"a table is in torch\.float64"):
        recorder.embed(draw(8, 24).double(), tokens)
    with pytest.raises(Unsupported, match="swish is not compiled"):
        recorder.activate("swish", x)
    with pytest.raises(Unsupported, match="heads of 24 numbers"):
        heads = Attention(LayerCache(), 1, 1, 1e-6)
        recorder.store_kv(x, x, heads, None, Rows(Number(2), Number(), most=2))
    with pytest.raises(Unsupported, match="nothing is multiplied"):
        Program(ProgramTracer())
