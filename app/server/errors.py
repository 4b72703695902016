"""Errors of the API, with OpenAI's fields: ``message``, ``type``, ``param`` and ``code``; other protocols
have fewer of them (``app.web.error_forms``); and the fields of bodies that are refused.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from app.server.sending import CLIENT_LEFT, JsonReply, data
from app.web.error_forms import Form, error_body, form_of
from app.web.request_log import current
from engine.errors import ContextExceeded, ForetokenError, InvalidRequest, NotLoaded, TooBusy
from engine.events import Failed

log = logging.getLogger(__name__)

RETRY_S = 2
"""Seconds until a client may try again: about one short reply."""

READING = ["GET", "HEAD"]

LONGEST_MESSAGE, LONGEST_PARAM = 2_000, 200
"""Characters of an answer's message and param: both may quote megabytes that a client sent."""


def _cut(text: str, most: int) -> str:
    """Return ``text`` cut to ``most`` in its middle: the end says what to do."""
    end = most // 4
    return text if len(text) <= most else f"{text[: most - end - 5]} ... {text[-end:]}"


class ApiError(Exception):
    """An error that is sent as the answer to a request."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None,
        param: str | None = None,
        retry: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """``retry``: seconds until the client may try again. ``headers``: further ones of the answer."""
        message = _cut(message, LONGEST_MESSAGE)
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.param = None if param is None else _cut(param, LONGEST_PARAM)
        self.headers = dict(headers or {})
        if retry is not None:
            self.headers["Retry-After"] = str(retry)

    def body(self, form: Form = Form.OPENAI) -> dict[str, Any]:
        return error_body(form, self.status, self.message, code=self.code, param=self.param)

    def reply(self, form: Form) -> Response:
        return JsonReply(self.body(form), status_code=self.status, headers=self.headers)


def not_loaded(message: str) -> ApiError:
    return ApiError(503, message, code="model_not_loaded", retry=RETRY_S)


def queue_full(waiting: int, what: str = "replies", retry: int = RETRY_S) -> ApiError:
    """Return a 429. ``retry``: the expected seconds until there is room."""
    return _full(f"{waiting} {what} are already waiting. Try", retry)


def asks_too_many(count: int, room: int, retry: int) -> ApiError:
    """Return a 429 for a request for ``count`` replies where there is only room for ``room``."""
    why = f"This request asks for {count} replies, but with those already running or waiting"
    return _full(f"{why} at most {room} more are accepted. Ask for fewer, or try", retry)


def _full(why: str, retry: int) -> ApiError:
    return ApiError(429, f"{why} again in {retry} s.", code="queue_full", retry=retry)


def missing(param: str) -> ApiError:
    return ApiError(400, f"{param} is missing.", code="missing_value", param=param)


def engine_failed(message: str) -> ApiError:
    return ApiError(500, message, code="engine_failed")


def failed(event: Failed) -> ApiError:
    """Return the error of a failed reply. A remote engine may say that the request is at fault, or when
    to try again."""
    if event.refused:
        return ApiError(400, event.message, code="refused")
    if event.wait_s is not None:
        retry = max(1, math.ceil(event.wait_s))
        return ApiError(503, event.message, code="engine_busy", retry=retry)
    return engine_failed(event.message)


def closing() -> ApiError:
    message = "Foretoken is shutting down, so this reply was cancelled. Send the request again."
    return ApiError(503, message, code="cancelled", retry=RETRY_S)


def ended_early() -> ApiError:
    """Return the error of a reply that was cancelled while its client waits: by a person on the Server
    page (clients should not repeat it), or because the server ends."""
    entry = current.get()
    if entry is None or not entry.cancelled:
        return closing()
    return ApiError(400, "This request was cancelled on the Server page.", code="cancelled")


def translate(error: Exception) -> ApiError:
    """Return the ApiError for any error. Unexpected ones are logged."""
    match error:
        case ApiError():
            return error
        case ContextExceeded():
            return ApiError(400, str(error), code="context_length_exceeded", param=error.field)
        case InvalidRequest():
            return ApiError(400, str(error), code="invalid_value", param=error.field)
        case NotLoaded():
            return not_loaded(str(error))
        case TooBusy():
            return ApiError(429, str(error), code="queue_full", retry=RETRY_S)
        case ForetokenError():
            return engine_failed(str(error))
        case _:
            log.error("the API failed", exc_info=error)
            return engine_failed(
                f"The server failed: {type(error).__name__}. Try again; if it happens again, "
                "report it with the log."
            )


def unanswered(request: Request, routes: Iterable[BaseRoute], endpoints: str) -> ApiError:
    """Return a 405 for a path with other methods, else a 404. ``endpoints``: a sentence on them all."""
    path = request.url.path
    allowed: set[str] = set()
    for route in routes:
        if isinstance(route, Route) and not isinstance(route, AnyMethod):
            allowed |= (route.path_regex.match(path) and route.methods) or set()
    if not allowed:
        message = f"There is no {request.method} {path}. {endpoints}"
        return ApiError(404, message, code="unknown_endpoint")
    allow = ", ".join(sorted(allowed))
    message = f"{path} does not support {request.method}, only {allow}. {endpoints}"
    return ApiError(405, message, code="method_not_allowed", headers={"Allow": allow})


def error_event(failure: Exception) -> bytes:
    """Return OpenAI's server-sent event at the end of a stream that fails."""
    return data(translate(failure).body())


class Route(APIRoute):
    """A route that answers errors in the form of the client's protocol."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except ClientDisconnect:
                return Response(status_code=CLIENT_LEFT)
            except Exception as error:
                api_error = translate(error)
                # Its frames hold the body, and one of anyio's holds the error: a cycle of megabytes.
                error.__traceback__ = api_error.__traceback__ = None
                return api_error.reply(form_of(request.scope))

        return answer


class AnyMethod(Route):
    """A route that answers every method, even those that HTTP does not define."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, matched = super().matches(scope)
        return (Match.FULL if match is Match.PARTIAL else match), matched

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


Harmless = Callable[[Any], bool]
"""True for a value that has no effect."""
Refused = Mapping[str, tuple[str, Harmless]]
"""Each field's meaning, and the values of it that change nothing."""


def is_nothing(value: Any) -> bool:
    """Return True for a value that has no effect."""
    return not value


def is_absent(value: Any) -> bool:
    """Return the same for a schema or grammar: an empty schema means any JSON."""
    return value in (None, "", [])


_FUNCTIONS = "functions (OpenAI replaced them by tools)"
_GRAMMARS = (
    "json_schema", "grammar", "guided_json", "guided_regex", "guided_choice", "guided_grammar"
)  # fmt: skip

REFUSED: Refused = {
    "functions": (_FUNCTIONS, is_nothing),
    "function_call": (_FUNCTIONS, lambda value: value in (None, "none", "auto")),
    **dict.fromkeys(_GRAMMARS, ("grammars in this field; use structured_outputs", is_absent)),
    "modalities": ("output other than text", lambda value: value in (None, [], ["text"])),
    "audio": ("audio", is_nothing),
    "echo": ("echoing the prompt", is_nothing),
    "suffix": ("text after the completion", is_nothing),
    "chat_template": ("other chat templates", is_nothing),
    "speculative": ("drafting options in this field; use speculation", is_nothing),
    "best_of": ("choosing the best of several replies", lambda value: value in (None, 1)),
}
"""Refused by all APIs."""

_NO_TOOLS = "tools here; use /v1/chat/completions, /v1/responses or /api/chat"
NO_TOOLS: Refused = {
    "tools": (_NO_TOOLS, is_nothing),
    "tool_choice": (_NO_TOOLS, lambda value: value in (None, "none", "auto")),
}
"""Refused in completions, which call no tools."""
REFUSED_IN_COMPLETIONS: Refused = {
    **REFUSED,
    "chat_template_kwargs": ("chat templates here; use /v1/chat/completions", is_nothing),
    **NO_TOOLS,
    "response_format": (
        "response_format here; use structured_outputs",
        lambda value: value in (None, {"type": "text"}),
    ),
}


def refuse(body: BaseModel, refused: Refused) -> None:
    """Raise a 400 for the first field with an effect that this version does not have."""
    for field, (what, harmless) in refused.items():
        if field in body.model_fields_set and not harmless(getattr(body, field)):
            raise unsupported(field, what)


def unsupported(param: str, what: str, remedy: str = "Leave the field out.") -> ApiError:
    return ApiError(
        400,
        f"{param}: Foretoken does not support {what}. {remedy}",
        code="unsupported_value",
        param=param,
    )


_PATH = re.compile(r"\w+(?:\[\d+\])*(?:\.\w+(?:\[\d+\])*)*")
_PLACE = re.compile(r"\[\d+\]")


@contextmanager
def renamed(names: Mapping[str, str]) -> Iterator[None]:
    """Let messages of errors begin with the client's name of the field, which it sees nowhere else.

    ``names``: the client's, by OpenAI's; places in lists are written ``[]`` in both.
    """
    try:
        yield
    except InvalidRequest as error:
        error.args = (_with_name(str(error), names),)
        raise
    except ApiError as error:
        error.message = _with_name(error.message, names)
        raise


def _with_name(message: str, names: Mapping[str, str]) -> str:
    found = _PATH.match(message)
    if found is None:
        return message
    places, path = _PLACE.findall(found[0]), _PLACE.sub("[]", found[0])
    known = [name for name in names if path == name or path.startswith((f"{name}.", f"{name}["))]
    if not known:
        return message
    longest = max(known, key=len)
    path = names[longest] + path.removeprefix(longest)
    for place in places:
        path = path.replace("[]", place, 1)
    return path + message[found.end() :]
