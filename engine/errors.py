"""Every error a user can meet. Each message tells what happened, why, and what to do.

Interfaces show ``str(error)`` and nothing else; the class decides the exit status and HTTP code.
"""

from __future__ import annotations

from pathlib import Path


class ForetokenError(Exception):
    """The base of all expected errors; never raised itself."""


class InvalidRequest(ForetokenError):
    """The request cannot be served as asked. ``field`` names the offending option."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ContextExceeded(InvalidRequest):
    """The prompt leaves no room in the context."""

    def __init__(self, prompt_tokens: int, context: int) -> None:
        over = prompt_tokens + 1 - context
        super().__init__(
            "messages",
            f"The prompt has {prompt_tokens} tokens; this model's context holds {context}, "
            f"one of them for the reply. Shorten it by {over} token{'s' if over != 1 else ''}, "
            "clear the chat, or load a model with a longer context.",
        )
        self.over = over

    @classmethod
    def by_far(cls, context: int) -> ContextExceeded:
        """Return the error for a prompt that is at least twice too long. Its tokens were not
        all counted, which would take long."""
        error = cls(2 * context, context)
        error.args = (
            f"The prompt has more than twice the tokens that fit: this model's context holds {context}. "
            "Shorten it, clear the chat, or load a model with a longer context.",
        )
        return error


class CatalogError(ForetokenError):
    """The catalog cannot be read; the message names file, line and key."""


class ModelError(ForetokenError):
    """A model cannot be loaded: missing files, truncated weights, an unsupported format."""


BROKEN_LOGITS = (
    "The model's logits hold NaN or infinity, so no token can be chosen: its weights are damaged, or too "
    "large for their number format. Download it again, or load it in fp32."
)
"""A ModelError's message."""

DEAD_END = "The grammar allows no token of the model here: it is a dead end. Correct the grammar."
"""An InvalidRequest's message."""


class IncompatiblePair(ForetokenError):
    """A draft does not fit its target; the message says why, with sizes."""


class DownloadError(ForetokenError):
    """A download failed; the message says whether trying again can help."""


class DownloadCancelled(DownloadError):
    """The caller stopped a download; what has arrived is kept for the next try."""


class TokenNeeded(DownloadError):
    """The hub requires an access token with permission to read it."""


class LoadCancelled(ForetokenError):
    """The load was cancelled; the model loaded before is still there."""


class TooBusy(ForetokenError):
    """Too many requests wait already; trying again in some seconds helps."""


class NotLoaded(ForetokenError):
    """No model is loaded yet."""


class OutOfMemory(ForetokenError):
    """The model does not fit; the message says what is needed and what is free."""


class DeviceLost(ForetokenError):
    """The GPU failed or vanished. Its memory is lost; the process continues without it."""


class NotInstalled(ForetokenError):
    """An optional package is not installed; the message says how to get it."""


class PeerFailed(ForetokenError):
    """Another engine in a benchmark failed; the message has the end of its log."""


class DiskError(ForetokenError):
    """A file could not be written; its earlier content is kept."""

    @classmethod
    def at(cls, folder: Path, error: Exception) -> DiskError:
        """Return the DiskError for an exception raised while writing into ``folder``."""
        return cls(
            f"Writing into {folder} failed: {what_failed(error)}. What was kept before is there; make "
            "room and start the same again."
        )


def what_failed(error: Exception) -> str:
    """Return the system's reason, without errno and path."""
    return getattr(error, "strerror", None) or str(error)
