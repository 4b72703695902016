"""Errors of a download, as messages that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from engine.errors import DownloadError, TokenNeeded
from engine.loading.hub.paths import MODELS_VARIABLE, endpoint, hub_page, repository_of
from engine.loading.specs import ModelSpec
from engine.machine.secrets import hub_token
from engine.values.units import format_bytes

_LAYOUT = (
    '--include "*.json" --include "model*.safetensors" --include "tokenizer*" --include "*.jinja" '
)
"""Arguments of ``hf download`` for a model in transformers' layout."""
_USUAL = "*Q4_K_M*.gguf"
"""The file of a GGUF repository that most people take: four bits."""
_TERMINAL = "In a terminal that is foretoken models token, hf auth login, or HF_TOKEN."
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
        raise DownloadError(
            f"{repository} has no revision '{spec.revision}'. Check it at {where}, or use 'main'."
        ) from error
    except HfHubHTTPError as error:
        raise _refused(spec, error) from error
    except OSError as error:
        if is_connection_error(error):
            raise DownloadError(_offline(spec, destination)) from error
        raise DownloadError(
            f"{repository} cannot be stored at {destination}: {error.strerror or error}. What has "
            "arrived is kept. Free some space and check the permissions, then download again; or set "
            f"{MODELS_VARIABLE} to another folder."
        ) from error
    except DownloadError:
        raise
    except Exception as error:
        if is_connection_error(error):
            raise DownloadError(_offline(spec, destination)) from error
        raise


def is_connection_error(error: BaseException) -> bool:
    """Return whether the network is at fault. The classes of the client's transport library changed
    between releases, so the name of their common base is compared."""
    if isinstance(error, OfflineModeIsEnabled | ConnectionError | TimeoutError):
        return True
    if isinstance(error, HfHubHTTPError):
        return error.response is not None and error.response.status_code >= 500
    return any(base.__name__ == "TransportError" for base in type(error).__mro__)


def _not_found(repository: str, error: RepositoryNotFoundError) -> DownloadError:
    """Return the error for 404, or for 401, which the hub also answers for missing repositories."""
    if error.response is not None and error.response.status_code == 404:
        return DownloadError(
            f"There is no repository {repository} at {endpoint()}. Check the name: it is spelt "
            "owner/name, with capitals as there."
        )
    return TokenNeeded(
        f"There is no repository {repository} at {endpoint()}, or it is private and no token that "
        "may read it is set. Check the name; for a private one give Foretoken an access token of an "
        f"account that may read it. {_TERMINAL}"
    )


def _gated(spec: ModelSpec, where: str) -> str:
    licence = "" if spec.licence == "unknown" else f" ({spec.licence})"
    if hub_token().get()[0] is None:
        return (
            f"{spec.repository} is gated{licence}, and no access token is set. Accept its "
            f"licence at {where}, create a token at {endpoint()}/settings/tokens, give it to Foretoken, "
            f"and download again. {_TERMINAL}"
        )
    return (
        f"{spec.repository} is gated{licence}, and your access token was refused. Accept its "
        f"licence at {where} with the token's account; a fine-grained token also needs the permission "
        "to read gated repositories. Then download again, or give another token."
    )


def _refused(spec: ModelSpec, error: HfHubHTTPError) -> DownloadError:
    status = error.response.status_code if error.response is not None else 0
    if status in (401, 403):
        return TokenNeeded(_gated(spec, hub_page(spec)))
    if status == 404:  # of a mirror: the hub says of what
        return DownloadError(
            f"{endpoint()} has no {spec.repository}, or not all of its files (404). Check the name: "
            "it is spelt owner/name, with capitals as there."
        )
    if status == 429:
        return DownloadError(
            f"{endpoint()} asks to slow down (429), again and again. What has arrived is kept. Wait some "
            "minutes, then download again; with an access token more may be asked of it."
        )
    return DownloadError(
        f"{endpoint()} answered {status} for {spec.repository}. What has arrived is kept; "
        "try again later."
    )


def _offline(spec: ModelSpec, destination: Path) -> str:
    """Return the message for a download, or for a look-up, which knows no files or sizes yet."""
    offline = constants.HF_HUB_OFFLINE
    cause = "HF_HUB_OFFLINE is set" if offline else f"{endpoint()} cannot be reached"
    said = (
        f"{spec.name} is not complete on this machine and {cause}. Connect and try again; what has "
    )
    said += "arrived is kept."
    if not spec.bytes:
        said = (
            f"{cause}, so what {spec.repository} holds is not known. Connect and look it up again."
        )
    wanted = f'--include "{Path(spec.file).name}" ' if spec.file else _LAYOUT
    if not spec.file and "gguf" in str(spec.repository).lower():
        wanted = f'--include "{_USUAL}" '
    revision = "" if spec.revision == "main" else f" --revision {spec.revision}"
    size = f" ({format_bytes(spec.bytes)})" if spec.bytes else ""
    return (
        f"{said} Or, on a machine with a network, run\n"
        f"  hf download {spec.repository}{revision} {wanted}--local-dir {destination.name}\n"
        f"and copy that folder{size} to {destination}"
    )
