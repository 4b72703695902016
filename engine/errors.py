"""Every error a user can meet. Each message tells what happened, why, and what to do.

Interfaces show ``str(error)`` and nothing else; the class decides the exit status and HTTP code.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path


class ForetokenError(Exception):
    """The base of all expected errors; never raised itself."""


class InvalidRequest(ForetokenError):
    """The request cannot be served as asked. ``field`` names the offending option."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ContextExceeded(InvalidRequest):
    """The context does not hold a prompt and a token of the reply, or a text."""

    def __init__(self, tokens: int, context: int, *, replies: bool = True) -> None:
        """``replies``: False for a text that gets no reply, such as one to embed."""
        over = tokens + replies - context
        what, one = ("prompt", ", one of them for the reply") if replies else ("text", "")
        super().__init__(
            "messages" if replies else "input",
            f"The {what} has {tokens:,} tokens, and the context holds {context:,}{one}. Shorten it "
            f"by {over:,} token{'s' if over != 1 else ''}, or load a model with a longer context.",
        )
        self.over, self.context, self.tokens = over, context, f"{tokens}"

    @classmethod
    def by_far(cls, context: int) -> ContextExceeded:
        """Return the error for a text that is at least twice too long. Its tokens were not
        all counted, which would take long."""
        error = cls(2 * context, context)
        error.tokens = f"more than {2 * context}"
        error.args = (
            f"The text is more than twice as long as the context of {context:,} tokens. "
            "Shorten it, or load a model with a longer context.",
        )
        return error


class GenerationFailed(ForetokenError):
    """A reply ended in its middle; the message tells why."""


class CatalogError(ForetokenError):
    """The catalog cannot be read; the message names file, line and key."""


class ModelError(ForetokenError):
    """A model cannot be loaded: missing files, truncated weights, an unsupported format."""


BROKEN_LOGITS = (
    "The model's logits contain NaN or infinity: its weights are damaged, or too "
    "large for their number format. Download it again, or load it in fp32."
)
"""A ModelError's message."""

DAMAGED_CACHE = (
    "The model's logits contain NaN or infinity: its packed weights, as the cache stored them, were "
    "damaged{and_now} Load the model again. If that does not help, its own file is damaged too: download "
    "it again."
)
"""A ModelError's message; ``and_now``: whether the files are gone."""

DEAD_END = "The grammar allows none of the model's tokens here. Correct the grammar."
"""An InvalidRequest's message."""


class IncompatiblePair(ForetokenError):
    """A draft does not fit its target; the message says why, with sizes."""


class DownloadError(ForetokenError):
    """A download failed; the message says whether trying again can help."""


class MissingAtHub(DownloadError):
    """The hub has no such repository, revision or file."""


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


class KernelsFailed(ForetokenError):
    """The kernels of this GPU are wrong or do not run. The next plan for the model is without them."""


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
            f"Writing to {folder} failed: {what_failed(error)}. Earlier files are intact. "
            f"{_remedy(error)} and try again."
        )

    @classmethod
    def left(cls, folder: Path, error: Exception) -> DiskError:
        """Return the DiskError for an exception raised while deleting in ``folder``."""
        return cls(
            f"Not everything in {folder} could be deleted: {what_failed(error)}. Close what uses it, "
            "check that Foretoken may write there, and try again."
        )


def _remedy(error: Exception) -> str:
    """Return what to do about a failed access to the disk."""
    refused = getattr(error, "errno", None) in (errno.EACCES, errno.EPERM, errno.EROFS)
    return "Check that Foretoken may write there" if refused else "Free some space"


def what_failed(error: Exception) -> str:
    """Return the reason for people: the system's without errno and path, and no words of Python's."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    if found := _NO_NUMBER.match(str(error)):
        return f"it has an invalid value: {found[1]}"
    if found := _CHECKED.match(str(error)):
        return f"key {found[1]} has an invalid value" if found[1] else found[2].rstrip(".")
    if isinstance(error, ArithmeticError | AttributeError | IndexError | TypeError):
        return "it has an invalid value"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


_NO_NUMBER = re.compile(
    r"(?:could not convert string to float|invalid literal for int.*): (.{,80})"
)
_CHECKED = re.compile(
    r"Validation error for field ('\w+')|Class validation error[^\n]*\n\s*\w+: (.*)", re.DOTALL
)
"""What transformers' checked configurations say of a wrong key, or of keys that do not fit together."""
MALFORMED = ArithmeticError, AttributeError, LookupError, TypeError, ValueError
"""What is raised where a value from a file is of a wrong type or size; see ``what_failed``."""
