"""Follows a measurement as a page does, without one."""

from __future__ import annotations

import asyncio
from typing import Any

from app.ui.rounds.measurements import Measurements


def followed(measurements: Measurements, page: str, number: int | None) -> list[Any]:
    """All events of it, once it has ended."""

    async def events() -> list[Any]:
        found: list[Any] = []
        while True:
            packet = await measurements.follow(page, {"number": number, "from": len(found)})
            assert packet is not None, "nobody knows it"
            found += packet["events"]
            if packet["done"]:
                return found

    return asyncio.run(events())
