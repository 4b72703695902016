"""The socket that the app listens on. It is bound first: a port that was only checked can be taken
later."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import sys
from dataclasses import dataclass

import psutil

from engine.errors import ForetokenError

TRIES = 100
"""Ports that are tried, from the wanted one on."""

LAST_PORT = 65535


class CannotListen(ForetokenError):
    """No socket can be bound to this address."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket and its address."""

    socket: socket.socket
    host: str
    port: int
    wanted: int

    @property
    def moved(self) -> bool:
        """True if the wanted port was taken."""
        return self.wanted not in (0, self.port)

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """The address to open on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host and '[' not in host else host}:{self.port}"


def listen(host: str, port: int, *, exact: bool = False) -> Listener:
    """Listen at ``port``, or the next free one unless ``exact``; port 0 lets the system choose.

    Raises CannotListen.
    """
    if not 0 <= port <= LAST_PORT:
        raise CannotListen(f"Port {port} does not exist; choose one from 1024 to {LAST_PORT}.")
    family = _family(host)
    for candidate in range(port, min(port + TRIES, LAST_PORT + 1)):
        bound = _try(family, host, candidate)
        if bound is not None:
            return Listener(bound, host, bound.getsockname()[1], port)
        if exact:
            raise CannotListen(
                f"Port {port} is taken by {holder(port)}. End that program, or choose another port with "
                "--port; without --port the next free one is taken."
            )
    raise CannotListen(
        f"No port from {port} to {candidate} is free. Close another program, or choose a port "
        "with --port."
    )


def holder(port: int) -> str:
    """Return the program that listens at ``port``, with its process id if the system gives it."""
    with contextlib.suppress(psutil.Error, OSError):  # macOS allows it for root alone
        for each in psutil.net_connections("tcp"):
            if (
                each.status == psutil.CONN_LISTEN
                and each.laddr
                and each.laddr.port == port
                and each.pid
            ):
                return f"{psutil.Process(each.pid).name()} (process {each.pid})"
    return "another program"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def _family(host: str) -> socket.AddressFamily:
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise CannotListen(
            f"{host!r} is no address of this machine ({error}). Use --host 127.0.0.1 for this "
            "machine only, or 0.0.0.0 for the whole network."
        ) from error
    return addresses[0][0]


def _try(family: socket.AddressFamily, host: str, port: int) -> socket.socket | None:
    """Return a listening socket, or None if the port is taken."""
    # With the protocol named, as asyncio sets TCP_NODELAY on no other: an answer's body would wait 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        _claim(bound)
        bound.bind((host, port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        if _is_taken(error):
            return None
        raise CannotListen(
            f"Cannot listen at {host}:{port}: {error.strerror or error}. Choose another address "
            "with --host, or a port above 1023 with --port."
        ) from error
    return bound


def _claim(bound: socket.socket) -> None:
    """Allow the port right after an earlier run, but not one in use."""
    if sys.platform == "win32":  # there SO_REUSEADDR would share it
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def _is_taken(error: OSError) -> bool:
    # 10013 is Windows' answer for a port another program holds exclusively.
    return error.errno == errno.EADDRINUSE or getattr(error, "winerror", 0) in (10013, 10048)
