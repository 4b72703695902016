"""Losses through an output matrix as large as a vocabulary, without all logits in memory at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

HEAD_ROWS = 256  # logits of so many positions at once: 4 MB in fp32, they stay in cache


class _HeadLoss(torch.autograd.Function):
    """Cross-entropy through the head with the gradient made in the forward pass, a slice at a time.

    The logits of all positions never exist together (the idea of Liger's fused linear cross-entropy).
    ``goal`` is the target distribution of a slice of positions, (count, vocabulary).
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, goal: Goal) -> Tensor:
        total = torch.zeros((), device=hidden.device)
        grad_hidden = torch.empty_like(hidden)
        learns = ctx.needs_input_grad[1]
        grad_head = torch.zeros(head.shape, device=head.device) if learns else None  # fp32: sums
        for rows in slices(len(hidden)):
            part = hidden[rows]
            log_q = torch.log_softmax(F.linear(part, head).float(), -1)
            loss, slope = goal.loss_and_slope(log_q, rows)
            total += loss
            slope = slope.to(hidden.dtype)
            grad_hidden[rows] = slope @ head
            if grad_head is not None:
                grad_head += slope.t() @ part
        ctx.save_for_backward(grad_hidden, None if grad_head is None else grad_head.to(head.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None]:
        hidden, head = ctx.saved_tensors
        to_head = None if head is None else head * grads[0].to(head.dtype)
        return hidden * grads[0].to(hidden.dtype), to_head, None


class Goal(Protocol):
    """The target distribution of a slice of positions."""

    def loss_and_slope(self, log_q: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        """Return the slice's summed loss in nats, and its gradient by the logits; may change ``log_q``
        (count, vocabulary)."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The correct token of every position."""

    labels: Tensor

    def loss_and_slope(self, log_q: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        labels = self.labels[rows, None]
        loss = -log_q.gather(1, labels).sum()
        return loss, log_q.exp_().scatter_add_(1, labels, log_q.new_full(labels.shape, -1.0))


@dataclass(frozen=True, slots=True)
class Teacher:
    """The target's distribution, mixed with a share ``hard`` of the correct token.

    hidden (positions, width) and head (vocabulary, width) are the target's; the loss is
    hard * cross-entropy + (1 - hard) * KL(p || q).
    """

    hidden: Tensor
    head: Tensor
    labels: Tensor
    hard: float

    def loss_and_slope(self, log_q: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        log_p, labels = self._log_p(rows), self.labels[rows, None]
        p = log_p.exp()
        divergence, plain = (p * (log_p - log_q)).sum(), -log_q.gather(1, labels).sum()
        slope = log_q.exp_().sub_(p, alpha=1 - self.hard)
        slope.scatter_add_(1, labels, slope.new_full(labels.shape, -self.hard))
        return (1 - self.hard) * divergence + self.hard * plain, slope

    def _log_p(self, rows: slice) -> Tensor:
        return torch.log_softmax(F.linear(self.hidden[rows], self.head).float(), -1)


@dataclass(frozen=True, slots=True)
class CachedTeacher(Teacher):
    """A teacher with cached distributions: row i is ``log_p[at[i]]``."""

    log_p: Tensor
    at: Tensor

    def _log_p(self, rows: slice) -> Tensor:
        return self.log_p[self.at[rows]]


def head_loss(hidden: Tensor, head: Tensor, goal: Goal) -> Tensor:
    """Return the summed loss in nats; ``hidden`` (count, width), ``head`` (vocabulary, width)."""
    if torch.is_grad_enabled():
        loss: Tensor = _HeadLoss.apply(hidden, head, goal)  # type: ignore[no-untyped-call]
        return loss
    total = torch.zeros((), device=hidden.device)
    for rows in slices(len(hidden)):
        log_q = torch.log_softmax(F.linear(hidden[rows], head).float(), -1)
        total += goal.loss_and_slope(log_q, rows)[0]
    return total


def slices(count: int) -> Iterator[slice]:
    """Yield slices of ``count`` positions, HEAD_ROWS at a time."""
    for start in range(0, count, HEAD_ROWS):
        yield slice(start, start + HEAD_ROWS)
