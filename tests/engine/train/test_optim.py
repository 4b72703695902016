"""Muon, and the schedule of the learning rate."""

from __future__ import annotations

import pytest
import torch

from engine.train.optim import Muon, orthogonalise, schedule


def test_muon_steps_are_nearly_orthogonal_for_tall_and_wide() -> None:
    torch.manual_seed(0)
    for size in ((3, 32, 64), (3, 64, 32), (3, 32, 32)):
        values = torch.linalg.svdvals(orthogonalise(torch.randn(size)).float())
        # Jordan's quintic leaves most values in [0.7, 1.2]; a square matrix has a few tiny ones.
        assert values.max() < 1.3
        assert values.median() > 0.6


def test_muon_fits_a_linear_map() -> None:
    torch.manual_seed(0)
    weight, goal = torch.zeros(16, 8, requires_grad=True), torch.randn(16, 8)
    optimizer = Muon([weight], lr=0.05, weight_decay=0.0)
    for step in range(200):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 * (1 - step / 200)
        optimizer.zero_grad()
        loss = (weight - goal).pow(2).sum()
        loss.backward()
        optimizer.step()
    assert loss < 0.05 * goal.pow(2).sum()


def test_the_schedule_warms_up_holds_and_ends_at_zero() -> None:
    assert schedule(0.05, 0.1, 0.4) == pytest.approx(0.5)
    assert schedule(0.3, 0.1, 0.4) == 1.0
    assert schedule(0.8, 0.1, 0.4) == pytest.approx(0.5)
    assert schedule(1.0, 0.1, 0.4) == 0.0
