"""Choose the executor of a head: the target's own or the compiled step where it can, else torch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar, cast

from engine.backends.native.traced import TracedOperations
from engine.backends.operations import Operations
from engine.backends.torch.eager import EagerOperations
from engine.kernels.native.program import Unsupported
from engine.models.hidden_states import Backbone

log = logging.getLogger(__name__)

T = TypeVar("T")


def executed(make: Callable[[Operations], T], target: Backbone) -> T:
    """Return ``make(operations)`` with the first executor that supports every operation it calls.

    A target whose rounds run on a device has operations there. The compiled step does not support every
    width, weight, target and device, and may not be built.
    """
    try:
        own = target.head_operations()
        return make(TracedOperations(target) if own is None else cast(Operations, own))
    except Unsupported as reason:
        log.debug("A head drafts in torch: %s", reason)
        return make(EagerOperations(target))
