"""What a page's script sends to a callable: an object whose fields have their kinds, checked for all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from app.ui.words import Words
from engine.errors import InvalidRequest

_Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # as SQLite has them
_Long = Annotated[str, Field(coerce_numbers_to_str=True)]
_Text = Annotated[_Long, Field(pattern=r"^[^\x00]*$")]  # it may become a path
_Scalar = bool | int | float | str | None
_Settings = dict[str, _Scalar | dict[str, dict[str, _Scalar]]]

_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("chat", "message", "run", "from", "number", "size"), _Number | None),
    **dict.fromkeys(("messages", "depths"), list[_Number]),
    **dict.fromkeys(("heads", "methods", "sources"), list[_Text]),
    **dict.fromkeys(("deleted",), float),
    **dict.fromkeys(("text", "prompt"), _Long | None),
    **dict.fromkeys(("context", "folder"), _Number | _Text | None),
    **dict.fromkeys(("minutes", "seed", "max_tokens", "value"), _Scalar),
    "settings": _Settings | None,
    "sides": Annotated[list[dict[str, _Scalar]], Field(min_length=2, max_length=2)],
    "files": list[Any] | None,
}
"""By name; all other fields are texts, or left empty."""
_CHECKS = {name: TypeAdapter(kind) for name, kind in _KINDS.items()}
_TEXT: TypeAdapter[Any] = TypeAdapter(_Text | bool | None)


class Asked(dict[str, Any]):
    """The fields that were sent. One that is missing is said where it is read."""

    def __missing__(self, name: str) -> Any:
        raise InvalidRequest(name, Words.asked_without(name))


def asked(data: Any) -> Asked:
    """Return what a page sent, each field as its kind. Raises InvalidRequest for anything else."""
    try:
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()  # no half characters either
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("data", Words.asked_wrongly("data")) from error
    if data is None:
        return Asked()
    if not isinstance(data, dict):
        raise InvalidRequest("data", Words.asked_wrongly("data"))
    return Asked({name: _checked(name, value) for name, value in data.items()})


def _checked(name: str, value: Any) -> Any:
    try:
        return _CHECKS.get(name, _TEXT).validate_python(value)
    except ValidationError as error:
        raise InvalidRequest(name, Words.asked_wrongly(name)) from error
