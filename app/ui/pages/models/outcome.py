"""What the Models page answers where something was to be done: why it was refused, if it was."""

from __future__ import annotations

from collections.abc import Callable

from app.ui.rounds.view import View
from app.ui.words import Words
from engine.errors import ForetokenError


def outcome(act: Callable[[], object]) -> View:
    """Do ``act``; ``error`` is why it was refused, None if it was not."""
    try:
        act()
    except ForetokenError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": Words.disk_refused(error)}
    return {"error": None}
