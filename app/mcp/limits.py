"""How long a server may take, and how much it may send. A server is a stranger."""

from __future__ import annotations

CONNECT_S = 60.0
"""Seconds to start or reach a server: npx and uvx may download it first."""
LIST_S = 20.0
"""Seconds for a server to list its tools."""
PING_S = 3.0
"""Seconds for a sign of life after a call that was given up; without it the server is stopped."""
STOP_S = 1.0
"""Seconds between closing a program's input, asking it to end, and killing it."""
CLOSE_S = 10.0
"""Seconds for all of that, and for a server by HTTP to answer the goodbye."""
RETRY_S = 60.0
"""Seconds in which a server that failed to start is not started again by itself."""

LONGEST_LINE = 8 << 20
"""Bytes of one message of a server."""
MOST_BYTES = 32 << 20
"""Bytes that a server may send for one request of ours."""
MOST_CONTAINERS, MOST_VALUES = 1 << 17, 1 << 20
"""Lists and objects of a program's message, and values."""
MOST_BRACKETS = 1 << 20
"""Brackets that begin one in an answer by HTTP, those in strings too."""
MOST_GARBAGE = 200
"""Lines on a program's output that are no messages."""
MOST_PAGES = 20
"""Pages of a list of tools."""

MOST_TOOLS = 64
"""Tools of one server."""
MOST_OFFERED = 128
"""Tools of one request, as in OpenAI's API."""
LONGEST_NAME = 128
"""Characters of a tool's name, as MCP recommends."""
LONGEST_DESCRIPTION = 1024
"""Characters; more is cut."""
LARGEST_SCHEMA, DEEPEST_SCHEMA = 16 * 1024, 24
"""Characters and levels of a tool's parameters."""
SHARE = 1.5
"""Characters of tools' descriptions for each token of the context: they take about half of it."""

MOST_CALLS = 16
"""Calls of one reply that are run."""
MOST_PARTS = 1000
"""Texts, pictures and files of one result."""
LARGEST_RESULT, SMALLEST_RESULT = 32_000, 1000
"""Characters of all results of a reply for the model, and of one, whatever the context."""


def result_length(context: int) -> int:
    """Return how many characters of a reply's results a model gets: about a third of its context, as a
    token has three characters or more in most texts."""
    return max(SMALLEST_RESULT, min(LARGEST_RESULT, context))
