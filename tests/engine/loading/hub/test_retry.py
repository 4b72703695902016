"""A hub that is busy, broken for a while, or for good: asked again, and not for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from engine.errors import DownloadCancelled
from engine.loading.hub.errors import ATTEMPTS
from engine.loading.hub.fetch import download
from engine.loading.progress import DownloadProgress
from tests.engine.loading.hub.conftest import SPEC, WEIGHTS, failure
from tests.support.hub_server import HostedRepository, HubServer


@pytest.mark.parametrize("refused", ["", "config.json", WEIGHTS])
def test_what_passes_is_waited_for_and_the_page_is_told(
    server: HubServer, repository: HostedRepository, models, refused: str
) -> None:
    """Of the model's information and of files: 429 with and without a wait, and the hub's own errors."""
    repository.refusals[refused] = [(429, "0.2"), (503, None), (500, None), (429, None)]
    told: list[DownloadProgress] = []
    folder = download(SPEC, models, on_progress=told.append)
    assert (folder / WEIGHTS).read_bytes() == repository.files[WEIGHTS]
    assert not repository.refusals[refused]
    waits = {report.waiting for report in told}
    assert "Hugging Face limits requests, trying again in 1 s" in waits
    assert told[-1].waiting == ""


@pytest.mark.parametrize(
    ("status", "said"), [(429, "limits the number of requests"), (502, "answered 502")]
)
def test_what_does_not_pass_ends_after_some_attempts(
    server: HubServer, repository: HostedRepository, models, status: int, said: str
) -> None:
    repository.refusals[""] = [(status, None)] * 50
    message = failure(models)
    assert said in message and "kept" in message
    assert 50 - len(repository.refusals[""]) == ATTEMPTS


def test_a_wait_of_minutes_is_told_instead(
    server: HubServer, repository: HostedRepository, models
) -> None:
    later = datetime.now(UTC) + timedelta(minutes=20)
    repository.refusals[WEIGHTS] = [(429, format_datetime(later, usegmt=True))]
    assert "for another 20 minutes" in failure(models)
    assert download(SPEC, models)


def test_a_wait_can_be_cancelled(server: HubServer, repository: HostedRepository, models) -> None:
    repository.refusals[WEIGHTS] = [(429, "250")]
    with pytest.raises(DownloadCancelled):
        told: list[DownloadProgress] = []
        download(
            SPEC,
            models,
            on_progress=told.append,
            cancelled=lambda: any(report.waiting for report in told),
        )
