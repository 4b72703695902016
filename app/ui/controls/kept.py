"""The settings of the chat as they were left, for the pair that is loaded."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

from app.settings.defaults import Defaults
from app.storage.store import Store
from app.ui.controls.resolver import SAID, Pair, Resolved, for_another, keeping, kept_for, resolve
from app.ui.controls.settings import Settings
from engine.api import Engine, Loaded

SETTINGS = "chat"
"""The name under which they are kept."""


class KeptSettings:
    """Of one data folder. ``version`` changes with them, so that other pages learn of it."""

    def __init__(self, store: Store, defaults: Defaults, engine: Engine) -> None:
        self._store, self._defaults, self._engine = store, defaults, engine
        self._lock = threading.Lock()  # what is kept is read before it is written
        self._before: dict[str, Any] = {}  # what ``forget`` took, until something is kept again
        self.version = 0

    @property
    def forgotten(self) -> bool:
        """Whether ``restore`` would bring something back."""
        return bool(self._before)

    def pair(self) -> Pair | None:
        """What is loaded just now."""
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
        """For the loaded pair; of another pair's choices what is said of them."""
        return kept_for(self.pair(), self._kept())

    def asked(self, settings: Settings, pair: str | None) -> Resolved:
        """What a page asks for that believes the pair of this key to be loaded. Where another one is,
        how to draft is that one's."""
        found = self.pair()
        if found is not None and pair is not None and pair != found.key:
            return for_another(settings, self.now().settings, found)
        return resolve(settings, found)

    def keep(self, settings: Settings, pair: str | None, *, chosen: bool) -> None:
        """Keeps them; how to draft only where it was ``chosen``, for the pair that the page knows."""
        with self._lock:
            found = self.pair()
            chosen = chosen and found is not None and found.key == pair
            kept = keeping(self._kept(), settings, found, chosen=chosen)
            self._keep(kept)

    def draft_with(self, proposer: str) -> None:
        """Chooses it for the pair that is loaded, if that has it."""
        found = self.pair()
        if found is not None and proposer in found.capabilities.names:
            settings = replace(self.now().settings, proposer=proposer)
            self.keep(settings, found.key, chosen=True)

    def tell(self) -> tuple[str, ...]:
        """What a page tells of the pair that was loaded: that the last choice is not taken over once, and
        not of each pair that has no choice of its own."""
        with self._lock:
            kept = self._kept()
            found = kept_for(self.pair(), kept)
            if found.news and not kept.get(SAID):
                self._store.keep_setting(SETTINGS, {**kept, SAID: True})
        return found.news

    def forget(self) -> None:
        """Back to the defaults, for every pair."""
        with self._lock:
            before = self._kept()
            self._keep({})
            self._before = before

    def restore(self) -> None:
        """Bring back what ``forget`` took."""
        with self._lock:
            if self._before:
                self._keep(self._before)

    def _keep(self, kept: dict[str, Any]) -> None:
        self._store.keep_setting(SETTINGS, kept)
        self._before = {}
        self.version += 1

    def _kept(self) -> dict[str, Any]:
        kept = self._store.setting(SETTINGS)
        return kept if isinstance(kept, dict) else {}


def key_of(loaded: Loaded) -> str:
    """What a choice of how to draft counts for. Names are not unique; paths may hold anything."""
    return json.dumps([loaded.target_id, loaded.draft_id, *loaded.heads])
