"""What the pages say from Python about servers of tools."""

from __future__ import annotations

from collections.abc import Sequence

_SHORT = 200
"""Characters of a reason in the chat; the Settings page has all of it."""
ELSEWHERE = (
    "Tool servers are programs on the machine that runs Foretoken. Add and change them in a browser "
    "on that machine."
)


def no_tools(model: str) -> str:
    return (
        f"{model[:1].upper()}{model[1:]} cannot call tools: its chat template has no tools. Load a model "
        "that can, for example Qwen, Llama, Mistral or Gemma 4."
    )


def unavailable(servers: Sequence[str]) -> str:
    verb = "is" if len(servers) == 1 else "are"
    return (
        f"{' and '.join(servers)} {verb} not running, so this reply has no tools from there. "
        "The Settings page says why."
    )


def in_short(why: str) -> str:
    """Return the last line of why a server failed: the line of a traceback that names the error."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    return lines[-1][:_SHORT] if lines else ""


def gone(server: str) -> str:
    return f"The server {server} was removed. Reload the page."
