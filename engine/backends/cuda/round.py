"""One round as device operations only: draft, verify, accept, prepare the next inputs.

Nothing here waits for the device or reads from it, so a round may be captured as a graph; run directly it
is the reference of that graph. What changes from round to round is in ``SamplingState``, in the last two
tokens of the text, and in the lengths of the models' states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.backends.cuda.state import DeviceState, Step
from engine.backends.layer_decoder import LayerDecoder
from engine.kernels.cuda.intrinsics import stamp
from engine.kernels.cuda.sampling import acceptance, branches
from engine.kernels.cuda.sampling.acceptance import TIMES_AT, TOKENS_AT, Rule
from engine.kernels.cuda.sampling.distribution import compute_distribution
from engine.kernels.cuda.sampling.state import SamplingState
from engine.models.rounds import RoundDrafter
from engine.values import MAX_DEPTH, MAX_ROWS
from engine.values.sampling import Sampling

Decoder = LayerDecoder[DeviceState, Step]
_BEGIN, _DRAFTED, _VERIFIED, _END = range(4)
TIMES = slice(TIMES_AT, TIMES_AT + 2 * 4)
"""The four timestamps in a result, of 64 bits each."""


@dataclass(frozen=True, slots=True)
class Mode:
    """The options of a captured round.

    ``drafts``: the drafter writes the chain; otherwise the host put it there. ``sampled``: the host
    also put the distributions it was drawn from. ``masked``: ``allowed`` masks each row. ``top``: the
    result has each row's most likely tokens. ``adjusts``: the request has biases or penalties.
    ``truncates``: it has top-k, top-p or min-p. ``precomputed``: the rows' logits were
    put there. ``tree``: of ``depth`` tokens, in place of a chain; a drafted one takes ``levels`` steps.
    """

    depth: int
    rule: Rule
    drafts: bool = False
    sampled: bool = False
    masked: bool = False
    top: bool = False
    adjusts: bool = False
    truncates: bool = False
    precomputed: bool = False
    tree: bool = False
    levels: int = 0


class DeviceRound:
    """Rounds of one request: a target with its state, and what drafts, if anything does."""

    def __init__(
        self, target: Decoder, state: DeviceState, drafter: RoundDrafter | None = None
    ) -> None:
        self.target, self.target_state, self.drafter = target, state, drafter
        vocabulary, device = target.info.vocabulary, target.device
        self.state = SamplingState.empty(vocabulary, device)
        self.p = torch.zeros(MAX_ROWS, vocabulary, device=device)  # of each row
        self.q = None if drafter is None else torch.zeros_like(self.p)  # of each drafted token
        self.allowed: Tensor | None = None  # int32 (rows, words), from a grammar
        # (rows, vocabulary), from a pass for several sequences
        self.precomputed: Tensor | None = None
        self.result = acceptance.empty_result(device)
        # The last two tokens of the text; the second is the pending one.
        self.last_tokens = torch.zeros(2, dtype=torch.long, device=device)
        self._pair = torch.arange(2, device=device)
        # Tokens outside the drafter's vocabulary are never drafted.
        self._logits = torch.full((1, vocabulary), float("-inf"), device=device)

    def begin(
        self, sampling: Sampling, seed: int, tokens: list[int], prompt_length: int,
        bias: Sequence[tuple[int, float]] = (),
    ) -> None:  # fmt: skip
        """Start a request, or continue a text that grew elsewhere; wait for the copies to the device."""
        self.state.begin(sampling, seed, tokens, prompt_length, bias)
        self.last_tokens.copy_(torch.tensor([0, *tokens][-2:]))

    def put(
        self,
        drafted: Sequence[int],
        q: Tensor | None = None,
        parents: Sequence[int] | None = None,
    ) -> None:
        """Write what the host drafted: a chain, ``q (nodes, vocabulary)`` if it was drawn from that; or a
        tree with the ``parents`` of its rows."""
        self.state.put(drafted, parents)
        if q is None:
            return
        if self.q is None:  # allocated only for drafts that are drawn on the host
            self.q = torch.zeros_like(self.p)
        self.q[: len(q)].copy_(q)

    def allow(self, bits: Tensor) -> None:
        """Write the allowed tokens of the next round's rows: int32 (rows, words), a bit for each."""
        if self.allowed is None:  # allocated once, since a graph replays its address
            self.allowed = torch.zeros(
                MAX_ROWS, bits.shape[1], dtype=torch.int32, device=self.target.device
            )
        self.allowed[: len(bits)].copy_(bits)

    @torch.inference_mode()
    def dry_run(self, mode: Mode, replay: Callable[[], object] | None = None) -> list[Tensor]:
        """Run the round as ``run`` does, which compiles its kernels, and undo what it changed.

        Return what that was, but for the time. ``replay``: runs the round in place of ``run``.
        """
        state = self.state
        changed = [state.seed_and_length, state.drafted, state.token_counts, state.accepted_rows]
        changed += [self.last_tokens, self.result, *self.target_state.changed]
        changed += [] if self.drafter is None else self.drafter.changed
        before = [tensor.clone() for tensor in changed]
        if replay is None:
            self.run(mode)
        else:
            replay()
        self.result[TIMES] = 0
        after = [tensor.clone() for tensor in changed]
        for tensor, values in zip(changed, before, strict=True):
            tensor.copy_(values)
        return after

    def put_logits(self, logits: Tensor) -> None:
        """Write the logits of the next round's rows, which were computed with other sequences' rows."""
        if self.precomputed is None:  # allocated once, as ``allowed``
            self.precomputed = logits.new_zeros(MAX_ROWS, logits.shape[1])
        self.precomputed[: len(logits)].copy_(logits)

    @torch.inference_mode()
    def run(self, mode: Mode) -> None:
        """Run the round: write ``result``, advance ``state`` and ``last_tokens``.

        Drafts need at least two tokens of text.
        """
        times = self.result[TIMES].view(torch.int64)
        stamp(times, _BEGIN)
        if mode.drafts:
            self._draft(mode)
        stamp(times, _DRAFTED)
        self._verify(mode)
        self._update_last_tokens(mode.depth)
        stamp(times, _VERIFIED)
        if mode.drafts:
            self._read(mode.depth)
        stamp(times, _END)

    def _draft(self, mode: Mode) -> None:
        """Write the chain or the tree, and the distribution of each token or level."""
        assert self.drafter is not None and self.q is not None
        steps = self.drafter.draft(
            self.last_tokens, self.state.length, self.state.drafted, mode.levels or mode.depth
        )
        ranked = []
        for index, logits in enumerate(steps):
            row, greedy = self.q[index : index + 1], mode.rule is Rule.GREEDY
            compute_distribution(
                self._padded(logits), self.state, None if greedy and not mode.tree else row,
                first=index, greedy=greedy, adjusts=mode.adjusts, truncates=mode.truncates,
            )  # fmt: skip
            if not mode.tree:
                acceptance.draft(row, self.state, rule=mode.rule, index=index)
                continue
            ranked.append(
                branches.rank(row, self.state, rule=mode.rule, index=index, count=mode.depth)
            )
        if mode.tree:
            branches.grow(ranked, self.state, mode.depth, spread=self.drafter.spreads)

    def _padded(self, logits: Tensor) -> Tensor:
        """Pad the drafter's logits to the width of the target's vocabulary."""
        width = logits.shape[1]
        if width >= self._logits.shape[1]:
            return logits
        self._logits[:, :width] = logits
        return self._logits

    def _rows(self, mode: Mode) -> Tensor:
        """Return the target's logits after the pending token and each token of the chain."""
        if mode.precomputed:
            assert self.precomputed is not None
            return self.precomputed[: mode.depth + 1]
        self.target_state.move_to(self.state.length - 1)
        ids = torch.cat([self.last_tokens[1:], self.state.drafted[: mode.depth].long()])
        state, rows = self.target_state, len(ids)
        step = [(state, rows, self.state.tree if mode.tree else None)]
        return self.target.predict(self.target.run_layers(ids, [(state, rows)], step))

    def _verify(self, mode: Mode) -> None:
        rows, start = mode.depth + 1, self.state.length - 1
        compute_distribution(
            self._rows(mode), self.state, self.p, allowed=self.allowed if mode.masked else None,
            greedy=mode.rule is Rule.GREEDY, adjusts=mode.adjusts, truncates=mode.truncates,
            tree=mode.tree,
        )  # fmt: skip
        q = self.q if mode.drafts or mode.sampled else None
        acceptance.verify(
            self.p, q, self.state, self.result, rule=mode.rule, depth=mode.depth, tree=mode.tree
        )
        accepted = self.state.accepted_rows[:rows]
        if mode.tree:
            self.target_state.move(start, accepted)
        if mode.top:
            p = self.p.index_select(0, accepted) if mode.tree else self.p[:rows]
            acceptance.write_top(p, self.result)

    def _update_last_tokens(self, depth: int) -> None:
        """Take the last two tokens of the text after this round, however many were accepted."""
        emitted = self.result[TOKENS_AT : TOKENS_AT + depth + 1]
        text = torch.cat([self.last_tokens[1:], emitted.long()])
        accepted = self.result[1:2].long()
        self.last_tokens.copy_(text[accepted + self._pair])

    def _read(self, depth: int) -> None:
        """Let the drafter read what was verified, of which the first rows are accepted."""
        assert self.drafter is not None
        emitted = self.result[TOKENS_AT : TOKENS_AT + depth + 1]
        start, accepted = self.target_state.static.length, self.result[1:2]
        self.drafter.read(start, emitted.long().clamp_min(0), accepted)


class ModelDrafter:
    """See ``RoundDrafter``: a draft model with a state of its own."""

    steps, spreads = MAX_DEPTH, False

    def __init__(self, model: Decoder, state: DeviceState) -> None:
        self.model, self.state = model, state
        self.context = model.info.context

    @property
    def changed(self) -> list[Tensor]:
        return self.state.changed

    def draft(self, text: Tensor, length: Tensor, drafted: Tensor, depth: int) -> Iterator[Tensor]:
        """See ``RoundDrafter``.

        Only the device knows the last acceptance, and so whether the state has the last but one token. It
        is computed again, which changes nothing if it was there.
        """
        self.state.move_to(length - 2)
        end, ids = self.state.static.length, text
        for index in range(depth):
            if index:
                end.add_(1 if index > 1 else 2)
                ids = drafted[index - 1 : index].long()
            yield self.model.predict(self.model.step(self._own(ids), self.state)[-1:])

    def read(self, start: Tensor, emitted: Tensor, accepted: Tensor) -> None:
        """Do nothing: the next draft begins with the last two tokens."""

    def _own(self, ids: Tensor) -> Tensor:
        """Replace ids beyond the draft's vocabulary, which may be a few rows smaller, by token 0."""
        return ids.masked_fill(ids >= self.model.info.vocabulary, 0)
