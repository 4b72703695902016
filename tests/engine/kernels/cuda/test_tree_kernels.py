"""Trees on a device: how they are drafted; and each row has the bits of the end of its branch."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from engine.drafting.proposers.branches import Level
from engine.drafting.proposers.branches import grow as grow_on_host
from engine.kernels.cuda.attention import Workspace, attend
from engine.kernels.cuda.kv_cache import FP8, StaticKVCache
from engine.kernels.cuda.rotary import rope_and_store
from engine.kernels.cuda.sampling.acceptance import Rule
from engine.kernels.cuda.sampling.branches import grow, rank
from engine.kernels.cuda.sampling.state import SamplingState
from engine.kernels.cuda.trees import branch, tree_table
from engine.local.host_rules import LEAST
from engine.noise import Stream, ranking
from engine.values import MAX_ROWS
from engine.values.sampling import Sampling
from tests.engine.kernels.cuda.test_attention_kernels import FEW_PARTS, LARGE, Case, Turn, _qkv
from tests.engine.kernels.cuda.where import INTERPRETED

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

CASES = (
    Case(),
    Case(group=1, kv_heads=2, head_dim=24, window=20, cap=0.7),
    Case(group=5, head_dim=16, dtype=FP8, window=5),  # a tile ends within a row's heads
    Case(group=2, head_dim=16, window=33, tiling=FEW_PARTS, sinks=True),
)


def random_tree(rows: int, seed: int, reach: int = 4) -> list[int]:
    """Return the parents of rows; each is one of the ``reach`` rows before."""
    chance = random.Random(seed)
    return [-1, *(chance.randrange(max(0, row - reach), row) for row in range(1, rows))]


class Layer:
    """A layer's kernels over a cache whose first positions are filled."""

    def __init__(self, case: Case, device: torch.device) -> None:
        self.case, self.cache = case, case.state(device)[1]
        self.arguments = Turn(normed=True).arguments(case, device)
        self.workspace = Workspace.make(
            heads=case.heads, head_dim=case.head_dim, capacity=case.capacity, tiling=case.tiling,
            device=device,
        )  # fmt: skip

    def __call__(self, qkv: Tensor, start: int, tree: Tensor | None = None) -> Tensor:
        """Return what the rows attend to, in a workspace with garbage."""
        self.cache.set_length(start)
        for part in (self.workspace.acc, self.workspace.m_i, self.workspace.l_i):
            part.fill_(float("nan"))
        case, slot, length = self.case, self.cache.slots[1], self.cache.length
        query = rope_and_store(qkv, slot, length, **self.arguments, tree=tree)  # type: ignore[arg-type]
        return attend(
            query,
            slot,
            length,
            self.workspace,
            case.tiling,
            **case.scoring(query.device),
            tree=tree,
        )

    def stored(self, end: int) -> list[Tensor]:
        return [_bits(part[..., :end, :]) for part in self.cache.slots[1].tensors[:2]] + [
            scales[..., :end] for scales in self.cache.slots[1].tensors[2:]
        ]


def _bits(part: Tensor) -> Tensor:
    return part.view(torch.uint8) if part.dtype == FP8 else part


@pytest.mark.parametrize("case", CASES if INTERPRETED else CASES + LARGE, ids=str)
def test_a_row_of_a_tree_has_the_bits_of_its_branch(device: torch.device, case: Case) -> None:
    """Also what was stored, after its rows were moved; at borders of tiles, splits and parts."""
    split = case.tiling.split
    rows = 9 if INTERPRETED else MAX_ROWS
    starts = (0, 2 * split - 5) if INTERPRETED else (0, 7, split - 1, 2 * split - 9, 9 * split)
    tree, chain, qkv = Layer(case, device), Layer(case, device), _qkv(case, rows, device)
    # The later ones first: what they leave behind is not seen by others.
    for start in sorted((each for each in starts if each + rows <= case.capacity), reverse=True):
        parents = random_tree(rows, start)
        table = tree_table(parents).to(device)
        for leaf in (row for row in range(rows) if row not in parents):
            path = branch(parents, leaf)
            together, alone = tree(qkv, start, table), chain(qkv[path].contiguous(), start)
            assert torch.equal(together[path], alone), (start, parents, path)
            tree.cache.move(tree.cache.length.long(), torch.tensor(path, device=device))
            end = start + len(path)
            for moved, right in zip(tree.stored(end), chain.stored(end), strict=True):
                assert torch.equal(moved, right), (start, parents, path)


@pytest.mark.parametrize("case", CASES if INTERPRETED else CASES + LARGE, ids=str)
@pytest.mark.parametrize("rows", (1, 6) if INTERPRETED else range(1, MAX_ROWS + 1))
def test_a_tree_of_one_branch_is_a_chain_to_the_bit(
    device: torch.device, case: Case, rows: int
) -> None:
    tree, chain, qkv = Layer(case, device), Layer(case, device), _qkv(case, rows, device)
    start, table = 2 * case.tiling.split - 3, tree_table(range(-1, rows - 1)).to(device)
    assert torch.equal(tree(qkv, start, table), chain(qkv, start))
    end = case.capacity
    assert all(map(torch.equal, tree.stored(end), chain.stored(end)))


@pytest.mark.parametrize("seed", range(24))
def test_a_tree_grows_as_on_the_host(device: torch.device, seed: int) -> None:
    """Of any probabilities, equal ones among them, to the last branch; zeros come last."""
    chance, draw = random.Random(seed), torch.Generator().manual_seed(seed)
    levels, nodes = chance.choice((1, 2, 3, 7, 15)), chance.choice((1, 2, 4, 7, 15))
    q = torch.rand(levels, nodes, generator=draw)
    if seed % 3 == 0:
        q = (4 * q).round() / 4
    elif seed % 3 == 1:
        q = q.sort(descending=True).values
    tokens = torch.stack([torch.randperm(50, generator=draw)[:nodes] for _ in range(levels)])
    ranked = [(t.to(device), p.to(device)) for t, p in zip(tokens, q, strict=True)]
    for spread in (False, True):
        state = SamplingState.empty(50, device)
        grow(ranked, state, nodes, spread=spread)
        host = [Level(t.tolist(), p.tolist()) for t, p in zip(tokens, q, strict=True)]
        tree = grow_on_host(host, nodes, LEAST, spread=spread).tree
        rows = len(tree) + 1
        right, found = tree_table(tree.row_parents), state.tree.cpu()
        assert state.drafted[: len(tree)].tolist() == list(tree.tokens)
        assert torch.equal(found[0, :rows], right[0, :rows])
        assert torch.equal(found[1 : rows + 1, :rows], right[1 : rows + 1, :rows])
        drafted = zip(_parents(found, nodes), state.drafted[:nodes].tolist(), strict=True)
        assert len({*drafted}) == nodes


def _parents(table: Tensor, nodes: int) -> list[int]:
    rows = range(1, nodes + 1)
    assert all(int(table[1 + row, table[0, row]]) == row for row in rows)
    return [int(table[1 + row, table[0, row] - 1]) for row in rows]


def test_tokens_are_ranked_by_the_noise_of_their_place(device: torch.device) -> None:
    """Over several tiles of tokens, as the host ranks them; ``greedy`` by q."""
    vocabulary = 2100
    q = torch.randn(1, vocabulary, generator=torch.Generator().manual_seed(4)).mul(3).softmax(-1)
    q[0, :2000] *= 1e-4  # most of the first are of the last tile
    state = SamplingState.empty(vocabulary, device)
    state.begin(Sampling(temperature=1.0), -7, [5, 6, 7], 1)
    for index in (0, 5):
        tokens, p = rank(q.to(device), state, rule=Rule.COUPLED, index=index, count=15)
        assert tokens.tolist() == ranking(q, -7, Stream.CHOICE, 3 + index, 15)
        assert torch.equal(p.cpu(), q[0, tokens.cpu()]) and state.drafted[index] == tokens[0]
    tokens, p = rank(q.to(device), state, rule=Rule.GREEDY, index=1, count=7)
    assert torch.equal(p.cpu(), q[0].sort(descending=True).values[:7])
    assert torch.equal(p.cpu(), q[0, tokens.cpu()]) and state.drafted[1] == tokens[0]


def test_rows_move_in_order_and_the_rest_stays(device: torch.device) -> None:
    """Keys, values and scales of every slot, of two sizes, on the device alone."""
    cache = StaticKVCache([(2, 8), (1, 16), (2, 8)], capacity=20, device=device, dtype=FP8)
    for number, part in enumerate(cache.parts):
        part.copy_(torch.randn(part.shape, generator=torch.Generator().manual_seed(number)))
    before = [[each.float().clone() for each in slot.tensors] for slot in cache.slots]
    rows: Sequence[int] = (0, 2, 3, 6)
    cache.move(torch.tensor([5], device=device), torch.tensor(rows, device=device))
    order = torch.arange(20, device=device)
    order[5 : 5 + len(rows)] = 5 + torch.tensor(rows, device=device)
    for slot, parts in zip(cache.slots, before, strict=True):
        for found, was in zip(slot.tensors, parts, strict=True):
            assert torch.equal(found.float(), was[:, order])
