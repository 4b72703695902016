"""Errors of a download: retries with exponential backoff (after a lost connection, a 5xx, or a 429
with its waiting time), and messages that say what to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, but re-exported implicitly
    parse_ratelimit_headers,
)

from engine.errors import DownloadError, MissingAtHub, TokenNeeded
from engine.loading.hub.disk import MODELS_VARIABLE, endpoint, hub_page, repository_of
from engine.loading.specs import ModelSpec
from engine.machine.secrets import hub_token
from engine.values.address import retry_after_seconds
from engine.values.units import format_bytes

_LAYOUT = (
    '--include "*.json" --include "model*.safetensors" --include "tokenizer*" --include "*.jinja" '
)
"""Arguments of ``hf download`` for a model in transformers' layout."""
_USUAL = "*Q4_K_M*.gguf"
"""The file of a GGUF repository that most people take: four bits."""
_TERMINAL = "In a terminal: foretoken models token, hf auth login, or HF_TOKEN."
"""Said on the page too, whose own field stands below."""


@contextmanager
def explain_errors(spec: ModelSpec, destination: Path) -> Iterator[None]:
    """Raise every error of the client as a ``DownloadError`` that says what to do."""
    repository, where = repository_of(spec), hub_page(spec)
    try:
        yield
    except GatedRepoError as error:
        raise TokenNeeded(_gated(spec, where)) from error
    except RepositoryNotFoundError as error:
        raise _not_found(repository, error) from error
    except RevisionNotFoundError as error:
        raise MissingAtHub(
            f"{repository} has no revision '{spec.revision}'. Check it at {where}, or use 'main'."
        ) from error
    except HfHubHTTPError as error:
        raise _refused(spec, error) from error
    except Exception as error:
        if is_connection_error(error):
            raise DownloadError(_offline(spec, destination)) from error
        if not isinstance(error, OSError):
            raise
        raise DownloadError(
            f"{repository} cannot be saved in {destination}: {error.strerror or error}. "
            "Progress is kept. Free some space or check permissions, then download again; "
            f"or choose another folder with {MODELS_VARIABLE}."
        ) from error


def is_connection_error(error: BaseException) -> bool:
    """Return whether the network is at fault. The classes of the client's transport library changed
    between releases, so the name of their common base is compared."""
    if isinstance(error, OfflineModeIsEnabled | ConnectionError | TimeoutError):
        return True
    if isinstance(error, HfHubHTTPError):
        return error.response is not None and error.response.status_code >= 500
    return any(base.__name__ == "TransportError" for base in type(error).__mro__)


def why_unreached() -> str:
    """Return why the hub was not reached, as a clause."""
    offline = constants.HF_HUB_OFFLINE
    return "HF_HUB_OFFLINE is set" if offline else f"{endpoint()} cannot be reached"


def _not_found(repository: str, error: RepositoryNotFoundError) -> DownloadError:
    """Return the error for 404, or for 401, which the hub also answers for missing repositories."""
    if error.response is not None and error.response.status_code == 404:
        return MissingAtHub(
            f"There is no repository {repository} at {endpoint()}. Check the name "
            "(owner/name, case-sensitive)."
        )
    return TokenNeeded(
        f"There is no repository {repository} at {endpoint()}, or it is private "
        "and needs an access token. Check the name, or add a token of an account with "
        f"access. {_TERMINAL}"
    )


def _gated(spec: ModelSpec, where: str) -> str:
    licence = "" if spec.licence == "unknown" else f" ({spec.licence})"
    if hub_token().get()[0] is None:
        return (
            f"{spec.repository} is gated{licence} and needs an access token. Accept its "
            f"licence at {where}, create a token at {endpoint()}/settings/tokens, add it to "
            f"Foretoken, and download again. {_TERMINAL}"
        )
    return (
        f"{spec.repository} is gated{licence}, and your access token was refused. "
        f"Accept its licence at {where} with the same account; a fine-grained token "
        "also needs permission to read gated repositories. Then download again, or add "
        "another token."
    )


def _refused(spec: ModelSpec, error: HfHubHTTPError) -> DownloadError:
    status = error.response.status_code if error.response is not None else 0
    if status in (401, 403):
        return TokenNeeded(_gated(spec, hub_page(spec)))
    if status == 404:  # of a mirror: the hub says of what
        return MissingAtHub(
            f"{spec.repository}, or one of its files, is not at {endpoint()} (404). Check "
            "the name (owner/name, case-sensitive)."
        )
    if status == 429:
        return DownloadError(
            f"{endpoint()} limits the number of requests (429). Progress is kept. Wait some "
            "minutes and download again; an access token raises the limit."
        )
    return DownloadError(
        f"{endpoint()} answered {status} for {spec.repository}. Progress is kept; try again later."
    )


def _offline(spec: ModelSpec, destination: Path) -> str:
    """Return the message for a download, or for a look-up, which knows no files or sizes yet."""
    cause = why_unreached()
    said = f"{cause}, so the contents of {spec.repository} are unknown. Connect and try again."
    if spec.bytes:
        said = (
            f"{spec.name} is not fully downloaded, and {cause}. Check your connection and try "
            "again; progress is kept."
        )
    wanted = f'--include "{Path(spec.file).name}" ' if spec.file else _LAYOUT
    if not spec.file and "gguf" in str(spec.repository).lower():
        wanted = f'--include "{_USUAL}" '
    revision = "" if spec.revision == "main" else f" --revision {spec.revision}"
    size = f" ({format_bytes(spec.bytes)})" if spec.bytes else ""
    return (
        f"{said} Or run this on a machine with internet access\n  hf download "
        f"{spec.repository}{revision} {wanted}--local-dir {destination.name}\nand copy "
        f"that folder{size} to {destination}"
    )


T = TypeVar("T")

ATTEMPTS = 5
"""Attempts in a row that may fail."""

BACKOFF_S = 1.0
"""The first delay; each next one is twice as long."""

LONGEST_WAIT_S = 300.0
"""Seconds; if the hub asks for a longer wait, the download fails and says so."""


class Retry:
    """Retries calls. While it waits it calls ``stop``, which may raise, and ``on_wait`` with the
    reason; with "" when it goes on."""

    def __init__(self, stop: Callable[[], None], on_wait: Callable[[str], None]) -> None:
        self._stop, self._on_wait = stop, on_wait

    def call(self, request: Callable[[], T], *, first: bool = False) -> T:
        """Return the result of ``request``. Raises the error of the last of ``ATTEMPTS``, or at once
        an error that a retry cannot cure.

        ``first``: nothing was answered yet, so an unreachable hub means that there is no network.
        """
        for attempt in range(1, ATTEMPTS):
            try:
                return request()
            except Exception as error:
                if not may_pass(error) or (first and status_of(error) is None):
                    raise
                self.wait(attempt, error)
        return request()

    def wait(self, attempt: int, error: Exception | None) -> None:
        """Wait after the ``attempt``-th try. Raises DownloadError if the hub asks for too long a wait."""
        asked = None if error is None else wanted_wait(error)
        if asked is not None and asked > LONGEST_WAIT_S:
            raise DownloadError(
                f"{endpoint()} refuses requests for another {round(asked / 60)} minutes, "
                "because too many were sent (429). Progress is kept; download again later. An "
                "access token raises the limit."
            ) from error
        seconds = BACKOFF_S * 2 ** (attempt - 1) if asked is None else asked
        why = "Hugging Face limits requests" if asked is not None else "the connection was lost"
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._stop()
            self._on_wait(f"{why}, trying again in {max(1, round(left))} s")
            time.sleep(min(0.05, left))
        self._on_wait("")


def may_pass(error: BaseException) -> bool:
    """Return whether a retry may help."""
    if isinstance(error, OfflineModeIsEnabled):
        return False
    return is_connection_error(error) or status_of(error) == 429  # too many requests


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error response, or None."""
    found = isinstance(error, HfHubHTTPError) and error.response is not None
    return error.response.status_code if found else None  # type: ignore[attr-defined]


def wanted_wait(error: BaseException) -> float | None:
    """Return the seconds that the hub asks to wait, by ``Retry-After`` or the draft header
    ``RateLimit``, or None."""
    if status_of(error) is None:
        return None
    headers = error.response.headers  # type: ignore[attr-defined]
    text = headers.get("Retry-After")
    if text is None:
        limit = parse_ratelimit_headers(headers)
        return float(limit.reset_in_seconds) if limit is not None and not limit.remaining else None
    return retry_after_seconds(text)
