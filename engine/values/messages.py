"""The turns of a chat. Images are the bytes of files, as somebody sent them, and are not decoded here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from engine.values.tools import ToolCall

MAX_IMAGE_BYTES = 16 << 20
"""Bytes of an image's file, at most."""
MAX_IMAGES = 32
"""Images of a request, at most."""


@dataclass(frozen=True, slots=True)
class Image:
    """A PNG, JPEG, WebP or GIF file. ``place``: how many characters of the message's text come before."""

    data: bytes = field(repr=False)
    place: int = 0

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the bytes."""
        return hashlib.sha256(self.data).digest()


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat: role ``system``, ``user``, ``assistant`` or ``tool``.

    ``reasoning``: an assistant's earlier thoughts; the chat template decides which are rendered.
    ``tool_calls`` are an assistant's; ``tool_call_id`` and ``name`` identify the call and the tool
    that a tool's message answers. ``images``: in the order of their places in ``content``.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str = ""
    images: tuple[Image, ...] = ()


def pieces(message: Message) -> Iterator[str | Image]:
    """Yield the text and the images of a message in their order, no empty text."""
    at = 0
    for image in message.images:
        if text := message.content[at : image.place]:
            yield text
        yield image
        at = max(at, image.place)
    if text := message.content[at:]:
        yield text


def with_text(message: Message, change: Callable[[str], str]) -> Message:
    """Return the message with ``change`` applied to its text, and images at the same places in it."""
    if not message.images:
        return replace(message, content=change(message.content))
    content, images = "", []
    for each in pieces(message):
        if isinstance(each, str):
            content += change(each)
        else:
            images.append(replace(each, place=len(content)))
    return replace(message, content=content, images=tuple(images))
