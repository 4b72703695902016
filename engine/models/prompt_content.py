"""What a prompt holds beside text, for executors: rows with their own embeddings, and places in images.

It belongs to a sequence's state, since it is found by position. Text alone has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ContentRows:
    """Rows of an image, from position ``start`` on.

    grid        rows and columns of the image's cells, each of which is a row here
    embeddings  (rows, hidden) float32, not scaled any more; None if the state holds the rows already
    """

    start: int
    grid: tuple[int, int]
    embeddings: Tensor | None = None

    @property
    def end(self) -> int:
        return self.start + math.prod(self.grid)


@dataclass(frozen=True)
class PromptContent:
    """The images of a prompt, in order; at least one."""

    parts: tuple[ContentRows, ...]

    @property
    def end(self) -> int:
        """The position behind the last image."""
        return self.parts[-1].end

    @cached_property
    def axes(self) -> Tensor:
        """Time, row and column of each position before ``end``: int32 (end, 3).

        In an image time stands still, and its longer side is how far it moves the text behind it
        (Qwen2-VL, arXiv 2409.12191).
        """
        result = torch.empty(self.end, 3, dtype=torch.int32)
        at = now = 0
        for part in self.parts:
            text = part.start - at
            result[at : part.start] = torch.arange(now, now + text, dtype=torch.int32)[:, None]
            at, now = part.end, now + text
            rows, columns = part.grid
            cells = result[part.start : part.end].view(rows, columns, 3)
            cells[..., 0] = now
            cells[..., 1] = now + torch.arange(rows, dtype=torch.int32)[:, None]
            cells[..., 2] = now + torch.arange(columns, dtype=torch.int32)
            now += max(rows, columns)
        return result

    @cached_property
    def shift(self) -> int:
        """How far positions behind ``end`` are from the number of rows before them."""
        return int(self.axes[-1].max()) + 1 - self.end

    def positions(self, start: int, end: int) -> Tensor:
        """Return time, row and column of positions ``start`` to ``end - 1``: int32 (end - start, 3)."""
        first = max(start, self.end) + self.shift
        behind = torch.arange(first, max(end, self.end) + self.shift, dtype=torch.int32)
        return torch.cat([self.axes[start:end], behind[:, None].expand(-1, 3)])

    def embeddings(self, start: int, end: int) -> Iterator[tuple[int, Tensor]]:
        """Yield the embeddings of positions ``start`` to ``end - 1``: at which of these they begin, and
        the rows."""
        for part in self.parts:
            first, last = max(start, part.start), min(end, part.end)
            if first < last:
                assert part.embeddings is not None, "an image was not computed"
                yield first - start, part.embeddings[first - part.start : last - part.start]
