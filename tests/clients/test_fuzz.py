"""Schemathesis over the API's own document: whatever is sent, no 5xx, no silence, one form of error."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402

CASES = int(os.environ.get("FORETOKEN_CLIENTS_CASES", "50"))
PATIENCE_S = 60
MOST = {"n": 2, "max_tokens": 3, "max_completion_tokens": 3, "max_output_tokens": 3}
"""What asks for more is made to ask for this: long replies take long, and show nothing."""


def bounded(body: Any) -> Any:
    """``body`` with short replies, of the model that is there, and on its own: another model's name is a
    404 before anything else is looked at, and so is an earlier response."""
    if not isinstance(body, dict):
        return body
    body = {
        name: _bounded(value, MOST[name]) if name in MOST else value for name, value in body.items()
    }
    if isinstance(body.get("options"), dict):
        body["options"] = body["options"] | {"num_predict": 2}
    if isinstance(body.get("model"), str):
        body["model"] = "default"
    if isinstance(body.get("previous_response_id"), str):
        del body["previous_response_id"]
    return {"max_tokens": 2, **body}


def _bounded(value: Any, most: int) -> Any:
    if value in (None, -1):  # no limit
        return most
    return min(value, most) if type(value) is int else value


def check_error(path: str, told: Any) -> None:
    """Each dialect has one form."""
    if path.startswith("/api/"):
        assert told.keys() == {"error"} and isinstance(told["error"], str), told
    else:
        assert told.keys() == {"error"}, told
        assert told["error"].keys() == {"message", "type", "param", "code"}, told
        assert told["error"]["message"], told


def test_whatever_is_sent_is_answered_in_the_apis_form(url: str) -> None:
    """By the document and against it. Not through Schemathesis' plugin, which lags behind pytest."""
    sent: Counter[str] = Counter()
    statuses: Counter[int] = Counter()
    document = schemathesis.openapi.from_url(f"{url}/v1/openapi.json")
    for found in document.get_all_operations():
        operation = found.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=(CASES + 1) // 2,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def check(case: Any) -> None:
                case.body = bounded(case.body)
                reply = case.call(timeout=PATIENCE_S)
                sent[case.operation.label] += 1
                statuses[reply.status_code] += 1
                assert reply.status_code < 500, f"{reply.status_code}: {reply.text[:300]}"
                if reply.status_code >= 400:
                    check_error(case.operation.path, reply.json())

            with suppress(Unsatisfiable):  # nothing can be wrong where nothing is sent
                check()
    print(f"{sum(sent.values())} requests: {dict(statuses)}")
    assert all(sent[found.ok().label] for found in document.get_all_operations())
