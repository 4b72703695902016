"""The verdict kernel: checked in the interpreter or on a GPU, and compiled for those not here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import chisquare

pytest.importorskip("triton")

from engine.acceptance import reject, verify_block
from engine.events import Tree
from engine.kernels.cuda.acceptance import WARPS, draw_reference
from engine.kernels.cuda.verdict import Rule, verdict_kernel
from engine.noise import Stream, uniform
from tests.engine.kernels.cuda.elsewhere import PLACES, run_checks
from tests.engine.kernels.cuda.ptxas import ARCHITECTURES, POINTERS, usage


@pytest.mark.parametrize("place", PLACES)
def test_the_verdict_kernel_holds_what_is_checked(place: str) -> None:
    run_checks("acceptance_checks.py", place)


def constants(rule: Rule, has_q: bool, drafting: bool) -> dict[str, Any]:
    return {
        "RULE": int(rule),
        "STREAM": int(Stream.CHOICE),
        "HAS_Q": has_q,
        "DRAFTING": drafting,
        "BLOCKS": 128,
    }


EVERYTHING = (Rule.BLOCK, True, False)
"""The longest of the variants; the others are parts of it."""


@pytest.mark.parametrize(
    ("arch", "variant"),
    [(arch, EVERYTHING) for arch in ARCHITECTURES]
    + [(90, (rule, rule >= Rule.REJECTION, False)) for rule in list(Rule)[:3]]
    + [(90, (Rule.BLOCK, False, False)), (90, (Rule.COUPLED, False, True))],
    ids=str,
)
def test_the_kernel_compiles_and_nothing_spills(
    arch: int, variant: tuple[Rule, bool, bool]
) -> None:
    used = usage(verdict_kernel, POINTERS, constants(*variant), arch, WARPS)
    print(f"sm_{arch} {variant}: {used}")
    assert used.spilled == 0 and used.stack == 0
    assert used.registers * WARPS * 32 <= 65536 and used.shared <= 48 * 1024


@pytest.mark.parametrize("rule", [reject, verify_block])
def test_the_rules_with_the_kernels_noise_leave_p(rule: Any) -> None:
    """Chi-square of the first token over 2,000 seeds; the kernel is this rule, token for token."""
    vocabulary, seeds = 12, 2000
    p, q = torch.softmax(
        torch.randn(2, 3, vocabulary, generator=torch.Generator().manual_seed(5)), -1
    )
    counts = [0] * vocabulary
    for seed in range(seeds):
        drafted = [draw_reference(q[i], seed, Stream.DRAFT, 2 + i) for i in range(2)]

        def coin(node: int, seed: int = seed) -> float:
            return uniform(seed, Stream.ACCEPT, 2 + node)

        def draw(weights: torch.Tensor, row: int, is_residual: bool, seed: int = seed) -> int:
            stream = Stream.RESIDUAL if is_residual else Stream.CHOICE
            return draw_reference(weights, seed, stream, 2 + row)

        verdict = rule(p, q[:2], Tree.chain(drafted), coin, draw)
        counts[drafted[0] if verdict.path else verdict.next_token] += 1
    assert chisquare(counts, (p[0].double() / p[0].double().sum() * seeds).tolist()).pvalue > 1e-4
