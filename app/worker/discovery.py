"""How Dynamo's workers and frontends find each other, as far as it is known before one is started."""

from __future__ import annotations

import contextlib
import os
import socket
from types import MappingProxyType
from urllib.parse import urlsplit

from engine.errors import ForetokenError

HERE = ("file", "mem")
"""Within one machine."""
STAY_HERE = MappingProxyType(
    {
        "DYN_TCP_RPC_HOST": "127.0.0.1",
        "DYN_EVENT_PLANE_HOST": "127.0.0.1",
        "DYN_SELF_HOST_METADATA": "0",
    }
)
"""Where a worker takes requests and is looked for with events (Dynamo's default is the network), and that
a frontend reads the card from the disk."""
ELSEWHERE = MappingProxyType({"DYN_SYSTEM_PORT": "0"})
"""That frontends of other machines can fetch the card, at any free port (Dynamo's default is that they
cannot)."""

ETCD = "etcd"
ETCD_AT, ETCD_PORT = "http://localhost:2379", 2379
"""Dynamo's and etcd's own defaults."""
CONNECT_S = 3.0


def settle(backend: str) -> None:
    """Dynamo's settings for ``backend``, for whoever sets nothing else in the environment.

    Raises ForetokenError where there is no etcd to be found by: Dynamo would find out when everything is
    loaded, and wait for two minutes then.
    """
    for name, value in (STAY_HERE if backend in HERE else ELSEWHERE).items():
        os.environ.setdefault(name, value)
    addresses = os.environ.get("ETCD_ENDPOINTS") or ETCD_AT
    if backend == ETCD and not any(map(_answers, addresses.split(","))):
        raise ForetokenError(
            f"Nothing answers at {addresses}, where workers are found by etcd. Start etcd, or say in "
            "ETCD_ENDPOINTS where it is. On one machine files will do: -- --discovery-backend file, for "
            "the frontend too."
        )


def _answers(address: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        place = urlsplit(address if "//" in address else f"//{address}")
        where = place.hostname or "", place.port or ETCD_PORT
        with socket.create_connection(where, CONNECT_S):
            return True
    return False
