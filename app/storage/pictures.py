"""Pictures among attachments: checked and made small when they are added; their bytes are read apart."""

from __future__ import annotations

import base64
import binascii
import io
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from app.storage.attachments import Attachment
from app.storage.rows import StoredMessage
from engine.errors import InvalidRequest
from engine.vision.pictures import decode

NOT_SEEN = "[There was a picture here. You cannot see it.]"
"""What a model reads instead of a picture, if it takes text alone."""
LARGEST_KEPT, LONGEST_SIDE = 1 << 20, 2048
"""Bytes, and pixels of a side, up to which a file is stored as it is. Models see less."""
_MARKS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_QUALITY = 90
_PIXELS, _FEWEST, _MOST = 32, 64, 1024
"""Pixels of a side of a token, and tokens of a picture: what most models make of it."""


def is_picture(start: bytes) -> bool:
    """Return whether a file that begins with ``start`` is a picture."""
    return start.startswith(_MARKS) and (start[:4] != b"RIFF" or start[8:12] == b"WEBP")


def read_picture(data: bytes, name: str) -> Attachment:
    """Return a picture as an attachment, made smaller if it is large. Raises InvalidRequest."""
    picture = decode(data, f"picture {name}")
    if len(data) > LARGEST_KEPT or max(picture.size) > LONGEST_SIDE or data.startswith(b"GIF8"):
        picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=_QUALITY)
        data = file.getvalue()
    width, height = picture.size
    return Attachment(name, kind="image", unit=f"{width}x{height}", data=data)


def media_type(data: bytes) -> str:
    """Return the media type of a stored picture."""
    kinds = {b"\x89PNG": "png", b"RIFF": "webp"}
    return "image/" + next((kind for mark, kind in kinds.items() if data.startswith(mark)), "jpeg")


def tokens_of(picture: Attachment) -> int:
    """Return about how many tokens a model makes of a picture."""
    width, _, height = picture.unit.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        return _MOST
    cells = math.ceil(int(width) / _PIXELS) * math.ceil(int(height) / _PIXELS)
    return min(max(cells, _FEWEST), _MOST)


# ---- bytes


def read_bytes(db: Any, numbers: Iterable[int]) -> dict[int, bytes]:
    """Return the bytes of these pictures, as far as they are there."""
    rows = db.execute(
        "select id, data from attachments where data is not null and id in "
        "(select value from json_each(?))",
        [json.dumps(list(numbers))],
    )
    return {number: bytes(data) for number, data in rows.fetchall()}


def with_bytes(files: Iterable[Attachment], known: dict[int, bytes]) -> tuple[Attachment, ...]:
    """Return attachments, pictures with their bytes."""
    return tuple(
        replace(each, data=known.get(each.id or 0, b"")) if each.kind == "image" else each
        for each in files
    )


def numbers_in(messages: Iterable[StoredMessage]) -> list[int]:
    """Return the numbers of all pictures in ``messages``."""
    files = (each for message in messages for each in message.files)
    return [each.id for each in files if each.kind == "image" and each.id is not None]


def written(picture: Attachment) -> dict[str, str]:
    """Return what a file has of a picture: its bytes, as text in base64."""
    return {"text": base64.b64encode(picture.data).decode("ascii")}


def read_written(picture: Attachment) -> Attachment | None:
    """Return the picture that ``written`` wrote, or None if it is none."""
    try:
        return read_picture(base64.b64decode(picture.text, validate=True), picture.name)
    except (binascii.Error, ValueError, InvalidRequest):
        return None
