"""Images in messages of a body: data URLs, and base64 in Ollama's form."""

from __future__ import annotations

import base64
import binascii
import re

from app.server.errors import ApiError
from engine.values.image import MAX_IMAGE_BYTES

_DATA = re.compile(r"data:[\w.+/-]*(?:;[\w=.+-]+)*;base64,", re.ASCII | re.IGNORECASE)
"""The type is not asked for: the file itself says what it is."""


def image_at(address: str, path: str) -> bytes:
    """Return the file in a data URL. Raises ApiError for another address: nothing is fetched."""
    head = _DATA.match(address[:200])
    if head is None:
        raise ApiError(
            400,
            f"{path}: send images as data URLs (data:image/png;base64,...). This server "
            "does not download images from addresses.",
            code="unsupported_value",
            param=path,
        )
    return file_in(address[head.end() :], path)


def file_in(encoded: str, path: str) -> bytes:
    """Return the file in base64. Raises ApiError."""
    if len(encoded) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise _wrong(path, f"is larger than {MAX_IMAGE_BYTES >> 20} MiB")
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise _wrong(path, "is not base64") from None
    if not data:
        raise _wrong(path, "is empty")
    return data


def _wrong(path: str, what: str) -> ApiError:
    return ApiError(400, f"{path} {what}.", code="invalid_value", param=path)
