"""Schemathesis over the API's own document: whatever is sent, no 5xx, no silence, one form of error."""

from __future__ import annotations

import os
from typing import Any

import pytest

schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, settings  # noqa: E402

CASES = int(os.environ.get("FORETOKEN_CLIENTS_CASES", "50"))
PATIENCE_S = 60
MOST = {"n": 2, "max_tokens": 3, "max_completion_tokens": 3, "max_output_tokens": 3}
"""What asks for more is made to ask for this: long replies take long, and show nothing."""


@pytest.fixture(scope="session")
def document(url: str) -> Any:
    return schemathesis.openapi.from_url(f"{url}/v1/openapi.json")


schema = schemathesis.pytest.from_fixture("document")


def bounded(body: Any) -> Any:
    """``body`` with short replies."""
    if not isinstance(body, dict):
        return body
    body = {
        name: min(value, MOST[name]) if type(value) is int and name in MOST else value
        for name, value in body.items()
    }
    if isinstance(body.get("options"), dict):
        body["options"] = body["options"] | {"num_predict": 2}
    return {"max_tokens": 2, **body}


def check_error(path: str, told: Any) -> None:
    """Each dialect has one form."""
    if path.startswith("/api/"):
        assert told.keys() == {"error"} and isinstance(told["error"], str), told
    else:
        assert told.keys() == {"error"}, told
        assert told["error"].keys() == {"message", "type", "param", "code"}, told
        assert told["error"]["message"], told


@schema.parametrize()
@settings(
    max_examples=CASES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_sent_is_answered_in_the_apis_form(case: Any) -> None:
    case.body = bounded(case.body)
    reply = case.call(timeout=PATIENCE_S)
    assert reply.status_code < 500, f"{reply.status_code}: {reply.text[:300]}"
    if reply.status_code >= 400 and case.method.upper() != "HEAD":
        check_error(case.operation.path, reply.json())
