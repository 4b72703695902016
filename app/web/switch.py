"""The API's switch: on or off, its key, and the origins that may use it. Thread-safe.

Values from the command line apply until the app ends; those of the Server page are stored.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from app.settings.preferences import EndpointChange, EndpointSettings
from engine.errors import ForetokenError, InvalidRequest

SHORTEST_KEY = 8


class ApiKeyMissing(ForetokenError):
    """The API would be open to the network without a key."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How the API loads models. ``on_demand``: it loads what a request names, if that is on the disk.
    ``idle_unload``: minutes without a request until it unloads; None: never. ``most``: how many models
    may be in memory at once."""

    on_demand: bool = False
    idle_unload: float | None = None
    most: int = 1


class ApiSwitch:
    """Whether the API answers, and whom. Shared by the Server page, the guard and the API.

    ``needs_key``: the app listens beyond this machine, so the API needs a key to be on. ``given_key`` and
    ``given_origins`` come from the command line and cannot be changed in this run; ``stored`` is set by
    the page, and ``store`` changes it and returns what is stored then. ``pages``: there are pages, which
    messages may name.
    """

    def __init__(
        self,
        on: bool = False,
        *,
        api_key: str | None = None,
        needs_key: bool = False,
        pages: bool = True,
        origins: Iterable[str] = (),
        stored: EndpointSettings | None = None,
        store: Callable[[EndpointChange], EndpointSettings] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self.given_key = api_key
        self.given_origins = tuple(map(_plain, origins))
        self.needs_key, self.pages = needs_key, pages
        self._stored = stored or EndpointSettings()
        self._store = store or (lambda change: change(self._stored))
        self._check(on)
        self.on = on

    def set(self, on: bool) -> None:
        """Switch the API on or off. Raises ApiKeyMissing if it would be open without a key."""
        self._check(on)
        self._change(lambda stored: replace(stored, on=on))
        self.on = on

    def _check(self, on: bool) -> None:
        if on and self.needs_key and not self.api_key:
            raise ApiKeyMissing(
                "Foretoken is reachable from other machines, so the API needs a key. Start "
                "with --api-key-file FILE, or with --host 127.0.0.1 for this machine "
                f"only{self.or_page('set one')}."
            )

    def or_page(self, what: str) -> str:
        """Return the end of a sentence: ``what`` can be done on the Server page too, if there is one."""
        return f", or {what} on the Server page" if self.pages else ""

    def _change(self, change: EndpointChange) -> None:
        """Store a change, then apply what is stored. Raises DiskError, with nothing changed."""
        with self._lock:
            stored = self._store(change)
            if self.needs_key and stored.key is None:  # removed by another app, which needs none
                stored = replace(stored, key=self._stored.key)
            self._stored = stored

    # ---- the key

    @property
    def api_key(self) -> str | None:
        """The key that requests need, if any."""
        return self.given_key or self._stored.key

    def set_key(self, key: str) -> None:
        """Set and store the key. Raises InvalidRequest for an unusable one, and if the command line gave
        one."""
        self._refuse_given()
        cleaned = key.strip()
        visible = cleaned.isascii() and cleaned.isprintable() and " " not in cleaned
        if len(cleaned) < SHORTEST_KEY or not visible:
            raise InvalidRequest(
                "key",
                f"A key must be one word of at least {SHORTEST_KEY} letters, digits and signs. "
                "Choose another one, or generate one.",
            )
        self._change(lambda stored: replace(stored, key=cleaned))

    def make_key(self) -> None:
        """Set a random key."""
        self.set_key(f"ft-{secrets.token_urlsafe(24)}")

    def remove_key(self) -> None:
        """Remove the key. Raises ApiKeyMissing if the app listens beyond this machine."""
        self._refuse_given()
        if self.needs_key:
            raise ApiKeyMissing(
                "Foretoken is reachable from other machines, so the API needs a key. Generate "
                "a new one instead, or start with --host 127.0.0.1."
            )
        self._change(lambda stored: replace(stored, key=None))

    def _refuse_given(self) -> None:
        if self.given_key is not None:
            raise InvalidRequest(
                "key",
                "The key was set on the command line. To set one here, start Foretoken without "
                "--api-key.",
            )

    # ---- origins

    @property
    def origins(self) -> tuple[str, ...]:
        """Origins of other pages that may use the API."""
        return tuple(dict.fromkeys((*self.given_origins, *self._stored.origins)))

    def allows(self, origin: str) -> bool:
        return _plain(origin) in self.origins

    def allow_origin(self, text: str) -> None:
        """Let pages of this origin use the API. Raises InvalidRequest if it is no origin."""
        origin = origin_of(text)
        if origin not in self.origins:
            self._change(lambda stored: replace(stored, origins=(*stored.origins, origin)))

    def forbid_origin(self, origin: str) -> None:
        """Remove an origin. Raises InvalidRequest for one from the command line."""
        if origin in self.given_origins:
            raise InvalidRequest(
                "origin",
                f"{origin} was allowed on the command line. To remove it, start Foretoken "
                f"without --allow-origin {origin}.",
            )
        self._change(
            lambda stored: replace(
                stored, origins=tuple(each for each in stored.origins if each != origin)
            )
        )


def _plain(origin: str) -> str:
    return origin.strip().rstrip("/").lower()


def origin_of(text: str) -> str:
    """Return the origin of an address: ``http://localhost:3000``. Raises InvalidRequest if it has
    none."""
    try:
        parts = urlsplit(_plain(text))
        host = parts.hostname
    except ValueError:
        host = None
    if not host or not parts.scheme or "*" in host:
        raise InvalidRequest(
            "origin",
            f"{text.strip()!r} is not an origin. Enter the address of the website, such as "
            "http://localhost:3000; wildcards are not supported.",
        )
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
