"""A wrong rule of acceptance, which tests of losslessness must find."""

from __future__ import annotations

from collections.abc import Sequence

from engine.decoding.acceptance import Acceptance
from engine.events import Origin, Tree


def accept_first(choices: Sequence[int], tree: Tree) -> Acceptance:
    """Accept the first drafted token, right or wrong."""
    if not tree.tokens:
        return Acceptance((), choices[0], Origin.BONUS)
    return Acceptance((0,), choices[1], Origin.CORRECTION)
