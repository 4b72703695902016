"""What is settled of how workers are found before anything is loaded; Dynamo is not needed for it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from app.worker.discovery import settle
from engine.errors import ForetokenError
from tests.support.processes import free_port


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Dynamo's settings of this test alone."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for name in [name for name in os.environ if name.startswith(("DYN_", "ETCD_"))]:
        del os.environ[name]
    yield


def test_where_no_etcd_answers_it_is_said_at_once_and_one_that_does_is_enough() -> None:
    """It was said when the model was loaded, two minutes later, by a traceback."""
    nobody = f"http://127.0.0.1:{free_port()}"
    for wrong in (nobody, "etcd.invalid", "http://[::1", f"127.0.0.1:99999,{nobody}"):
        os.environ["ETCD_ENDPOINTS"] = wrong
        with pytest.raises(ForetokenError, match="Start etcd, or set ETCD_ENDPOINTS") as told:
            settle("etcd")
        assert wrong in str(told.value)
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        for right in (
            f"http://127.0.0.1:{port}",
            f"127.0.0.1:{port}",
            f"{nobody},localhost:{port}",
        ):
            os.environ["ETCD_ENDPOINTS"] = right
            settle("etcd")


def test_found_through_files_a_worker_stays_on_its_machine_and_else_its_card_can_be_fetched() -> (
    None
):
    settle("file")
    assert os.environ["DYN_TCP_RPC_HOST"] == "127.0.0.1"
    assert "DYN_SYSTEM_PORT" not in os.environ
    os.environ["DYN_SYSTEM_PORT"] = "9090"
    settle("kubernetes")
    assert os.environ["DYN_SYSTEM_PORT"] == "9090"
