"""Read request bodies, bounded in bytes and time."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request as HttpRequest

from app.server.errors import ApiError, Refused, refuse
from app.server.fields.schemas import MAX_IDS, parse
from engine.files import TooMany, check_counts

LARGEST_BODY = 16 * 2**20
"""Bytes, at most; far above any model's context."""
MOST_CONTAINERS = 2**17
"""Lists and objects of a body. Parsing megabytes of empty ones blocks the server for many seconds."""
MOST_VALUES = MAX_IDS + MOST_CONTAINERS
BODY_S = 30.0
"""Seconds for all of a body."""

Body = TypeVar("Body", bound=BaseModel)


async def read(http: HttpRequest, kind: type[Body], refused: Refused) -> Body:
    """Return the request's body, whatever its content type. Raises a 400, 408 or 413.

    ``refused``: fields that must have harmless values."""
    try:
        async with asyncio.timeout(BODY_S):
            raw = await _whole(http)
    except TimeoutError:
        raise ApiError(
            408,
            f"The body did not arrive within {BODY_S:g} seconds. Send the request again.",
            code="request_timeout",
            hang_up=True,
        ) from None
    try:
        check_counts(raw, MOST_CONTAINERS, MOST_VALUES)
    except TooMany as error:
        raise ApiError(413, f"The body has {error}. Send less at once.", code="too_large") from None
    body = parse(kind, raw, refused)
    refuse(body, refused)
    return body


async def _whole(http: HttpRequest) -> bytes:
    raw = bytearray()
    declared = int(http.headers.get("content-length", 0))  # h11 accepts only digits
    async for part in http.stream():
        raw += part
        if max(len(raw), declared) > LARGEST_BODY:
            raise ApiError(
                413, f"The body is larger than {LARGEST_BODY >> 20} MiB.", code="too_large"
            )
    return bytes(raw)
