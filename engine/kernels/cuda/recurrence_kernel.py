"""The kernel of recurrences: gated delta nets (arXiv 2412.06464) and Mamba-2 (arXiv 2405.21060).

A program has a part of one head's state S (key_dim, value_dim), and takes in one row after the other:

    gated delta net:  S <- exp(g) S;   S <- S + k (beta (v - S^T k))^T;   output = S^T q
    Mamba-2:          S <- exp(dt A) S + B (dt x)^T;                      output = S^T C + D x

Rows since the stored state come first, so verification may compute rows that are rejected later: the next
launch begins with those that were not. It is one loop, so a row's bits do not depend on how often it is
taken in, nor beside which rows. Each row of a tree has programs of its own, which take in its ancestors.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.values import MAX_ROWS

_MOST = tl.constexpr(MAX_ROWS)
_L2_EPSILON = tl.constexpr(1e-6)


@triton.jit
def _input(
    inputs: tl.tensor, kept: tl.tensor, branch: tl.tensor, column: tl.tensor, inside: tl.tensor,
    position: tl.tensor, now: tl.tensor, width: tl.tensor, KEPT: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return columns of the row at ``position``, float32; zeros before the first.

    ``branch``: the rows at the positions from ``now`` on; None: one after the other.
    """
    number = position - now
    if branch is not None:
        number = tl.load(branch + number, mask=number >= 0, other=0)
    own = inputs + number * width
    row = tl.where(position >= now, own, kept + (position + KEPT) % KEPT * width)
    values = tl.load(row + column, mask=inside, other=0.0).to(tl.float32)
    return tl.where(position >= 0, values, 0.0)


@triton.jit
def _convolved(
    inputs: tl.tensor, kept: tl.tensor, branch: tl.tensor, taps: tl.tensor, bias: tl.tensor,
    channel: tl.tensor, inside: tl.tensor, position: tl.tensor, now: tl.tensor, width: tl.tensor,
    FIRST: tl.constexpr, CHANNELS: tl.constexpr, KERNEL: tl.constexpr, KEPT: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return silu of channels convolved with those of the rows before."""
    total = tl.zeros(channel.shape, tl.float32)
    for tap in tl.static_range(KERNEL):
        at = position - (KERNEL - 1) + tap
        values = _input(inputs, kept, branch, FIRST + channel, inside, at, now, width, KEPT)
        total += values * tl.load(taps + tap * CHANNELS + channel, mask=inside, other=0.0)
    if bias is not None:
        total += tl.load(bias + channel, mask=inside, other=0.0)
    return total * tl.sigmoid(total)


@triton.jit
def _unit(x: tl.tensor) -> tl.tensor:
    """Return a vector scaled to length one."""
    return x * tl.div_rn(1.0, tl.sqrt_rn(tl.sum(x * x, 0) + _L2_EPSILON))


@triton.jit
def _softplus(x: tl.tensor) -> tl.tensor:
    """Return log(1 + exp(x)); by its series where adding 1 would lose digits."""
    e = tl.exp(tl.minimum(x, 20.0))
    series = e * (1 - e * (0.5 - e * (1 / 3 - e * 0.25)))
    return tl.where(x > 20.0, x, tl.where(e < 0.015625, series, tl.log(1 + e)))


@triton.jit(do_not_specialize=["rows"])  # one program for every number of rows
def take_in_rows(
    inputs: tl.tensor,  # (rows, width): the linear layer's outputs
    kept: tl.tensor,  # (KEPT, width): those of the rows before, at their positions modulo KEPT
    taps: tl.tensor,  # (KERNEL, CHANNELS) float32
    bias: tl.tensor,  # (CHANNELS,) float32, or None
    decay: tl.tensor,  # (heads,) float32: A
    rate_bias: tl.tensor,  # (heads,) float32
    skip: tl.tensor,  # (heads,) float32: D; None: a gated delta net
    state: tl.tensor,  # (heads, KEY_DIM, VALUE_DIM) float32, after ``base`` rows
    result: tl.tensor,  # (rows, heads, VALUE_DIM) float32
    length: tl.tensor,  # (1,) int32: the position of row 0
    base: tl.tensor,  # (1,) int32
    committed: tl.tensor,  # (1,) int32: how many rows are certain
    tree: tl.tensor,  # see trees.py; None: a chain
    rows: tl.tensor,
    width: tl.tensor,
    scale: tl.tensor,  # of queries
    FIRST: tl.constexpr,  # column of the first channel
    QUERY: tl.constexpr,  # channel of the first query
    KEY: tl.constexpr,
    VALUE: tl.constexpr,
    RATE: tl.constexpr,  # column of the first head's rate; betas follow them
    CHANNELS: tl.constexpr,
    KERNEL: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    GROUP: tl.constexpr,  # heads that share keys and queries
    TILED: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    PADDED: tl.constexpr,  # the power of two >= KEY_DIM
    BLOCK: tl.constexpr,  # values of a program
    KEPT: tl.constexpr,
) -> None:
    """Write the outputs of rows, and the state after ``committed`` of them. Program: (values, head).

    Of more rows than a round has, all but the last 16 are certain. Of a tree, write the outputs of all
    but the first; ``state`` is that before the tree. Program: (values, head, row).
    """
    head = tl.program_id(1)
    now, start = tl.load(length), tl.load(base)
    certain = tl.load(committed) + tl.maximum(rows - _MOST, 0)
    key_head = head % KEY_HEADS if TILED else head // GROUP
    key, value = tl.arange(0, PADDED), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key_inside, value_inside = key < KEY_DIM, value < VALUE_DIM
    at = state + (head * KEY_DIM + key)[:, None] * VALUE_DIM + value[None, :]
    inside = key_inside[:, None] & value_inside[None, :]
    memory = tl.load(at, mask=inside, other=0.0)
    own_decay, own_bias = tl.load(decay + head), tl.load(rate_bias + head)
    heads = tl.num_programs(1)
    branch, own, first = tree, 0, 0
    if tree is not None:
        own = tl.program_id(2) + 1
        branch = tree + (own + 1) * _MOST
        start, first = now, tl.load(tree + own)
        rows = first + 1
    for step in range(start - now, rows):
        position = now + step
        if (position == certain) & (certain > start):
            tl.store(at, memory, mask=inside)
        q = _convolved(
            inputs, kept, branch, taps, bias, QUERY + key_head * KEY_DIM + key, key_inside,
            position, now, width, FIRST, CHANNELS, KERNEL, KEPT,
        )  # fmt: skip
        k = _convolved(
            inputs, kept, branch, taps, bias, KEY + key_head * KEY_DIM + key, key_inside,
            position, now, width, FIRST, CHANNELS, KERNEL, KEPT,
        )  # fmt: skip
        v = _convolved(
            inputs, kept, branch, taps, bias, VALUE + head * VALUE_DIM + value, value_inside,
            position, now, width, FIRST, CHANNELS, KERNEL, KEPT,
        )  # fmt: skip
        rate = _input(inputs, kept, branch, RATE + head, True, position, now, width, KEPT)
        rate = _softplus(rate + own_bias)
        memory = memory * tl.exp(own_decay * rate)
        if skip is None:
            q, k = _unit(q) * scale, _unit(k)
            column = RATE + heads + head
            beta = _input(inputs, kept, branch, column, True, position, now, width, KEPT)
            v = (v - tl.sum(memory * k[:, None], 0)) * tl.sigmoid(beta)
            memory += k[:, None] * v[None, :]
            output = tl.sum(memory * q[:, None], 0)
        else:
            memory += k[:, None] * (v * rate)[None, :]
            output = tl.sum(memory * q[:, None], 0) + v * tl.load(skip + head)
        if step >= first:
            row = step if tree is None else own
            tl.store(result + (row * heads + head) * VALUE_DIM + value, output, mask=value_inside)
