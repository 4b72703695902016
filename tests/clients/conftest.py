"""Packages and programs that people have, on a real socket, each with what its users do most.

They are no dependencies of the project: ``python -m tools.clients`` makes them an environment, serves a
model and runs these tests in it. Without that they skip.
"""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path

import pytest

URL, REAL = "FORETOKEN_CLIENTS_URL", "FORETOKEN_CLIENTS_REAL"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these are marked, and only these."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
            item.add_marker(pytest.mark.clients)


@pytest.fixture(scope="session")
def url() -> str:
    """The server's address."""
    given = os.environ.get(URL)
    if given is None:
        pytest.skip("python -m tools.clients serves a model and runs this")
    return given


@pytest.fixture(scope="session")
def base(url: str) -> str:
    """Where clients of OpenAI's protocol are pointed."""
    return f"{url}/v1"


@pytest.fixture(scope="session")
def model(base: str) -> str:
    """The name of what is loaded."""
    with urllib.request.urlopen(f"{base}/models") as reply:
        listed = json.load(reply)["data"]
    name: str = next(one["id"] for one in listed if one["loaded"])
    return name


@pytest.fixture(scope="session")
def sensible() -> str:
    """What makes a small model write calls in the form that Hermes' and Qwen's templates tell of. Skips
    where it knows nothing of tools, as Pip."""
    if not os.environ.get(REAL):
        pytest.skip(
            "Pip calls nothing of its own accord: python -m tools.clients --pair TARGET::DRAFT"
        )
    return (
        "To call a function, write exactly:\n<tool_call>\n"
        '{"name": ..., "arguments": ...}\n</tool_call>'
    )
