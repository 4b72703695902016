"""The captured executor: a decoder on a CUDA device, and whole rounds there as CUDA graphs.

``layers``      fused linear layers from a checkpoint's tensors
``state``       a sequence's state, whose length host and device both know
``decoder``     the model
``prompts``     attention of a prompt's many rows, by torch
``round``       one round as device operations only: draft, verify, accept, next inputs
``heads``       heads that draft within a round
``capture``     device operations as a CUDA graph
``graphs``      rounds captured once and replayed, and their results on the host
``passes``      rows of several sequences at once, captured too

Importing this package needs neither torch, Triton nor a device; ``round`` and ``graphs`` need Triton.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.values.sampling import AcceptanceRule, Sampling

GRAPH_DEPTHS = (0, 1, 2, 3, 4, 5, 7, 10, 15)
"""Depths of a round. Each is a graph, which takes memory and time to capture."""
PREPARED = (
    (AcceptanceRule.GREEDY, Sampling()),
    (AcceptanceRule.COUPLED, Sampling(temperature=1.0)),
    (AcceptanceRule.COUPLED, Sampling(temperature=1.0, top_p=0.9)),
)
"""Requests whose rounds a load captures, see ``prepared``."""
OTHER_GRAPHS = 2 * len(GRAPH_DEPTHS)
"""Most graphs of rounds that few requests have (grammars, penalties, trees); the oldest goes first."""
RUNNERS = 2
"""Most runners of a state: for whoever drafts in two ways in turn. Each has graphs of its own."""
PASS_GRAPHS = 8
"""Most graphs of passes for several sequences; the least recently used one goes first."""


def prepared(steps: int) -> Iterator[tuple[AcceptanceRule, Sampling, int, bool]]:
    """Yield the rounds that a load captures: of each request in ``PREPARED`` all depths, and again with
    drafts on the device (True) as far as what drafts there takes ``steps``; 0 if nothing does."""
    for rule, sampling in PREPARED:
        for depth in GRAPH_DEPTHS:
            yield rule, sampling, depth, False
            if 0 < depth <= steps:
                yield rule, sampling, depth, True


def kept_graphs(steps: int) -> tuple[int, int]:
    """Return how many graphs a runner keeps at most, each with a pass of the target, and how many
    tokens they draft in all, counting the rare graphs as drafting at each depth. ``steps`` as in
    ``prepared``."""
    usual = [depth * drafts for _, _, depth, drafts in prepared(steps)]
    others = [depth * (depth <= steps) for depth in GRAPH_DEPTHS]
    others *= OTHER_GRAPHS // len(GRAPH_DEPTHS)
    return len(usual) + len(others), sum(usual) + sum(others)
