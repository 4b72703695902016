"""What went wrong with a download, in words that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from engine.errors import DownloadError
from engine.loading.fit import human
from engine.loading.hub.places import FOLDER_VARIABLE, endpoint, repository_of
from engine.loading.specs import ModelSpec


@contextmanager
def explained(spec: ModelSpec, destination: Path) -> Iterator[None]:
    """Every failure of the client, as a ``DownloadError`` that says what to do."""
    repository, where = repository_of(spec), f"{endpoint()}/{repository_of(spec)}"
    try:
        yield
    except GatedRepoError as error:
        raise DownloadError(_gated(spec, where)) from error
    except RepositoryNotFoundError as error:
        raise DownloadError(
            f"There is no repository {repository} at {endpoint()}, or it is private and no token that "
            "may read it is set. Check the name; for a private one set HF_TOKEN or run `hf auth login`."
        ) from error
    except RevisionNotFoundError as error:
        raise DownloadError(
            f"{repository} has no revision '{spec.revision}'. Check it at {where}, or use 'main'."
        ) from error
    except HfHubHTTPError as error:
        raise DownloadError(_refused(spec, error)) from error
    except OSError as error:
        if is_connection_trouble(error):
            raise DownloadError(_offline(spec, destination)) from error
        raise DownloadError(
            f"{repository} cannot be stored at {destination}: {error.strerror or error}. "
            f"Check permissions and space, or set {FOLDER_VARIABLE} to another folder."
        ) from error
    except DownloadError:
        raise
    except Exception as error:
        if is_connection_trouble(error):
            raise DownloadError(_offline(spec, destination)) from error
        raise


def is_connection_trouble(error: BaseException) -> bool:
    """Whether the network is at fault. The client's own classes are named by its transport library,
    which changed between releases, so they are known by their common base."""
    if isinstance(error, OfflineModeIsEnabled | ConnectionError | TimeoutError):
        return True
    if isinstance(error, HfHubHTTPError):
        return error.response is not None and error.response.status_code >= 500
    return any(base.__name__ == "TransportError" for base in type(error).__mro__)


def _gated(spec: ModelSpec, where: str) -> str:
    if huggingface_hub.get_token() is None:
        return (
            f"{spec.repository} is gated ({spec.licence}), and no access token is set. Accept its "
            f"licence at {where}, create a token at {endpoint()}/settings/tokens, then set HF_TOKEN "
            "or run `hf auth login`, and download again."
        )
    return (
        f"{spec.repository} is gated ({spec.licence}), and your access token was refused. Accept its "
        f"licence at {where} with the token's account; a fine-grained token also needs the permission "
        "to read gated repositories. Then download again."
    )


def _refused(spec: ModelSpec, error: HfHubHTTPError) -> str:
    status = error.response.status_code if error.response is not None else 0
    if status in (401, 403):
        return _gated(spec, f"{endpoint()}/{spec.repository}")
    if status == 429:
        return f"{endpoint()} asks to slow down (429). Wait some minutes, then download again."
    return (
        f"{endpoint()} answered {status} for {spec.repository}. What has arrived is kept; "
        "try again later."
    )


def _offline(spec: ModelSpec, destination: Path) -> str:
    offline = constants.HF_HUB_OFFLINE
    cause = "HF_HUB_OFFLINE is set" if offline else f"{endpoint()} cannot be reached"
    revision = "" if spec.revision == "main" else f" --revision {spec.revision}"
    size = f" ({human(spec.bytes)})" if spec.bytes else ""
    return (
        f"{spec.name} is not complete on this machine and {cause}. Connect and try again; what has "
        f"arrived is kept. Or, on a machine with a network, run\n"
        f'  hf download {spec.repository}{revision} --include "*.json" --include "model*.safetensors" '
        f'--include "tokenizer*" --include "*.jinja" --local-dir {destination.name}\n'
        f"and copy that folder{size} to {destination}"
    )
