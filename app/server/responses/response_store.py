"""Stored responses, from which another one can continue, and the pages in which their input is listed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.server.errors import ApiError
from app.server.fields.schemas import checked
from app.server.sending import Json, encode
from engine.errors import InvalidRequest
from engine.values.messages import Message

MOST_STORED = 1000
"""Responses stored, at most; the least recently used ones go."""
MOST_BYTES = 64 * 2**20
"""Bytes of all stored responses together, at most, each with its input and conversation."""


@dataclass(frozen=True)
class StoredResponse:
    """A response, its input items, and the conversation up to its end."""

    response: Json
    input: tuple[Json, ...]
    messages: tuple[Message, ...]

    @property
    def id(self) -> str:
        return str(self.response["id"])

    @cached_property
    def size(self) -> int:
        """Its approximate size in bytes. The response also holds the request's tools and metadata."""
        conversation = sum(
            len(message.content)
            + len(message.reasoning)
            + sum(len(call.arguments) for call in message.tool_calls)
            + sum(len(image.data) for image in message.images)
            for message in self.messages
        )
        return conversation + len(encode([self.response, self.input]))

    def items(self) -> Iterator[Json]:
        """Yield the items of input and output."""
        yield from self.input
        yield from self.response["output"]


class ResponseStore:
    """All stored responses. For the event loop's thread alone."""

    def __init__(self) -> None:
        self._stored: OrderedDict[str, StoredResponse] = OrderedDict()
        self._items: dict[str, Json] = {}  # by ids, which only who got them knows
        self._size = 0

    def put(self, stored: StoredResponse) -> None:
        """Store a response, and drop old ones beyond the bounds."""
        self._stored[stored.id] = stored
        self._items |= {item["id"]: item for item in stored.items()}
        self._size += stored.size
        while len(self._stored) > MOST_STORED or self._size > MOST_BYTES:
            self._forget(next(iter(self._stored.values())))

    def get(self, name: str, param: str | None = None) -> StoredResponse:
        """Return a response. Raises a 404 if it is not stored."""
        if name not in self._stored:
            raise ApiError(
                404,
                f"There is no response {name!r}. Foretoken keeps the last {MOST_STORED} "
                "responses while it runs, except those sent with store: false.",
                code="response_not_found",
                param=param,
            )
        self._stored.move_to_end(name)
        return self._stored[name]

    def item(self, name: str, param: str) -> Json:
        """Return an item of a stored response. Raises a 404 if there is none."""
        if name not in self._items:
            raise ApiError(
                404,
                f"{param}: no stored response has an item {name!r}. Send the item itself.",
                code="item_not_found",
                param=param,
            )
        return self._items[name]

    def remove(self, name: str) -> None:
        """Remove a response. Raises a 404 if it is not stored."""
        self._forget(self.get(name))

    def _forget(self, stored: StoredResponse) -> None:
        del self._stored[stored.id]
        self._size -= stored.size
        for item in stored.items():
            del self._items[item["id"]]


class PageQuery(BaseModel):
    """The query of a list: the last items first, and twenty at most, as in OpenAI's API. ``after``: the
    id of the item before the page."""

    order: Literal["asc", "desc"] = "desc"
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    after: str | None = None


def page(items: Sequence[Json], query: Mapping[str, str]) -> Json:
    """Return a page of ``items``, which are oldest first. Raises ApiError or InvalidRequest."""
    wanted = checked(PageQuery, dict(query))
    ordered = list(items if wanted.order == "asc" else reversed(items))
    ids, first = [item["id"] for item in ordered], 0
    if wanted.after is not None:
        if wanted.after not in ids:
            raise InvalidRequest(
                "after", f"after is {wanted.after[:80]!r}, which is not an item here."
            )
        first = ids.index(wanted.after) + 1
    last = first + wanted.limit
    shown = ids[first:last]
    return {
        "object": "list",
        "data": ordered[first:last],
        "first_id": shown[0] if shown else None,
        "last_id": shown[-1] if shown else None,
        "has_more": last < len(ids),
    }
