"""The responses that are kept, so that another may go on from one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.server.errors import ApiError
from engine.values.messages import Message

Json = dict[str, Any]

MOST_KEPT = 1000
"""Responses kept; of more, those that were not used for the longest time go."""
MOST_CHARACTERS = 64 * 2**20
"""Of all kept conversations together."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A response, what it answered, and the conversation up to its end."""

    response: Json
    input: tuple[Json, ...]
    messages: tuple[Message, ...]

    @property
    def id(self) -> str:
        found: str = self.response["id"]
        return found

    @property
    def characters(self) -> int:
        """About what it holds."""
        return sum(
            len(message.content) + sum(len(call.arguments) for call in message.tool_calls)
            for message in self.messages
        )

    def items(self) -> Iterator[Json]:
        """What it answered and what it said."""
        yield from self.input
        yield from self.response["output"]


class ResponseStore:
    """Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._items: dict[str, tuple[Json, Kept]] = {}  # by their ids, with the last that has them
        self._characters = 0

    def put(self, kept: Kept) -> None:
        """Keeps one; others may go for it."""
        self._kept[kept.id] = kept
        self._items |= {item["id"]: (item, kept) for item in kept.items()}
        self._characters += kept.characters
        while len(self._kept) > MOST_KEPT or self._characters > MOST_CHARACTERS:
            self._forget(next(iter(self._kept.values())))

    def get(self, name: str, param: str | None = None) -> Kept:
        """Raises a 404 for one that is not there."""
        if name not in self._kept:
            raise ApiError(
                404,
                f"There is no response {name!r}. Responses are kept until Foretoken ends, the last "
                f"{MOST_KEPT} at most, and not those sent with store: false.",
                code="response_not_found",
                param=param,
            )
        self._kept.move_to_end(name)
        return self._kept[name]

    def item(self, name: str, param: str) -> Json:
        """An item of a response that is kept. Raises a 404 for one that is not there."""
        if name not in self._items:
            raise ApiError(
                404,
                f"{param}: there is no item {name!r} in a response that is kept. Send the item itself.",
                code="item_not_found",
                param=param,
            )
        return self._items[name][0]

    def remove(self, name: str) -> None:
        """Raises a 404 for one that is not there."""
        self._forget(self.get(name))

    def _forget(self, kept: Kept) -> None:
        del self._kept[kept.id]
        self._characters -= kept.characters
        for item in kept.items():
            if item["id"] in self._items and self._items[item["id"]][1] is kept:
                del self._items[item["id"]]
