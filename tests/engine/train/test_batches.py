"""Windows of recorded replies, and which positions teach which."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.models.hidden_states import NORMED
from engine.train.data.batches import Batch, batch_of, batches
from engine.train.data.recording import RecordedReply, Recording

HIDDEN = 4
APART = 30
"""Between the first tokens of two replies; bf16 holds whole numbers up to 256."""


def recorded(folder: Path, shapes: list[tuple[int, int]]) -> Recording:
    """Replies of (length, start). Token i of reply r is APART r + i, and so is its hidden state."""
    recording = Recording(folder, (NORMED,))
    for number, (length, start) in enumerate(shapes):
        tokens = tuple(APART * number + at for at in range(length))
        states = torch.tensor(tokens[:-1]).float()[None, :, None].expand(1, -1, HIDDEN)
        recording.add([(RecordedReply(tokens, start, 0.0), states)])
    return recording


def test_a_short_reply_is_whole(tmp_path: Path) -> None:
    recording = recorded(tmp_path, [(6, 3), (4, 2)])
    made = batch_of(recording, recording.replies, (NORMED,), longest=16, seed=0)
    assert made.tokens.tolist() == [[0, 1, 2, 3, 4, 5], [30, 31, 32, 33, 0, 0]]
    assert made.state_mask.tolist() == [[True] * 5 + [False], [True] * 3 + [False] * 3]
    assert made.loss_mask.tolist() == [
        [False] * 3 + [True] * 3,
        [False] * 2 + [True] * 2 + [False] * 2,
    ]
    assert made.learned == 5
    assert made.states[NORMED][0, :, 0].tolist() == [0, 1, 2, 3, 4, 0]


@given(
    length=st.integers(2, 60),
    share=st.floats(0, 1),
    longest=st.integers(16, 40),
    seed=st.integers(0, 99),
)
def test_a_window_is_a_part_of_its_reply(
    tmp_path_factory: pytest.TempPathFactory, length: int, share: float, longest: int, seed: int
) -> None:
    start = 1 + int(share * (length - 2))
    recording = recorded(tmp_path_factory.mktemp("recording"), [(length, start)])
    made = batch_of(recording, recording.replies, (NORMED,), longest, seed)
    tokens = made.tokens[0].tolist()
    assert tokens == list(range(tokens[0], tokens[0] + min(length, longest)))
    assert made.loss_mask[0].tolist() == [token >= start for token in tokens]
    assert made.state_mask[0].tolist() == [token < length - 1 for token in tokens]


def test_windows_reach_every_token_of_a_long_reply(tmp_path: Path) -> None:
    recording = recorded(tmp_path, [(100, 60)])
    made = [
        batch_of(recording, recording.replies, (NORMED,), longest=32, seed=seed)
        for seed in range(300)
    ]
    learned = {int(token) for each in made for token in each.tokens[0][each.loss_mask[0]]}
    assert learned == set(range(60, 100))
    assert all(each.learned >= 16 for each in made)  # at most half is prompt


@given(
    ahead=st.integers(1, 5),
    rows=st.lists(st.tuples(st.integers(2, 12), st.integers(1, 11)), min_size=1, max_size=4),
)
def test_pairs_point_from_a_token_to_the_one_so_far_ahead(
    tmp_path_factory: pytest.TempPathFactory, ahead: int, rows: list[tuple[int, int]]
) -> None:
    shapes = [(length, min(start, length - 1)) for length, start in rows]
    recording = recorded(tmp_path_factory.mktemp("recording"), shapes)
    made = batch_of(recording, recording.replies, (NORMED,), longest=16, seed=0)
    pairs = made.pairs(ahead)
    tokens = made.tokens.flatten()
    expected = Counter(
        (APART * number + at, APART * number + at + ahead + 1)
        for number, (length, start) in enumerate(shapes)
        for at in range(length)
        if start <= at + ahead + 1 < length
    )
    assert (
        Counter(zip(tokens[pairs.sources].tolist(), pairs.labels.tolist(), strict=True)) == expected
    )
    assert torch.equal(tokens[pairs.goals], pairs.labels - 1)
    assert torch.equal(
        made.states[NORMED].flatten(0, 1)[pairs.goals][:, 0], (pairs.labels - 1).float()
    )


def test_a_round_has_every_reply_once_in_batches_of_the_size(tmp_path: Path) -> None:
    recording = recorded(tmp_path, [(4 + 3 * number, 2) for number in range(8)])
    stream = batches(recording, recording.replies, (NORMED,), 16, 40, random.Random(0))
    seen: list[int] = []
    while len(seen) < 16:
        made: Batch = next(stream)()
        assert made.positions <= 40
        seen += (made.tokens[:, 0] // APART).tolist()
    assert sorted(seen[:8]) == sorted(seen[8:16]) == list(range(8))


def test_the_same_seed_gives_the_same_windows(tmp_path: Path) -> None:
    recording = recorded(tmp_path, [(24 + number, 5) for number in range(6)])

    def some() -> list[list[list[int]]]:
        stream = batches(recording, recording.replies, (NORMED,), 16, 40, random.Random(3))
        return [make().tokens.tolist() for make in islice(stream, 8)]

    assert some() == some()
