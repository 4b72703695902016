"""An engine that calls tools as the question says: ``add{"a": 1, "b": 2}`` is a call of ``add``.

It answers results by telling them, or, where the question begins with "again", by the same calls.
"""

from __future__ import annotations

import re
from dataclasses import replace

from engine.api import LoadRequest
from engine.loading.catalog import open_catalog
from engine.request import Request
from engine.tool_calls.styles import HERMES
from engine.values.tools import ToolCall
from tests.support.fake_engine import CAPABILITIES, FakeEngine, Script
from tests.support.fake_rounds import split
from tests.support.places import ROOT

CALL = re.compile(r"(\w+)(\{[^}]*\})")


def call_as_asked(request: Request) -> Script:
    """The script of a reply."""
    at = max(n for n, message in enumerate(request.messages) if message.role == "user")
    asked = request.messages[at].content
    results = [m.content for m in request.messages[at:] if m.role == "tool"]
    calls = [ToolCall("", name, arguments) for name, arguments in CALL.findall(asked)]
    if calls and request.tools and (not results or asked.startswith("again")):
        return Script(split(f"Let me look.\n{HERMES.written(calls)}"))
    if request.messages[-1].role == "tool":
        return Script(split(f"They said: {'; '.join(results[-len(calls) :])}."))
    return Script(split(f"Tools: {', '.join(tool.name for tool in request.tools) or 'none'}."))


def calling_engine(*, tools: bool = True) -> FakeEngine:
    """The engine, with Pip's name. ``tools``: whether its chat template has them."""
    return FakeEngine(
        call_as_asked,
        catalog=lambda: open_catalog(ROOT / "model_catalog.yaml"),
        loads=LoadRequest(target="pip"),
        capabilities=replace(CAPABILITIES, calls=HERMES, template_tools=tools),
    )
