"""The servers of tools that the user added: read from the JSON that other apps use, stored privately."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.settings.settings_file import SettingsFile, Values
from engine.errors import InvalidRequest
from engine.files import parse_json

FILE = "mcp.json"
CALL_S = 60.0
"""Seconds that a call may take, unless its server's configuration says otherwise."""
LONGEST_CALL_S = 3600.0
ROUNDS, MOST_ROUNDS = 10, 100
"""Replies of one turn that may call tools before the user is asked to continue: default and most."""
MOST_SERVERS = 32
LARGEST = 256 * 1024
"""Characters of a configuration that is imported."""
LONGEST_VALUE, MOST_VALUES = 8192, 128
"""Characters of one text in a configuration; texts of one list."""

_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,64}")
_KNOWN = frozenset(
    "command args env cwd url serverUrl httpUrl headers type transport disabled enabled "
    "timeout_s tools_off description".split()
)
_HTTP = ("http", "sse", "streamable-http", "streamableHttp", "streamable_http")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server: a program to start (``command``), or an address (``url``).

    ``on``: chats use it unless they turn it off. ``timeout_s``: how long a call may take. ``tools_off``:
    tools that models are not told of.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    on: bool = True
    timeout_s: float = CALL_S
    tools_off: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or not self.name.strip():
            raise _wrong("A server's name has 1 to 64 characters and no line break.")
        if bool(self.command.strip()) == bool(self.url.strip()):
            raise _wrong(f"{self.name} needs either a command or a URL.")
        if self.url and not re.match(r"https?://[^\s/]", self.url):
            raise _wrong(f"The URL of {self.name} must begin with http:// or https://.")
        if not 1 <= self.timeout_s <= LONGEST_CALL_S:
            raise _wrong(
                f"The time limit of {self.name} must be 1 to {LONGEST_CALL_S:.0f} seconds per call."
            )

    @property
    def mark(self) -> str:
        """Return a mark of what is started or asked. Trust in a server ends when that changes."""
        what = [
            self.name, self.command, self.args, sorted(self.env.items()), self.cwd, self.url,
            sorted(self.headers.items()),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]

    @property
    def line(self) -> str:
        """Return the whole command line, or the address."""
        return self.url or " ".join(_quoted(each) for each in (self.command, *self.args))

    def entry(self) -> Values:
        """Return the server as the usual JSON has it, without what is at its default."""
        values: Values = {
            "url": self.url,
            "headers": dict(self.headers),
            "command": self.command,
            "args": list(self.args),
            "env": dict(self.env),
            "cwd": self.cwd,
            "disabled": not self.on,
            "tools_off": sorted(self.tools_off),
            "timeout_s": self.timeout_s if self.timeout_s != CALL_S else None,
        }
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class Imported:
    """Servers of a configuration. ``ignored``: settings of it that have no effect here."""

    servers: tuple[ServerConfig, ...]
    ignored: tuple[str, ...]


def read_servers(text: str) -> Imported:
    """Return the servers of a configuration of Claude Desktop, LM Studio, Cursor or VS Code.

    Raises InvalidRequest, which names what is wrong. Nothing of such a file makes a server trusted.
    """
    if len(text) > LARGEST:
        raise _wrong(f"This configuration is larger than {LARGEST // 1024} KB.")
    try:
        value = parse_json(text)
    except ValueError as error:
        raise _wrong(f"This is not JSON: {error}.") from None
    found = (
        value.get("mcpServers", value.get("servers", value)) if isinstance(value, dict) else None
    )
    if isinstance(found, dict) and ("command" in found or "url" in found):
        raise _wrong('Give the server a name: {"mcpServers": {"name": {"command": ...}}}.')
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise _wrong('No servers found. Use JSON of the form {"mcpServers": {"name": {...}}}.')
    if not 1 <= len(found) <= MOST_SERVERS:
        raise _wrong(
            f"This configuration has {len(found)} servers; it must be 1 to {MOST_SERVERS}."
        )
    ignored = tuple(
        f"{name}: {each}" for name, entry in found.items() for each in entry if each not in _KNOWN
    )
    return Imported(tuple(server_of(name, entry) for name, entry in found.items()), ignored)


def server_of(name: str, entry: Mapping[str, Any]) -> ServerConfig:
    """Return one server of a configuration. Raises InvalidRequest."""
    url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl") or ""
    kind = entry.get("type") or entry.get("transport")
    if kind not in (None, "stdio", *_HTTP):
        raise _wrong(f"{name} has the type {str(kind)[:40]!r}; supported are stdio, http and sse.")
    seconds = entry.get("timeout_s", CALL_S)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise _wrong(f"The time limit of {name} must be a number of seconds.")
    off = entry.get("disabled") is True or entry.get("enabled") is False
    return ServerConfig(
        name,
        command=_text(name, "command", entry.get("command")),
        args=_texts(name, "args", entry.get("args")),
        env=_map(name, "env", entry.get("env")),
        cwd=_text(name, "cwd", entry.get("cwd")),
        url=_text(name, "url", url),
        headers=_map(name, "headers", entry.get("headers")),
        on=not off,
        timeout_s=seconds,
        tools_off=frozenset(_texts(name, "tools_off", entry.get("tools_off"))),
    )


@dataclass(frozen=True, slots=True)
class GivenServers:
    """The servers of a file that a command was given."""

    given: tuple[ServerConfig, ...]
    rounds: int = ROUNDS

    def servers(self) -> tuple[ServerConfig, ...]:
        return self.given


class McpFile:
    """The stored servers, and how many rounds of calls a turn may have. Thread-safe."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SettingsFile(data_dir / FILE, _stored)

    @property
    def path(self) -> Path:
        return self._file.path

    def servers(self) -> tuple[ServerConfig, ...]:
        """Return the servers in the order in which they were added."""
        return _stored(self._file.read())

    def add(self, servers: tuple[ServerConfig, ...], instead_of: str = "") -> None:
        """Add servers, and remove the one named ``instead_of``. One of a known name replaces that one.

        Raises InvalidRequest for what could not be read again; the file is then unchanged.
        """
        for each in servers:
            server_of(each.name, each.entry())
        with self._file.change() as values:
            known = values.setdefault("mcpServers", {})
            known.pop(instead_of, None)
            for name in {each.name for each in servers} - known.keys():
                if not name.isprintable():  # it stands where a call is approved
                    raise _wrong(f"The name {name!r} has characters that cannot be shown.")
            known |= {each.name: each.entry() for each in servers}
            if len(known) > MOST_SERVERS:
                raise _wrong(f"{len(known)} servers are too many (at most {MOST_SERVERS}).")

    def change(self, name: str, **changed: Any) -> None:
        """Change fields of one server. Raises InvalidRequest if it is gone."""
        server = next((each for each in self.servers() if each.name == name), None)
        if server is None:
            raise _wrong(f"There is no server {name!r}.")
        self.add((replace(server, **changed),))

    def remove(self, name: str) -> None:
        with self._file.change() as values:
            values.get("mcpServers", {}).pop(name, None)

    @property
    def rounds(self) -> int:
        """Return how many replies of a turn may call tools before the user is asked to continue."""
        rounds = self._file.read().get("rounds", ROUNDS)
        return rounds if type(rounds) is int and 1 <= rounds <= MOST_ROUNDS else ROUNDS

    @rounds.setter
    def rounds(self, rounds: int) -> None:
        if not 1 <= rounds <= MOST_ROUNDS:
            raise _wrong(f"The limit must be 1 to {MOST_ROUNDS} tool steps.")
        with self._file.change() as values:
            values["rounds"] = rounds


def _stored(values: Values) -> tuple[ServerConfig, ...]:
    try:
        return tuple(server_of(name, each) for name, each in values.get("mcpServers", {}).items())
    except (InvalidRequest, AttributeError) as error:
        raise ValueError(str(error)) from error


def _text(server: str, name: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > LONGEST_VALUE or "\0" in value:
        raise _wrong(f"{name} of {server} must be text of at most {LONGEST_VALUE:,} characters.")
    return value


def _texts(server: str, name: str, values: Any) -> tuple[str, ...]:
    if values is None:
        return ()
    if not isinstance(values, list) or len(values) > MOST_VALUES:
        raise _wrong(f"{name} of {server} must be a list of at most {MOST_VALUES} texts.")
    return tuple(_text(server, name, each) for each in values)


def _map(server: str, name: str, values: Any) -> dict[str, str]:
    if values is None:
        return {}
    if not isinstance(values, dict) or len(values) > MOST_VALUES:
        raise _wrong(f"{name} of {server} must be an object of at most {MOST_VALUES} texts.")
    return {str(key): _text(server, name, value) for key, value in values.items()}


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w@%+=:,./\\-]+", text) else json.dumps(text, ensure_ascii=False)


def _wrong(message: str) -> InvalidRequest:
    return InvalidRequest("servers", message)
