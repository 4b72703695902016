"""The result of a call as the protocol has it, with few enough parts to be checked quickly."""

from __future__ import annotations

from typing import Annotated, Any

import mcp_types as types
from pydantic import BeforeValidator

from app.mcp import limits


def _first(content: Any) -> Any:
    """Return the first parts of a result, and a note of how many follow: to check each takes time."""
    more = len(content) - limits.MOST_PARTS if isinstance(content, list) else 0
    if more <= 0:
        return content
    note = {"type": "text", "text": f"[{more:,} more parts left out]"}
    return [*content[: limits.MOST_PARTS], note]


class BoundedResult(types.CallToolResult):
    """What a call returned, with its first parts."""

    content: Annotated[list[types.ContentBlock], BeforeValidator(_first)]
