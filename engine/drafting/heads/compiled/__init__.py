"""Heads whose drafts are computed by the compiled step: one program for each, see tape.py.

What a head computes in torch, beside its kind, is the reference. Where a program cannot be recorded
(no compiled step, weights it does not take, a target that is not compiled) there is none, and the head
drafts in torch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from engine.kernels.native.tape import Unfit
from engine.models.hidden_states import Backbone

log = logging.getLogger(__name__)

H = TypeVar("H")
D = TypeVar("D")


def compiled(record: Callable[[H, Backbone], D], head: H, target: Backbone) -> D | None:
    """What ``record`` makes of a head, or None where it says that the head is unfit."""
    try:
        return record(head, target)
    except Unfit as reason:
        log.debug("%s drafts in torch: %s", type(head).__name__, reason)
        return None
