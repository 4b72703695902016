"""Search the hub for repositories of GGUF files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.errors import DownloadError, InvalidRequest
from engine.files import parse_json
from engine.loading.hub.paths import endpoint
from engine.machine.secrets import hub_token

MOST = 20
"""Repositories that a search returns."""
ANSWER_S = 15.0
"""Seconds within which the hub must answer."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A repository. ``downloads`` are those of the last 30 days."""

    name: str
    downloads: int
    likes: int
    gated: bool


def search(words: str) -> tuple[Hit, ...]:
    """Return repositories of GGUF files whose names have ``words``, the most downloaded first.

    Waits ``ANSWER_S`` at most for a part of the answer. Raises InvalidRequest if there are no words, and
    DownloadError.
    """
    words = " ".join(words.split())
    if not words:
        raise InvalidRequest("words", "Enter part of a model's name.")
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # re-exported implicitly
        build_hf_headers,
        get_session,
        hf_raise_for_status,
    )

    parameters: dict[str, Any] = {
        "search": words,
        "filter": "gguf",
        "sort": "downloads",
        "limit": MOST,
        "expand": ["downloads", "likes", "gated"],
    }
    headers = build_hf_headers(token=hub_token().get()[0])
    address = f"{endpoint()}/api/models"
    try:
        response = get_session().get(address, params=parameters, headers=headers, timeout=ANSWER_S)
        hf_raise_for_status(response)
        return tuple(
            Hit(one["id"], one.get("downloads", 0), one.get("likes", 0), bool(one.get("gated")))
            for one in parse_json(response.text)
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DownloadError(
            f"{address} did not answer like the Hugging Face hub. Check HF_ENDPOINT."
        ) from error
    except Exception as error:
        raise _failed(words, error) from error


def _failed(words: str, error: Exception) -> DownloadError:
    """Return the error for a request that failed."""
    from huggingface_hub import constants

    from engine.loading.hub.errors import is_connection_error
    from engine.loading.hub.retry import status_of

    status = status_of(error)
    if status is not None:
        return DownloadError(f"{endpoint()} answered the search with {status}. Try again later.")
    if not is_connection_error(error):
        raise error
    cause = (
        "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"{endpoint()} cannot be reached"
    )
    return DownloadError(
        f"{cause}, so the search for '{words}' failed. Check your connection; models on "
        "this machine work offline."
    )
