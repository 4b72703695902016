"""The program's last warnings and errors, for reports of faults: a bounded list in memory."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

MOST = 20
_LONGEST = 1000
"""Characters of a message."""


@dataclass(frozen=True, slots=True)
class LoggedError:
    """``when`` in seconds since 1970. ``where``: the type and the traceback of an unexpected error, the
    innermost frame last, without values."""

    when: float
    level: str
    logger: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        time = datetime.fromtimestamp(self.when, UTC).strftime("%H:%M:%S UTC")
        return f"{time} {self.level} {self.logger}: {self.message}" + (
            f" [{self.where}]" if self.where else ""
        )


class RecentErrors(logging.Handler):
    """A handler that keeps the last ``MOST`` warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._errors: deque[LoggedError] = deque(maxlen=MOST)
        self._guard = threading.Lock()

    @property
    def errors(self) -> tuple[LoggedError, ...]:
        """The errors, oldest first."""
        with self._guard:
            return tuple(self._errors)

    def listen(self) -> None:
        """Attach it to the root logger. The terminal's output stays: logging falls back to it only
        without any handler."""
        root = logging.getLogger()
        if not root.handlers and logging.lastResort is not None:
            root.addHandler(logging.lastResort)
        root.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            error = record.exc_info[1] if record.exc_info else None
            logged = LoggedError(
                record.created,
                record.levelname.lower(),
                record.name,
                " ".join(record.getMessage().split())[:_LONGEST],
                "" if error is None else _where(error),
            )
        except Exception:
            self.handleError(record)
            return
        with self._guard:
            self._errors.append(logged)


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    return f"{type(error).__name__}: {' > '.join(places)}"
