"""Addresses of servers, as people write them; and their keys. Torch-free, and never goes to the
network."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import platformdirs

from engine.errors import InvalidRequest
from engine.loading.secrets import KeptIn, Secret

KEY_VARIABLE = "FORETOKEN_SERVER_KEY"
"""Environment variable with the key for whatever server is asked; it goes before what is kept."""
FOLDER_VARIABLE = "FORETOKEN_SERVER_KEYS"
"""Environment variable that moves the folder of keys, where there is no keyring."""

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:/+", re.IGNORECASE)
_VERSION = re.compile(r"/v1/?$")
_OTHER_VERSION = re.compile(r"/v\d+$")
"""Where some have OpenAI's protocol: OpenVINO Model Server at /v3."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_address(text: str) -> bool:
    """Whether ``text`` is meant as a server's address, not as a model here."""
    return _SCHEME.match(text.strip()) is not None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server answers, and which of its models is meant: "" is its first.

    ``root`` is what stands before ``/v1``, without a slash behind it; another version is part of it.
    """

    root: str
    model: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """``http://HOST[:PORT][/PATH][/v1][#MODEL]``; without a scheme it is http.

        Raises InvalidRequest for what is no such address, and for one that holds a password.
        """
        from httpx2 import URL, InvalidURL  # no time for it where no server is asked

        text = text.strip()
        other = None if is_address(text) else _OTHER_SCHEME.match(text)
        if other is not None:
            raise InvalidRequest(
                "address",
                f"An address of a server begins with http:// or https:// only, not with {other[0]}",
            )
        try:
            parts = urlsplit(text if is_address(text) else f"http://{text}")
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise _no_address(text, f"{error}.") from error
        if not host or any(sign.isspace() for sign in text):
            raise _no_address(text, "it names no host.")
        if parts.username or parts.password:
            raise InvalidRequest(
                "address",
                "The address holds a name or a password, which would be shown with it. Leave them out, "
                "and give the key by itself.",
            )
        if parts.query:
            raise _no_address(text, "nothing can stand behind a question mark.")
        shown = f"[{host}]" if ":" in host else host
        place = shown if port is None else f"{shown}:{port}"
        path = _VERSION.sub("", parts.path).rstrip("/")
        root = f"{parts.scheme.lower()}://{place}{path}"
        try:
            URL(root).raw_host.decode().encode("idna")
        except (InvalidURL, UnicodeError) as error:
            raise _no_address(text, f"{error}.") from error
        return cls(root, unquote(parts.fragment))

    @property
    def api(self) -> str:
        """Where OpenAI's protocol is spoken."""
        return self.root if _OTHER_VERSION.search(self.root) else f"{self.root}/v1"

    @property
    def text(self) -> str:
        """As ``parse`` reads it."""
        return f"{self.root}#{quote(self.model, safe='/:@+~')}" if self.model else self.root

    @property
    def place(self) -> str:
        """Host and port, for people."""
        return urlsplit(self.root).netloc

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine."""
        return urlsplit(self.root).hostname in _LOOPBACK

    @property
    def is_open(self) -> bool:
        """Whether what is sent can be read on the way."""
        return self.root.startswith("http://") and not self.is_here


def key(address: Address) -> tuple[str | None, KeptIn]:
    """The key to send to a server, if any, and where it is kept."""
    given = os.environ.get(KEY_VARIABLE, "").strip()
    return (given, KeptIn.ENVIRONMENT) if given else _secret(address).get()


def keep_key(address: Address, text: str) -> KeptIn:
    """Keeps a key for every model of a server; where it is kept is returned.

    Raises InvalidRequest for what can be no key, DiskError where it cannot be kept.
    """
    cleaned = text.strip()
    if not cleaned or not cleaned.isascii() or any(map(str.isspace, cleaned)):
        raise InvalidRequest(
            "key", "That is no key: it is one word of plain letters. Copy it again."
        )
    return _secret(address).keep(cleaned)


def forget_key(address: Address) -> bool:
    """Deletes what ``keep_key`` kept; False where there was nothing."""
    return _secret(address).forget()


def as_kept(address: Address) -> Callable[[], None]:
    """What makes the kept key of a server what it is now, whatever comes between; none, if none is."""
    secret = _secret(address)
    text, _ = secret.get()

    def put_back() -> None:
        if text:
            secret.keep(text)
        else:
            secret.forget()

    return put_back


def key_file(address: Address) -> Path:
    """The file that stands in for a keyring."""
    moved = os.environ.get(FOLDER_VARIABLE)
    usual = Path(platformdirs.user_config_dir("foretoken", appauthor=False)) / "server_keys"
    folder = Path(moved).expanduser() if moved else usual
    return folder / quote(address.root, safe="")


def _secret(address: Address) -> Secret:
    return Secret(f"server {address.root}", key_file(address))


def _no_address(text: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        "address",
        f"{text[:200]!r} is no address of a server: {why} Write it as http://HOST:PORT or "
        "https://HOST/v1, with #MODEL behind it where it has several.",
    )
