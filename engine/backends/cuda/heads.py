"""The captured executor of heads: each operation is one on the device, which reads its operands there.

So a head may draft within a captured round. How many rows an operation has is known on the host; where
they are in the text, and which tokens they read, only on the device. Values are bf16, and keys and values
have a fixed place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar, cast

import torch
from torch import Tensor

from engine.backends import operations
from engine.backends.cuda.attention import DecoderAttention
from engine.backends.cuda.layers import wrong_width
from engine.backends.cuda.prompts import attend_prompt, is_plain
from engine.backends.cuda.state import DeviceState
from engine.backends.operations import RoundHead, table_like
from engine.backends.support import GATED_MLP, HEAD_ATTENTION, Support
from engine.backends.torch.eager import EagerDraft, EagerOperations
from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.kv_cache import LayerKV, StaticKVCache
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import DTYPE, make_stacked
from engine.kernels.cuda.linear.experts import in_groups
from engine.kernels.cuda.linear.fusion import PLAIN, Norm, StackedLinear, normalise
from engine.kernels.cuda.rotary import rope_and_store
from engine.kernels.native.program import Unsupported
from engine.kernels.operands import Candidates, Groups, Number, Rows, Tokens
from engine.kernels.torch.linear import Linear
from engine.models.activations import ACTIVATIONS
from engine.models.architecture import Architecture, Attention
from engine.models.hidden_states import AuxLayer
from engine.noise import Draws

R = TypeVar("R")

SUPPORT = Support(
    "The CUDA kernels of heads",
    HEAD_ATTENTION,
    GATED_MLP,
    ACTIVATIONS,
    ("fp32",),
    options=frozenset({"centred_norms"}),
)


class HeadTarget(Protocol):
    """What heads compute with of a decoder on the device."""

    device: torch.device
    embedding: Callable[[Tensor], Tensor]
    attention: DecoderAttention

    def logits(self, normed: Tensor) -> Tensor: ...


class HeadOperations(EagerOperations):
    """See ``Operations``. Raises Unsupported for layers that the kernels do not compute."""

    def __init__(self, target: HeadTarget, state: DeviceState) -> None:
        self.model, self.state, self.device = target, state, target.device
        self._by_group: dict[Linear, StackedLinear] = {}

    def linear(self, linear: Linear, x: Tensor, count: Number | None = None) -> Tensor:
        return super().linear(linear, x, count).to(x.dtype)  # a bias is float32

    def norm(
        self,
        x: Tensor,
        epsilon: float,
        *,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        if weight is None or bias is not None or scale != 1:
            return super().norm(x, epsilon, weight=weight, bias=bias, scale=scale)
        return normalise(x, Norm(weight, epsilon))

    def aux_hidden_states(self, aux_layer: AuxLayer, rows: Rows) -> Tensor:
        return self._at(self._aux(aux_layer), rows)

    def new_table(self, aux_layer: AuxLayer) -> Tensor:
        return table_like(self._aux(aux_layer)).to(DTYPE)

    def keep(self, x: Tensor, table: Tensor, rows: Rows) -> None:
        table.index_copy_(0, self._positions(rows, len(x), len(table)).long(), x)

    def take(self, table: Tensor, rows: Rows) -> Tensor:
        return self._at(table, rows)

    def pick(self, x: Tensor, number: Number) -> Tensor:
        return x.index_select(0, number.on(self.device))

    def embed(
        self, table: Tensor | None, tokens: Tokens, first: int = 0, rows: Rows | None = None
    ) -> Tensor:
        count = 1 if rows is None else rows.count.value
        ids = tokens.on(self.device)[first : first + count]
        return (self.model.embedding(ids) if table is None else table[ids]).to(DTYPE)

    def target_logits(
        self, states: Tensor, count: Number, candidates: Candidates | None = None
    ) -> Tensor:
        return self.model.logits(states[: count.value])  # all: a capture knows no candidates

    def rank_candidates(
        self, logits: Tensor, context: Tensor, table: Tensor, candidates: Candidates, count: int
    ) -> Tensor:
        return super().rank_candidates(logits, context.float(), table, candidates, count)

    def of_groups(self, output: Linear, x: Tensor, best: Tensor, groups: Groups) -> Tensor:
        """See ``EagerOperations``. The kernels read the chosen groups alone, as experts."""
        if output not in self._by_group:
            assert isinstance(output, BulkLinear)
            experts = in_groups(output.weight, groups.count)
            self._by_group[output] = make_stacked(experts, PLAIN, groups.kept)
        return self._by_group[output](x.expand(groups.kept, -1), None, best.int())

    def new_memory(self, architecture: Architecture, device: torch.device) -> HeadMemory:
        reason = SUPPORT.why_not(architecture, "fp32") or wrong_width(architecture)
        # Not the devices: "cuda" in a plan is "cuda:0" of a tensor.
        if reason is not None or device.type != self.device.type:
            raise Unsupported(reason or f"it is on {device}")
        rotation = self.model.attention.rotation(architecture.attentions[0])
        return HeadMemory(architecture, self.state.context, device, rotation)

    def remember(
        self, keys_values: Tensor, memory: operations.Memory, norms: Tensor, rows: Rows
    ) -> None:
        assert isinstance(memory, HeadMemory)
        position, count = self._first(rows), len(memory.layers)
        for each, norm, kv in zip(
            keys_values.chunk(count, dim=1), norms, memory.layers, strict=True
        ):
            self._store(each, kv, position, memory, norm)

    def attend(
        self, qkv: Tensor, memory: operations.Memory, layer: int, norms: Tensor | None, rows: Rows
    ) -> Tensor:
        assert isinstance(memory, HeadMemory)
        spec, kv, position = memory.attentions[layer], memory.layers[layer], self._first(rows)
        query = self._store(qkv, kv, position, memory, norms)
        past = rows.start.value + rows.offset  # right where the host has set it, as in a prompt
        if len(query) > STREAMED_ROWS and spec.causal and is_plain(spec, kv, past + len(query)):
            return attend_prompt(query, kv, past)
        return self.model.attention.attend(query, kv, position, spec)

    def attend_to_target(
        self,
        queries: Tensor,
        attention: Attention,
        epsilon: float,
        norms: Tensor | None,
        rows: Rows,
    ) -> Tensor:
        window, rotation = attention.window, self.model.attention.rotation(attention)
        kv, position = self.state.last(window is not None), self._first(rows)
        query = rope_and_store(
            queries.contiguous(), kv, position, rotation=rotation, norm=norms, epsilon=epsilon,
            stores=False,
        )  # fmt: skip
        # The row before it is the last that the target has read.
        spec = attention if window is None else replace(attention, window=window - 1)
        return self.model.attention.attend(query, kv, position - 1, spec)

    def unroll(
        self,
        most: int,
        read: Callable[[], R],
        steps: Callable[[Tokens, R], Iterator[Tensor]],
        target_ids: Tensor | Candidates | None = None,
    ) -> HeadDraft[R]:
        targets = None if isinstance(target_ids, Candidates) else target_ids
        return HeadDraft(most, read, steps, targets)

    def round_drafter(self, head: RoundHead) -> HeadDrafter:
        return HeadDrafter(head, self.state.context, self.device)

    def _aux(self, aux_layer: AuxLayer) -> Tensor:
        assert self.state.aux is not None
        return self.state.aux.at(aux_layer)

    def _at(self, table: Tensor, rows: Rows) -> Tensor:
        return table.index_select(0, self._positions(rows, rows.count.value, len(table)))

    def _first(self, rows: Rows) -> Tensor:
        """Return the position of the first row: int32 (1,)."""
        start = rows.start.on(self.device)
        return start + rows.offset if rows.offset else start

    def _positions(self, rows: Rows, count: int, end: int) -> Tensor:
        """Return the positions of ``count`` rows, each below ``end``: int32 (count,)."""
        first = self._first(rows)
        if count > 1:
            first = first + torch.arange(count, dtype=torch.int32, device=self.device)
        return first.clamp_max(end - 1)

    def _store(
        self, qkv: Tensor, kv: LayerKV, position: Tensor, memory: HeadMemory, norms: Tensor | None
    ) -> Tensor:
        """Store keys and values from ``position`` on; return the queries, if ``qkv`` has any."""
        return rope_and_store(
            qkv.contiguous(),
            kv,
            position,
            rotation=memory.rotation,
            norm=None if norms is None else norms.contiguous(),
            epsilon=memory.epsilon,
        )


class HeadMemory:
    """See ``Memory``. Its rows have a fixed place, and later ones overwrite those of rejected drafts."""

    def __init__(
        self,
        architecture: Architecture,
        context: int,
        device: torch.device,
        rotation: Tensor | None,
    ) -> None:
        self.attentions, self.epsilon = architecture.attentions, architecture.epsilon
        self.rotation = rotation
        self.layers = StaticKVCache(architecture.kv_sizes, capacity=context, device=device).slots

    def reserve(self, rows: int) -> None:
        """Do nothing: rows beyond the context are not stored."""

    def clear(self) -> None:
        """Do nothing: graphs hold its addresses."""


class HeadDraft(EagerDraft[R]):
    """See ``Draft``. The host may read and write its operands, or a round."""

    def __init__(
        self,
        most: int,
        read: Callable[[], R],
        steps: Callable[[Tokens, R], Iterator[Tensor]],
        target_ids: Tensor | None,
    ) -> None:
        super().__init__(most, read, steps, None)
        self._targets = target_ids

    @property
    def inputs(self) -> R:
        """What was read last."""
        return self._inputs

    def restart(self) -> None:
        """Begin a draft after the token that the device has in ``chain[0]``."""
        self._remaining = self._steps(self.chain, self._inputs)

    @torch.inference_mode()
    def read(self) -> None:
        """See ``Draft``. What was read is kept in one place, which graphs read."""
        before = getattr(self, "_inputs", None)
        super().read()
        if isinstance(before, Tensor):
            self._inputs = cast(R, before.copy_(cast(Tensor, self._inputs)))

    def begin(self, pending: int, *, read: bool = True) -> None:
        if read:
            self.read()
        super().begin(pending, read=False)

    def logits(self, step: int) -> Tensor:
        return super().logits(step).float()

    @torch.inference_mode()
    def write(
        self, depth: int, draws: Draws | None = None, floor: float = 0.0
    ) -> tuple[list[int], list[float]]:
        """See ``Draft``. Without a floor, the host waits once for all tokens."""
        assert draws is None
        chosen: list[Tensor] = []
        joint = 1.0
        for step in range(depth):
            p, token = torch.softmax(self.logits(step), dim=-1).max(dim=-1)
            token = token if self._targets is None else self._targets[token]
            self.chain.on(token.device)[step + 1 : step + 2].copy_(token)
            chosen.append(torch.stack([token.double(), p.double()]))
            if floor and (joint := joint * float(p)) < floor:
                break
        tokens, probabilities = torch.cat(chosen, dim=1).tolist()
        drafted = slice(1, len(chosen) + 1)
        self.chain[drafted] = list(map(int, tokens))
        return self.chain[drafted], probabilities


class HeadDrafter:
    """See ``RoundDrafter``: a head, whose drafts read and write its operands on the device."""

    def __init__(self, head: RoundHead, context: int, device: torch.device) -> None:
        assert isinstance(head.draft, HeadDraft)
        self.head, self.context, self.device = head, context, device
        self.steps, self.spreads, self._draft = head.steps, head.spreads, head.draft
        nothing = torch.zeros(1, dtype=torch.int32, device=device)
        self.read(nothing, nothing.long(), nothing)  # what is read gets its place

    @property
    def changed(self) -> Sequence[Tensor]:
        read = [self._draft.inputs] if isinstance(self._draft.inputs, Tensor) else []
        return [*self.head.places(self.device), *read]

    def draft(self, text: Tensor, length: Tensor, drafted: Tensor, depth: int) -> Iterator[Tensor]:
        chain = self._draft.chain.on(self.device)
        chain[:1].copy_(text[1:])
        self.head.begin_round(depth, text[1:])
        self._draft.restart()
        for step in range(depth):
            if step:
                chain[step : step + 1].copy_(drafted[step - 1 : step])
            yield self.head.on_target(self._draft.logits(step))

    def read(self, start: Tensor, emitted: Tensor, accepted: Tensor) -> None:
        self.head.place(start, emitted, accepted)
        self._draft.read()
