"""Bodies as they come from the wire: bounded in bytes and in time, checked field by field."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request as HttpRequest

from app.server.errors import ApiError
from app.server.schemas import parse

LARGEST_BODY = 16 * 2**20
"""Bytes; the longest context a model may have is far below this."""
BODY_S = 30.0
"""Seconds for all of a body."""

Body = TypeVar("Body", bound=BaseModel)


async def read(http: HttpRequest, kind: type[Body]) -> tuple[Body, bytes]:
    """The request's body, whatever content type it claims, and as it came. Raises a 400, 408 or 413."""
    try:
        async with asyncio.timeout(BODY_S):
            raw = await _whole(http)
    except TimeoutError:
        raise ApiError(
            408,
            f"The body did not come within {BODY_S:g} seconds. Send the request again.",
            code="request_timeout",
            hang_up=True,
        ) from None
    return parse(kind, raw), raw


async def _whole(http: HttpRequest) -> bytes:
    raw = bytearray()
    async for part in http.stream():
        raw += part
        if len(raw) > LARGEST_BODY:
            raise ApiError(
                413, f"The body is larger than {LARGEST_BODY >> 20} MiB.", code="too_large"
            )
    return bytes(raw)
