"""One round as operations of the device alone: draft, verify, judge, next inputs.

Nothing here waits for the device or asks it anything, so a round may be captured as a graph; run as it
stands it is the reference of that graph. What changes from round to round lies in ``State``, in the two
tokens last in the text, and in the lengths of the models' states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.backends.cuda.state import DeviceState
from engine.kernels.cuda.clock import stamp
from engine.kernels.cuda.sampling import acceptance
from engine.kernels.cuda.sampling.acceptance_kernel import TIMES_AT, TOKENS_AT, Rule
from engine.kernels.cuda.sampling.draw import distribute
from engine.kernels.cuda.sampling.state import Distribution, Scratch, State
from engine.models.base import ModelInfo
from engine.values import MAX_ROWS
from engine.values.sampling import Sampling

_BEGIN, _DRAFTED, _END = range(3)
TIMES = slice(TIMES_AT, TIMES_AT + 2 * 3)
"""Where in a result the clock's three numbers stand, of 64 bits each."""


@dataclass(frozen=True, slots=True)
class Mode:
    """What tells one captured round from another.

    ``drafts``: whether the draft writes the chain, which else was put there before. ``drawn``: whether
    what it was drawn from was put there too. ``masked``: by what is allowed in each row.
    """

    depth: int
    rule: Rule
    drafts: bool = False
    drawn: bool = False
    masked: bool = False


class Stepping(Protocol):
    """What a round needs of a decoder."""

    device: torch.device

    @property
    def info(self) -> ModelInfo: ...

    def step(self, ids: Tensor, state: DeviceState) -> Tensor:
        """See ``CudaDecoder``."""

    def predict(self, hidden: Tensor) -> Tensor:
        """See ``CudaDecoder``."""


class DeviceRound:
    """A target with its state, and a draft with its own or none; the text of one request."""

    def __init__(
        self,
        target: Stepping,
        state: DeviceState,
        draft: Stepping | None = None,
        draft_state: DeviceState | None = None,
    ) -> None:
        self.target, self.target_state = target, state
        self.draft, self.draft_state = draft, draft_state
        vocabulary, device = target.info.vocabulary, target.device
        self.state = State.empty(vocabulary, device)
        self.p = Distribution.empty(MAX_ROWS, vocabulary, device)
        self.q = None if draft is None else Distribution.empty(MAX_ROWS, vocabulary, device)
        self.scratch = Scratch.empty(MAX_ROWS, vocabulary, device)
        self.allowed: Tensor | None = None  # int32 (rows, words), where a grammar came
        self.result = acceptance.empty_result(device)
        # The two tokens last in the text, the pending one behind.
        self.recent = torch.zeros(2, dtype=torch.long, device=device)
        self._pair = torch.arange(2, device=device)
        if draft is not None:
            # What the draft has no rows for is never drafted.
            self._logits = torch.full((1, vocabulary), float("-inf"), device=device)

    def begin(self, sampling: Sampling, seed: int, tokens: list[int], prompt_length: int) -> None:
        """A new request, or a text that grew elsewhere; waits for the copies to the device."""
        self.state.begin(sampling, seed, tokens, prompt_length)
        self.recent.copy_(torch.tensor([0, *tokens][-2:]))

    def put(self, chain: Sequence[int], q: Tensor | None = None) -> None:
        """A chain for the next round, drafted elsewhere; ``q (nodes, vocabulary)`` if it was drawn."""
        self.state.put(chain)
        if q is None:
            return
        if self.q is None:  # what all but such drafts do without
            device = self.target.device
            self.q = Distribution.empty(MAX_ROWS, self.target.info.vocabulary, device)
        self.q.weights[: len(q)].copy_(q)
        self.q.threshold.fill_(1)  # the bits of the smallest number above zero
        self.q.mass.fill_(1.0)

    def allow(self, bits: Tensor) -> None:
        """What may follow in the next round's rows: int32 (rows, words), a bit for each token."""
        if self.allowed is None:  # a graph replays its address
            self.allowed = torch.zeros(
                MAX_ROWS, bits.shape[1], dtype=torch.int32, device=self.target.device
            )
        self.allowed[: len(bits)].copy_(bits)

    @torch.inference_mode()
    def run(self, mode: Mode) -> None:
        """The round; writes ``result``, moves ``state`` and ``recent`` on. A draft needs two tokens."""
        times = self.result[TIMES].view(torch.int64)
        stamp(times, _BEGIN)
        if mode.drafts:
            self._draft(mode)
        stamp(times, _DRAFTED)
        self._verify(mode)
        self._move_on(mode.depth)
        stamp(times, _END)

    def _draft(self, mode: Mode) -> None:
        """Writes the chain, and what each token was drawn from.

        Whether the draft has seen the last but one token depends on the last acceptance, which only the
        device knows; so it is fed again, which changes nothing where it was there.
        """
        assert self.draft is not None and self.draft_state is not None and self.q is not None
        length = self.draft_state.static.length
        length.copy_(self.state.numbers[1:2] - 2)
        hidden = self.draft.step(self._known(self.recent), self.draft_state)[-1:]
        for place in range(mode.depth):
            row = self.q.row(place)
            distribute(
                self._widened(self.draft.predict(hidden)), self.state, row, self.scratch,
                first=place, greedy=mode.rule is Rule.GREEDY,
            )  # fmt: skip
            acceptance.draft(
                row, self.state, self.scratch, self.result, rule=mode.rule, place=place
            )
            if place + 1 < mode.depth:
                length.add_(1 if place else 2)
                drafted = self.state.drafted[place : place + 1].long()
                hidden = self.draft.step(self._known(drafted), self.draft_state)

    def _known(self, ids: Tensor) -> Tensor:
        """The target may have a few rows more; the draft is fed token 0 in place of one it lacks."""
        assert self.draft is not None
        return ids.masked_fill(ids >= self.draft.info.vocabulary, 0)

    def _widened(self, logits: Tensor) -> Tensor:
        """The draft's logits, as wide as the target's vocabulary or wider."""
        width = logits.shape[1]
        if width >= self._logits.shape[1]:
            return logits
        self._logits[:, :width] = logits
        return self._logits

    def _verify(self, mode: Mode) -> None:
        depth = mode.depth
        self.target_state.static.length.copy_(self.state.numbers[1:2] - 1)
        ids = torch.cat([self.recent[1:], self.state.drafted[:depth].long()])
        logits = self.target.predict(self.target.step(ids, self.target_state))
        greedy = mode.rule is Rule.GREEDY
        allowed = self.allowed if mode.masked else None
        distribute(logits, self.state, self.p, self.scratch, allowed=allowed, greedy=greedy)
        acceptance.judge(
            self.p, self.q if mode.drafts or mode.drawn else None, self.state, self.scratch, self.result,
            rule=mode.rule, depth=depth,
        )  # fmt: skip

    def _move_on(self, depth: int) -> None:
        """The two tokens last in the text, whatever was accepted."""
        emitted = self.result[TOKENS_AT : TOKENS_AT + depth + 1]
        text = torch.cat([self.recent[1:], emitted.long()])
        accepted = self.result[1:2].long()
        self.recent.copy_(text[accepted + self._pair])
