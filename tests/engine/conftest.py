"""Fixtures that tests of the engine share."""

from tests.support.fixtures import (
    gptneo,
    library,
    pair,
    pair_heads,
    pieces,
    stories,
    strangers,
)

__all__ = ["gptneo", "library", "pair", "pair_heads", "pieces", "stories", "strangers"]
