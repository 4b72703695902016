"""How Dynamo's workers and frontends find each other: settings made before a worker starts."""

from __future__ import annotations

import contextlib
import os
import socket
from types import MappingProxyType
from urllib.parse import urlsplit

from engine.errors import ForetokenError

LOCAL_BACKENDS = ("file", "mem")
"""Discovery within one machine."""
LOCAL_SETTINGS = MappingProxyType(
    {
        "DYN_TCP_RPC_HOST": "127.0.0.1",
        "DYN_EVENT_PLANE_HOST": "127.0.0.1",
        "DYN_SELF_HOST_METADATA": "0",
    }
)
"""Take requests and publish events on loopback (Dynamo's default is the network); frontends read the
model card from the disk."""
NETWORK_SETTINGS = MappingProxyType({"DYN_SYSTEM_PORT": "0"})
"""Let frontends of other machines fetch the model card, at any free port (Dynamo's default is off)."""

ETCD = "etcd"
ETCD_URL, ETCD_PORT = "http://localhost:2379", 2379
"""Dynamo's and etcd's own defaults."""
CONNECT_S = 3.0


def settle(backend: str) -> None:
    """Set Dynamo's environment variables for discovery by ``backend``, unless they are set.

    Raises ForetokenError if etcd does not answer: Dynamo would notice only once everything is loaded, and
    then wait for two minutes.
    """
    for name, value in (LOCAL_SETTINGS if backend in LOCAL_BACKENDS else NETWORK_SETTINGS).items():
        os.environ.setdefault(name, value)
    addresses = os.environ.get("ETCD_ENDPOINTS") or ETCD_URL
    if backend == ETCD and not any(map(_answers, addresses.split(","))):
        raise ForetokenError(
            f"Nothing answers at {addresses}, where etcd is expected for finding workers. "
            "Start etcd, or set ETCD_ENDPOINTS. On one machine files work too: -- "
            "--discovery-backend file, also for the frontend."
        )


def _answers(address: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        url = urlsplit(address if "//" in address else f"//{address}")
        with socket.create_connection((url.hostname or "", url.port or ETCD_PORT), CONNECT_S):
            return True
    return False
