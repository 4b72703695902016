"""The socket that the app listens on. It is bound first: a port that was only checked can be taken
later."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.errors import ForetokenError, what_failed

TRIES = 100
"""Ports that are tried, from the wanted one on."""

LAST_PORT = 65535


Certificate = tuple[Path, Path]


class CannotListen(ForetokenError):
    """No socket can be bound to this address."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket and its address. ``certificate``: the files of a certificate and its key, for
    HTTPS."""

    socket: socket.socket
    host: str
    port: int
    wanted: int
    certificate: Certificate | None = None

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
        return self._at({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host))

    @property
    def urls_elsewhere(self) -> tuple[str, ...]:
        """The addresses to open on other devices, where it listens on all of this machine."""
        if self.host not in ("0.0.0.0", "::"):
            return ()
        found = (each for card in psutil.net_if_addrs().values() for each in card)
        own = [each.address for each in found if each.family == socket.AF_INET]
        return tuple(self._at(each) for each in own if not _is_reserved(each))

    def _at(self, host: str) -> str:
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host and '[' not in host else host}:{self.port}"


def listen(
    host: str, port: int, *, exact: bool = False, certificate: Certificate | None = None
) -> Listener:
    """Listen at ``port``, or the next free one unless ``exact``; port 0 lets the system choose.

    Raises CannotListen, also for a ``certificate`` that cannot be used.
    """
    if certificate is not None:
        _check(certificate)
    if not 0 <= port <= LAST_PORT:
        raise CannotListen(f"Port {port} does not exist. Choose one from 1024 to {LAST_PORT}.")
    family = _family(host)
    for candidate in range(port, min(port + TRIES, LAST_PORT + 1)):
        bound = _try(family, host, candidate)
        if bound is not None:
            return Listener(bound, host, bound.getsockname()[1], port, certificate)
        if exact:
            raise CannotListen(
                f"Port {port} is used by {holder(port)}. Stop that program, or choose another "
                "port with --port; without --port the next free one is used."
            )
    raise CannotListen(
        f"No port from {port} to {candidate} is free. Close another program, or choose a port "
        "with --port."
    )


def _check(certificate: Certificate) -> None:
    """Raise CannotListen if these files are no certificate and its key."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*certificate)
    except (OSError, ValueError) as error:  # of ssl, too
        raise CannotListen(
            f"{certificate[0]} and {certificate[1]} are not a certificate and its key (PEM): "
            f"{what_failed(error)}."
        ) from error


def holder(port: int) -> str:
    """Return the program that listens at ``port``, with its process id if the system gives it."""
    with contextlib.suppress(psutil.Error, OSError):  # macOS allows it for root alone
        for each in psutil.net_connections("tcp"):
            listens = each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port
            if listens and each.pid:
                return f"{psutil.Process(each.pid).name()} (process {each.pid})"
    return "another program"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def is_address(host: str) -> bool:
    """Return whether ``host`` is written as a number."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_reserved(address: str) -> bool:
    """Return whether no other device can open an address of this machine."""
    found = ipaddress.ip_address(address)
    return found.is_loopback or found.is_link_local


def _family(host: str) -> socket.AddressFamily:
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise CannotListen(
            f"{host!r} is not an address of this machine ({what_failed(error)}). Use --host 127.0.0.1 "
            "for this machine only, or 0.0.0.0 for the whole network."
        ) from error
    return addresses[0][0]


def _try(family: socket.AddressFamily, host: str, port: int) -> socket.socket | None:
    """Return a listening socket, or None if the port is taken."""
    # With the protocol named, as asyncio sets TCP_NODELAY on no other: an answer's body would wait 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # The port may be taken right after an earlier run, but not while in use.
    reuse = "SO_EXCLUSIVEADDRUSE" if sys.platform == "win32" else "SO_REUSEADDR"
    try:
        bound.setsockopt(socket.SOL_SOCKET, getattr(socket, reuse), 1)
        bound.bind((host, port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        # 10013 is Windows' answer for a port another program holds exclusively.
        taken = getattr(error, "winerror", 0) in (10013, 10048)
        if taken or error.errno == errno.EADDRINUSE:
            return None
        raise CannotListen(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Choose another "
            "address with --host, or a port above 1023 with --port."
        ) from error
    return bound
