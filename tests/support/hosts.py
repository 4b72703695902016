"""Several hosts on this machine, each with its own network: Linux' network namespaces on one bridge."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True)
class Host:
    """One of them. Programs there and here reach each other by ``address``."""

    name: str
    address: str

    def words(self, words: Sequence[str]) -> list[str]:
        """A command, so that it runs there."""
        return ["ip", "netns", "exec", self.name, *words]

    def unplug(self) -> None:
        """Takes its cable out: nobody is told that a connection ended."""
        _ip("-n", self.name, "link", "set", "eth0", "down")

    def plug(self) -> None:
        """Puts it in again."""
        _ip("-n", self.name, "link", "set", "eth0", "up")


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """So many; skips, visibly, where this user may not make them."""
    if not shutil.which("ip") or os.geteuid() != 0:
        pytest.skip("hosts are made with iproute2, by root")
    own = os.getpid() % 2**16
    bridge, network = f"ftbr{own}", f"198.18.{own % 256}"  # addresses that are kept for tests
    with contextlib.ExitStack() as undo:
        try:
            _ip("link", "add", bridge, "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no bridge can be made here: {error.stderr.decode().strip()}")
        undo.callback(_ip, "link", "del", bridge)
        _ip("addr", "add", f"{network}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        made = []
        for number in range(1, count + 1):
            host = Host(f"ft{own}-{number}", f"{network}.{number}")
            _ip("netns", "add", host.name)
            undo.callback(_ip, "netns", "del", host.name)
            cable = f"ft{own}v{number}"
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", host.name)
            _ip("link", "set", cable, "master", bridge, "up")
            _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
            _ip("-n", host.name, "link", "set", "lo", "up")
            host.plug()
            made.append(host)
        yield made


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
