"""The form of an error's answer: that of the protocol which its client speaks."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

OLLAMA = "/api/"
MESSAGES = "/v1/messages"
VERSION_HEADER = "anthropic-version"
"""Sent by every client of Anthropic's."""

_ANTHROPIC = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
}
_OPENAI = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}
"""Types of errors by status; of all others ``_OTHER``."""
_OTHER = "invalid_request_error"


class Form(Enum):
    """Whose form an error has."""

    OPENAI = auto()
    ANTHROPIC = auto()
    OLLAMA = auto()


def form_of(scope: Scope) -> Form:
    """Return the form of the errors of a request."""
    path = str(scope["path"])
    if path.startswith(OLLAMA):
        return Form.OLLAMA
    of_messages = path == MESSAGES or path.startswith(f"{MESSAGES}/")
    if of_messages or VERSION_HEADER in Headers(scope=scope):
        return Form.ANTHROPIC
    return Form.OPENAI


def error_body(
    form: Form, status: int, message: str, *, code: str | None, param: str | None = None
) -> dict[str, Any]:
    """Return the body of an answer."""
    match form:
        case Form.OLLAMA:
            return {"error": message}
        case Form.ANTHROPIC:
            error: dict[str, Any] = {"type": _ANTHROPIC.get(status, _OTHER), "message": message}
            if code is not None:
                error["details"] = {"error_code": code}
            return {"type": "error", "error": error}
        case Form.OPENAI:
            kind = _OPENAI.get(status, _OTHER)
            return {"error": {"message": message, "type": kind, "param": param, "code": code}}
