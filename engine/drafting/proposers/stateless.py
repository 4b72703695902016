"""What the proposers share whose heads read one hidden state and keep nothing: medusa, mlp, lstm."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from engine.backends.executors import executed
from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.drafting.heads.stateless import StatelessDraft, StatelessHead
from engine.models.hidden_states import Backbone


class StatelessProposer:
    """Drafts each round from the last token's hidden state; nothing is kept between rounds."""

    def __init__(self, head: StatelessHead, target: Backbone) -> None:
        self.target = target
        self.steps = head.steps
        self.drafts = executed(partial(StatelessDraft, head), target)

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler

    def prepare(self, context: Context) -> Iterator[None]:
        return iter(())

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None: ...
