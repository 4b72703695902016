"""A child process that answers lines of JSON. Imports the standard library alone.

Another engine's environment runs it too, so it must start without anything of this project's.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, Any]]


def serve(
    start: Callable[[], tuple[dict[str, Any], Answer]], *, prompts_alone: bool = False
) -> None:
    """Send the result of ``start``, then answer line by line until the input ends.

    What libraries print goes to standard error: standard output belongs to the answers. A failure is
    the object ``{"error": ...}`` and the end. ``prompts_alone``: answer other questions with {}.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(value: dict[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        ready, answer = start()
        say(ready)
        for line in sys.stdin:
            request = json.loads(line)
            say({} if prompts_alone and "prompt" not in request else answer(request))
    except Exception as error:  # told to whoever asks, who cannot see this process
        say({"error": f"{type(error).__name__}: {error}"})
        raise
