"""Let errors name fields as the client's protocol does, where its bodies become those of OpenAI's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from app.server.errors import ApiError
from engine.errors import InvalidRequest

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
