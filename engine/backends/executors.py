"""Choose the executor of a head: the compiled step where it can, else torch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from engine.backends.native.traced import TracedOperations
from engine.backends.operations import Operations
from engine.backends.torch.eager import EagerOperations
from engine.kernels.native.program import Unsupported
from engine.models.hidden_states import Backbone

log = logging.getLogger(__name__)

T = TypeVar("T")


def executed(make: Callable[[Operations], T], target: Backbone) -> T:
    """Return ``make(operations)`` with the first executor that supports every operation it calls.

    The compiled step does not support every width, weight, target and device, and may not be built.
    """
    try:
        return make(TracedOperations(target))
    except Unsupported as reason:
        log.debug("A head drafts in torch: %s", reason)
        return make(EagerOperations(target))
