"""Methods that the pages' scripts may call, marked ``endpoint``, and checks of the fields they send."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from app.ui import words
from engine.errors import ForetokenError, InvalidRequest

logger = logging.getLogger(__name__)

View = dict[str, Any]
"""What a page's script gets and sends: plain JSON values."""

F = TypeVar("F", bound=Callable[..., Any])
_MARK, _REFUSAL, _WAITS = "is_endpoint", "refusal_elsewhere", "waits"

_Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # as SQLite has them
_Long = Annotated[str, Field(coerce_numbers_to_str=True)]
_Text = Annotated[_Long, Field(pattern=r"^[^\x00]*$")]  # it may become a path
_Scalar = bool | int | float | str | None
_Settings = dict[str, _Scalar | dict[str, dict[str, _Scalar]]]

_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(
        ("chat", "message", "run", "from", "number", "size", "attachment"), _Number | None
    ),
    **dict.fromkeys(("messages", "depths"), list[_Number]),
    **dict.fromkeys(("off",), list[_Text] | None),
    **dict.fromkeys(("heads", "methods", "sources"), list[_Text]),
    **dict.fromkeys(("deleted",), float),
    **dict.fromkeys(("text", "prompt"), _Long | None),
    **dict.fromkeys(("context", "folder"), _Number | _Text | None),
    **dict.fromkeys(("minutes", "seed", "max_tokens", "value", "threads", "gpu_layers"), _Scalar),
    "ticket": Annotated[_Text, Field(max_length=64)] | None,
    "settings": _Settings | None,
    "sides": Annotated[list[dict[str, _Scalar]], Field(min_length=2, max_length=2)],
    "files": list[Any] | None,
}
"""By name; every other field is a text, or empty."""
_VALIDATORS = {name: TypeAdapter(kind) for name, kind in _TYPES.items()}
_TEXT: TypeAdapter[Any] = TypeAdapter(_Text | bool | None)


def shorten(number: float | None) -> float | None:
    """Round to four significant digits; the page shows fewer."""
    return None if number is None else float(f"{number:.4g}")


def endpoint(method: F) -> F:
    """Mark a backend's method that the page's script may call with an object of fields."""
    setattr(method, _MARK, True)
    return method


def local_endpoint(refusal: str) -> Callable[[F], F]:
    """Mark a method that only a browser on this machine may call; others get the text ``refusal``."""

    def mark(method: F) -> F:
        setattr(method, _REFUSAL, refusal)
        return endpoint(method)

    return mark


def waits(method: F) -> F:
    """Mark an endpoint that waits for another program or machine, so that it holds no shared thread."""
    setattr(method, _WAITS, True)
    return method


def endpoints_of(backend: object) -> Iterator[Callable[[Any], Any]]:
    """Yield the endpoints of a backend. A function that is given in place of one is its own endpoint."""
    if callable(backend):
        yield backend
        return
    for kind in type(backend).__mro__:
        for name, attribute in vars(kind).items():
            if hasattr(attribute, _MARK):
                yield getattr(backend, name)


def refusal_elsewhere(method: Callable[..., Any]) -> str | None:
    """Return the refusal for a browser on another machine; None if it may call ``method``."""
    return getattr(method, _REFUSAL, None)


def is_waiting(method: Callable[..., Any]) -> bool:
    """Return whether ``method`` is marked ``waits``."""
    return hasattr(method, _WAITS)


class RequestFields(dict[str, Any]):
    """The fields that were sent. Reading one that is missing raises InvalidRequest."""

    def __missing__(self, name: str) -> Any:
        raise InvalidRequest(name, f"The page did not send {name}. Reload the page and try again.")


def read_fields(data: Any) -> RequestFields:
    """Return what a page sent, with every field checked. Raises InvalidRequest for anything else."""
    try:
        # This refuses lone surrogates too.
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("data", words.field_malformed("data")) from error
    if data is None:
        return RequestFields()
    if not isinstance(data, dict):
        raise InvalidRequest("data", words.field_malformed("data"))
    return RequestFields({name: _checked(name, value) for name, value in data.items()})


def _checked(name: str, value: Any) -> Any:
    try:
        return _VALIDATORS.get(name, _TEXT).validate_python(value)
    except ValidationError as error:
        raise InvalidRequest(name, words.field_malformed(name)) from error


def chosen(acts: Mapping[str, Callable[[], object]], data: View) -> Callable[[], object]:
    """Return the one that ``data`` names by ``act``. Raises InvalidRequest."""
    act = acts.get(str(data["act"]))
    if act is None:
        raise InvalidRequest("act", words.field_malformed("act"))
    return act


def refusal(error: Exception) -> View:
    """Return ``{"refused": reason}``. Log an unexpected error with its traceback."""
    if isinstance(error, ForetokenError):
        return {"refused": str(error)}
    if isinstance(error, OSError):
        return {
            "refused": f"The disk reports: {error.strerror or error}. Check permissions and try again."
        }
    logger.error("A page's request failed", exc_info=error)
    return {"refused": words.FAILED}
