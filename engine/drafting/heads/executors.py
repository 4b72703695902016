"""Which executor computes a head: the compiled step where it can, else torch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from engine.drafting.heads.eager import Eager
from engine.drafting.heads.operations import Operations
from engine.drafting.heads.traced import TracedOperations
from engine.kernels.native.program import Unsupported
from engine.models.hidden_states import Backbone

log = logging.getLogger(__name__)

T = TypeVar("T")


def executed(make: Callable[[Operations], T], target: Backbone) -> T:
    """What ``make`` makes with the first executor that supports all that it asks for.

    The compiled step does not where there is none, and not every width, weight, target and device.
    """
    try:
        return make(TracedOperations(target))
    except Unsupported as reason:
        log.debug("A head drafts in torch: %s", reason)
        return make(Eager(target))
