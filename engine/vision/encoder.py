"""Images of requests for one loaded model: placeholders at once, rows of embeddings when they are needed.

Files are decoded on the caller's thread, so that a request with a damaged one is refused before it waits.
Towers run on a thread of their own: other requests go on, and a request can be cancelled meanwhile.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from concurrent import futures
from typing import Generic, TypeVar

import torch
from torch import Tensor

from engine.errors import InvalidRequest
from engine.machine import threads
from engine.models.prompt_content import ContentRows, PromptContent
from engine.values.messages import Image
from engine.values.prompt import OpaquePart, Prompt, TokenPart
from engine.vision.pictures import decode
from engine.vision.plan import VisionPlan
from engine.vision.towers import Cancelled, Pixels, Tower

_KEPT_PIXELS, _KEPT_ROWS = 16, 16
"""Images whose pixels, and whose embeddings, are kept: 3 MB and up to 20 MB each."""

T = TypeVar("T")


class _Recent(Generic[T]):
    """The last values by key. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._values: OrderedDict[bytes, T] = OrderedDict()

    def get(self, key: bytes) -> T | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: bytes, value: T) -> None:
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)


class ImageEncoder:
    """Sees images for one model."""

    def __init__(
        self, plan: VisionPlan, token: int, device: torch.device, count: int | None
    ) -> None:
        """``token`` is the placeholder; ``count``: threads, None for the default."""
        self.token = token
        self._tower, self._count = Tower(plan, device), count
        self._pixels: _Recent[Pixels] = _Recent(_KEPT_PIXELS)
        self._rows: _Recent[Tensor] = _Recent(_KEPT_ROWS)
        self._thread = futures.ThreadPoolExecutor(1, "images")

    def prompt(self, tokens: Sequence[int], images: Sequence[Image]) -> Prompt:
        """Return the prompt, with a placeholder for each row of an image where ``tokens`` have one for
        each image. Raises InvalidRequest for images that cannot be read. Thread-safe."""
        if not images:
            return Prompt.of(tokens)
        if tokens.count(self.token) != len(images):
            raise InvalidRequest(
                "messages",
                "This model's chat template does not say where images go, so they cannot be sent. Load "
                "another file of this model.",
            )
        parts: list[TokenPart | OpaquePart] = []
        text: list[int] = []
        left = iter(enumerate(images, 1))
        for token in tokens:
            if token != self.token:
                text.append(token)
                continue
            number, image = next(left)
            name = "image" if len(images) == 1 else f"image {number}"
            parts += [TokenPart(tuple(text)), self._part(image, name)]
            text = []
        return Prompt((*parts, TokenPart(tuple(text))))

    def _part(self, image: Image, name: str) -> OpaquePart:
        digest = image.digest
        pixels = self._pixels.get(digest)
        if pixels is None:
            pixels = self._tower.scaled(decode(image.data, name))
            self._pixels.put(digest, pixels)
        return OpaquePart((self.token,) * math.prod(pixels.grid), digest, pixels)

    def content(
        self, prompt: Prompt, length: int, cancelled: Callable[[], bool], wait: float
    ) -> Generator[None, None, PromptContent | None]:
        """Return what ``prompt`` holds beside text, or None; yield every ``wait`` seconds meanwhile.

        Images before position ``length`` are in the state already, and are not computed. Returns None
        if the request is cancelled. Raises ModelError.
        """
        found = []
        start = 0
        for part in prompt.parts:
            end = start + len(part.tokens)
            if isinstance(part, OpaquePart):
                assert isinstance(part.content, Pixels)
                rows = None
                if end > length:
                    rows = yield from self._embeddings(
                        part.content_hash, part.content, cancelled, wait
                    )
                    if rows is None:
                        return None
                found.append(ContentRows(start, part.content.grid, rows))
            start = end
        return PromptContent(tuple(found)) if found else None

    def _embeddings(
        self, digest: bytes, pixels: Pixels, cancelled: Callable[[], bool], wait: float
    ) -> Generator[None, None, Tensor | None]:
        """Return an image's rows, or None if the request is cancelled."""
        rows = self._rows.get(digest)
        if rows is not None:
            return rows
        future = self._thread.submit(self._compute, pixels, cancelled)
        while not futures.wait([future], wait).done:
            if cancelled():
                return None
            yield None
        try:
            rows = future.result()
        except Cancelled:
            return None
        self._rows.put(digest, rows)
        return rows

    def _compute(self, pixels: Pixels, cancelled: Callable[[], bool]) -> Tensor:
        with threads.using(self._count):
            return self._tower.embeddings(pixels, cancelled)

    def close(self) -> None:
        """Release the tower."""
        self._thread.shutdown(cancel_futures=True)
