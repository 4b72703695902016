"""A list in pages, as OpenAI has it: the last first, and twenty at most, unless asked otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.server.fields.schemas import checked
from app.server.responses.response_store import Json
from engine.errors import InvalidRequest


class PageQuery(BaseModel):
    """What stands behind the question mark. ``after``: the id of an item, behind which it goes on."""

    order: Literal["asc", "desc"] = "desc"
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    after: str | None = None


def page(items: Sequence[Json], query: Mapping[str, str]) -> Json:
    """Some of ``items``, which are in the order in which they came. Raises ApiError, InvalidRequest."""
    asked = checked(PageQuery, dict(query))
    ordered = list(items if asked.order == "asc" else reversed(items))
    ids, first = [item["id"] for item in ordered], 0
    if asked.after is not None:
        if asked.after not in ids:
            raise InvalidRequest("after", f"after is {asked.after[:80]!r}, which no item here has.")
        first = ids.index(asked.after) + 1
    last = first + asked.limit
    shown = ids[first:last]
    return {
        "object": "list",
        "data": ordered[first:last],
        "first_id": shown[0] if shown else None,
        "last_id": shown[-1] if shown else None,
        "has_more": last < len(ids),
    }
