"""The stored settings of the chat, and those of each pair that say how to draft."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

from app.settings.defaults import Defaults
from app.settings.settings_file import SettingsFile
from app.ui.controls.resolver import (
    SAID,
    Pair,
    Resolved,
    mapping,
    resolve,
    resolve_for_pair,
    resolve_stored,
    with_choice,
)
from app.ui.controls.settings import Settings
from engine.api import Engine, Loaded
from engine.errors import ForetokenError

FILE = "chat.json"
SETTINGS = "settings"
"""Their key in the file, which also holds the user's system prompts."""


class StoredSettings:
    """The chat's settings in a data folder. ``version`` changes with them, so that other pages notice."""

    def __init__(self, file: SettingsFile, defaults: Defaults, engine: Engine) -> None:
        self._file, self._defaults, self._engine = file, defaults, engine
        self._before: dict[str, Any] = {}  # what ``forget`` deleted, until the next ``keep``
        self.version = 0

    @property
    def forgotten(self) -> bool:
        """True if ``restore`` would bring settings back."""
        return bool(self._before)

    def pair(self) -> Pair | None:
        """Return the loaded pair."""
        loaded = self._engine.loaded
        if loaded is None:
            return None
        return Pair(
            key_of(loaded),
            loaded.name,
            loaded.capabilities,
            self._defaults.speculation(loaded),
            measured=self._defaults.of(loaded),
        )

    def now(self) -> Resolved:
        """Return the settings for the loaded pair, with notices about choices for another pair."""
        return resolve_stored(self.pair(), mapping(self._file.read().get(SETTINGS)))

    def resolve_for_page(self, settings: Settings, pair: str | None) -> Resolved:
        """Resolve the settings of a page that believes the pair with this key to be loaded. If another
        one is, its own settings say how to draft."""
        loaded = self.pair()
        if loaded is not None and pair is not None and pair != loaded.key:
            return resolve_for_pair(settings, self.now().settings, loaded)
        return resolve(settings, loaded)

    def keep(self, settings: Settings, pair: str | None, *, chosen: bool) -> None:
        """Store settings; how to draft only if it was ``chosen``, for the pair that the page knows."""
        loaded = self.pair()
        chosen = chosen and loaded is not None and loaded.key == pair
        with self._file.change() as values:
            values[SETTINGS] = with_choice(
                mapping(values.get(SETTINGS)), settings, loaded, chosen=chosen
            )
        self._before = {}
        self.version += 1

    def draft_with(self, proposer: str) -> None:
        """Choose a proposer for the loaded pair, if the pair has it."""
        loaded = self.pair()
        if loaded is not None and proposer in loaded.capabilities.names:
            settings = replace(self.now().settings, proposer=proposer)
            self.keep(settings, loaded.key, chosen=True)

    def tell(self) -> tuple[str, ...]:
        """Return what to say of a newly loaded pair. That the last choice is not taken over is said once,
        and not for each pair without a choice of its own."""
        settings = mapping(self._file.read().get(SETTINGS))
        news = resolve_stored(self.pair(), settings).news
        if news and not settings.get(SAID):
            with suppress(ForetokenError), self._file.change() as values:
                values[SETTINGS] = {**mapping(values.get(SETTINGS)), SAID: True}
        return news

    def forget(self) -> None:
        """Delete the settings of every pair."""
        with self._file.change() as values:
            before, values[SETTINGS] = mapping(values.get(SETTINGS)), {}
        self._before = before
        self.version += 1

    def restore(self) -> None:
        """Undo ``forget``."""
        if self._before:
            with self._file.change() as values:
                values[SETTINGS] = self._before
            self._before = {}
            self.version += 1


def key_of(loaded: Loaded) -> str:
    """Return what a choice of how to draft applies to. Names are not unique; paths may hold anything."""
    return json.dumps([loaded.target_id, loaded.draft_id, *loaded.heads])
