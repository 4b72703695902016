"""Servers' addresses, as people write them, and their ``Retry-After``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote, unquote, urlsplit

from engine.errors import InvalidRequest

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:/+", re.IGNORECASE)
_VERSION = re.compile(r"/v1/?$")
_OTHER_VERSION = re.compile(r"/v\d+$")
"""Other versions under which servers have OpenAI's protocol: OpenVINO Model Server at /v3."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_address(text: str) -> bool:
    """Return whether ``text`` means a server's address, not a model."""
    return _SCHEME.match(text.strip()) is not None


@dataclass(frozen=True, slots=True)
class Address:
    """A server and one of its models; "" is its first.

    ``root`` is the address before ``/v1``, without a trailing slash; another version is part of it.
    """

    root: str
    model: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse ``http://HOST[:PORT][/PATH][/v1][#MODEL]``; the scheme defaults to http.

        Raises InvalidRequest for anything else, and for an address with a password.
        """
        from httpx2 import URL, InvalidURL  # slow to import; only needed for servers

        text = text.strip()
        other = None if is_address(text) else _OTHER_SCHEME.match(text)
        if other is not None:
            raise InvalidRequest(
                "address",
                f"A server's address begins with http:// or https://, not with {other[0]}",
            )
        try:
            parts = urlsplit(text if is_address(text) else f"http://{text}")
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise _no_address(text, f"{error}.") from error
        if not host or any(sign.isspace() for sign in text):
            raise _no_address(text, "it has no host.")
        if parts.username or parts.password:
            raise InvalidRequest(
                "address",
                "The address contains a user name or password, which would be visible. Leave "
                "them out, and give the key separately.",
            )
        if parts.query:
            raise _no_address(text, "a query (?...) is not allowed.")
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
        """The address of OpenAI's protocol."""
        return self.root if _OTHER_VERSION.search(self.root) else f"{self.root}/v1"

    @property
    def text(self) -> str:
        """The address as ``parse`` reads it."""
        return f"{self.root}#{quote(self.model, safe='/:@+~')}" if self.model else self.root

    @property
    def place(self) -> str:
        """Host and port, for people."""
        return urlsplit(self.root).netloc

    @property
    def is_here(self) -> bool:
        """True on this machine."""
        return urlsplit(self.root).hostname in _LOOPBACK

    @property
    def is_open(self) -> bool:
        """True if requests can be read on the way."""
        return self.root.startswith("http://") and not self.is_here


def _no_address(text: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        "address",
        f"{text[:200]!r} is not a server address: {why} Write http://HOST:PORT or "
        "https://HOST/v1, with #MODEL at the end if it has several.",
    )


_LONGEST_S = 86_400.0
"""A server may ask for a wait without an end; a day says as much."""


def retry_after_seconds(retry_after: str) -> float | None:
    """Return the seconds of a ``Retry-After``, a number or a date (RFC 9110 10.2.3), or None."""
    try:
        return min(max(0.0, float(retry_after)), _LONGEST_S)
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        return None
    return min(max(0.0, (until - datetime.now(UTC)).total_seconds()), _LONGEST_S)
