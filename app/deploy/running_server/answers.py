"""Read what a running server tells: its metrics, its model, and how it drafts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from engine.errors import InvalidRequest
from engine.files import parse_json

LARGEST = 8 << 20
"""Bytes of an answer."""
TIMEOUT_S = 10.0
"""Of a whole answer: a server could send a byte now and then for ever."""
_PREFIXES = ("vllm:", "sglang:")
_MEANS = ("sglang:spec_accept_length", "sglang:spec_num_draft_tokens")
"""Gauges that each rank has one of."""
Figures = Mapping[str, float]


def figures_of(page: str) -> Figures:
    """Return the sums over all labels, by name without ``_total``; empty for another server's page."""
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    lines = (line for line in page.splitlines() if line.startswith(_PREFIXES))
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created")):
                    name = sample.name.removesuffix("_total")
                    sums[name] += sample.value  # type: ignore[assignment]
                    counts[name] += 1
    except ValueError:
        return {}
    return {name: sum / counts[name] if name in _MEANS else sum for name, sum in sums.items()}


def read(address: str, key: str | None) -> bytes:
    """Return what ``address`` answers. Raises InvalidRequest with what to do."""
    answers: list[bytes | InvalidRequest] = []
    ended = threading.Event()

    def work() -> None:
        try:
            answers.append(_read(address, key, ended))
        except InvalidRequest as error:
            answers.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    ended.set()
    if not answers:
        raise InvalidRequest(
            "from",
            f"{address} did not answer within {TIMEOUT_S:g} seconds. Try again when it is less busy.",
        )
    if isinstance(answers[0], InvalidRequest):
        raise answers[0]
    return answers[0]


def _read(address: str, key: str | None, ended: threading.Event) -> bytes:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx2.stream("GET", address, headers=headers, timeout=TIMEOUT_S) as answer:
            if answer.status_code in (401, 403):
                raise InvalidRequest(
                    "from",
                    f"{address} demands {'another' if key else 'a'} key. `foretoken plan` sends what the "
                    "environment variable API_KEY holds.",
                )
            answer.raise_for_status()
            content = b""
            for part in answer.iter_bytes():
                content += part
                if len(content) > LARGEST:
                    raise InvalidRequest("from", f"{address} answers more than {LARGEST:,} bytes.")
                if ended.is_set():
                    break
            return content
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise InvalidRequest(
            "from", f"{address} cannot be read: {error}. Check that the server runs there."
        ) from error


def model_of(base: str, key: str | None) -> Mapping[str, Any]:
    """Return what the server lists of its first model that is loaded, empty if it lists none."""
    models = _json(f"{base}/v1/models", key).get("data")
    models = [each for each in models or () if isinstance(each, Mapping)]
    return next((each for each in models if each.get("loaded", True)), {})


def sglang_of(base: str, key: str | None) -> Mapping[str, Any]:
    """Return the options that SGLang was started with, empty if it does not tell."""
    return _json(f"{base}/server_info", key)


def _json(address: str, key: str | None) -> Mapping[str, Any]:
    try:
        found = parse_json(read(address, key))
    except (InvalidRequest, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}
