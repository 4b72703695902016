"""The settings page's backend. Plain values: no Gradio, no HTML."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import typer

from app import diagnostics
from app.runtime import Runtime
from app.settings.preferences import COMPUTING, PAIR, Preferences, StartWith
from app.stored_data import StoredData
from app.ui import words
from app.ui.controls.settings import whole
from app.ui.endpoints import View, endpoint, local_endpoint
from app.ui.pages.chat.backend import ChatBackend
from app.ui.words import pair as pair_words
from app.web.switch import ApiSwitch
from engine.api import LoadRequest
from engine.errors import ForetokenError, InvalidRequest
from engine.loading.inventory import EMBEDDED, MODELS_VARIABLE
from engine.machine.secrets import hub_token
from engine.values.units import format_bytes

START = "start"
IDLE, TITLES = "idle_unload", "titles"
STATED = {
    IDLE: (IDLE,),
    START: ("pair", "head", "quantization", "kv_cache_dtype"),
    **{name: (name,) for name in COMPUTING},
}
"""The options of the command line that override each setting."""
NOW = "now"
"""The choice to start with the pair that is loaded now."""


class SettingsBackend:
    """The settings of one running app; those of its chats are ``app.ui.controls.stored_settings``'s."""

    def __init__(
        self, runtime: Runtime, switch: ApiSwitch, data: StoredData, chat: ChatBackend
    ) -> None:
        self.runtime, self.switch, self.data, self.chat = runtime, switch, data, chat

    # ---- how the app starts, and computes

    @endpoint
    def computing(self, data: View | None = None) -> View:
        """Return each setting's value, its choices, and the options that fix it. ``reload``: the loaded
        pair still has other settings. ``idle_unload``: minutes without a request after which the model
        is unloaded, None for never; the next message or request loads it again. ``titles``: whether the
        loaded model names new chats, if it is large enough."""
        kept = self.runtime.preferences.read()
        first, loaded = self.runtime.first, self.runtime.engine.loaded
        default, most = diagnostics.thread_limits()
        devices = [{"id": name, "why": why} for name, why in diagnostics.devices_here().items()]
        return {
            START: {"value": str(kept.start_with), "choices": self._starts(kept)},
            "device": {"value": first.device, "choices": devices},
            "threads": {"value": self.runtime.threads, "default": default, "most": most},
            "native": {"value": first.native},
            TITLES: {"value": kept.titles},
            IDLE: {"value": self.runtime.idle.minutes, "choices": [None, 5, 15, 30, 60, 240]},
            "fixed": {name: self._stated(name) for name in STATED if self._stated(name)},
            "loaded": loaded and loaded.name,
            "reload": loaded is not None
            and any(
                getattr(loaded.request, name) != value for name, value in self._wanted().items()
            ),
        }

    @endpoint
    def keep_computing(self, data: View) -> View:
        """Store another ``value`` for the setting ``name``. Raises ForetokenError."""
        name, value = str(data["name"]), data["value"]
        if self._stated(name):
            raise InvalidRequest(
                name,
                "This is set on the command line. Start Foretoken without that option to change it here.",
            )
        if name == START:
            changes = self._started_with(str(value))
        elif name in COMPUTING:
            changes = {name: whole(name, value) if name == "threads" else value}
        elif name == TITLES:
            changes = {name: value}
        elif name == IDLE:
            changes = {name: None if value in (None, "") else whole(name, value)}
        else:
            raise InvalidRequest(name, f"There is no setting {name}.")
        self.runtime.preferences.keep(**changes)
        if name in COMPUTING:
            self.runtime.first = replace(self.runtime.first, **changes)
        if name == IDLE:
            self.runtime.idle.minutes = changes[IDLE]
        return self.computing()

    @endpoint
    def reload(self, data: View | None = None) -> View:
        """Load the pair again with the current settings. Raises ForetokenError."""
        first, loaded = self.runtime.first, self.runtime.engine.loaded
        again = first if loaded is None else replace(loaded.request, **self._wanted())
        self.runtime.loader.start(again)
        return self.chat.loading.status()

    def _wanted(self) -> View:
        """Return how the loaded target is computed by the current settings and its own."""
        loaded = self.runtime.engine.loaded
        request = self.runtime.request(loaded.request.target if loaded else "")
        return {name: getattr(request, name) for name in COMPUTING}

    def _stated(self, name: str) -> list[str]:
        """Return the command line options that fix a setting."""
        stated = [one for one in STATED.get(name, ()) if one in self.runtime.fixed]
        return [f"--{one.replace('_', '-')}" for one in stated]

    def _starts(self, kept: Preferences) -> list[View]:
        """Return what the app can start with; ``pair`` is its name, if known."""
        pairs: dict[str, LoadRequest | None] = {
            StartWith.SHIPPED: LoadRequest(target=EMBEDDED),
            StartWith.LAST: kept.last,
        }
        if kept.chosen is not None:
            pairs[StartWith.CHOSEN] = kept.chosen
        loaded = self.runtime.engine.loaded
        now = loaded and _pair(loaded.request)
        if now and now not in map(_pair, filter(None, (pairs[StartWith.SHIPPED], kept.chosen))):
            pairs[NOW] = loaded.request if loaded else None
        return [{"id": str(way), "pair": self._name(one)} for way, one in pairs.items()]

    def _started_with(self, way: str) -> dict[str, Any]:
        if way != NOW:
            return {"start_with": _way(way)}
        loaded = self.runtime.engine.loaded
        if loaded is None:
            raise InvalidRequest(START, words.NOT_LOADED)
        return {"start_with": StartWith.CHOSEN, "chosen": LoadRequest(**_pair(loaded.request))}

    def _name(self, request: LoadRequest | None) -> str | None:
        if request is None:
            return None
        try:
            return self.runtime.inventory.named(request).name
        except ForetokenError:  # it is gone; a start says so
            return request.text

    # ---- folders

    @endpoint
    def folders(self, data: View | None = None) -> View:
        """Return the folders with their sizes, the free space for models and how much is cached."""
        sizes = {name: format_bytes(self.data.bytes_in(name)) for name in self.data.folders}
        return {
            "folders": [
                {"name": name, "path": str(path), "size": sizes[name], "there": path.is_dir()}
                for name, path in self.data.folders.items()
            ],
            "free": format_bytes(self.runtime.inventory.free_disk()),
            "packed": diagnostics.packed_weights(),
            "moved": {
                "data": "--data-dir" if "data_dir" in self.runtime.fixed else None,
                "models": MODELS_VARIABLE if self._models_moved() else None,
            },
        }

    def _models_moved(self) -> bool:
        return self.runtime.models != self.runtime.data_dir / "models"

    @local_endpoint(
        "Foretoken runs on another machine and can open folders only there. Copy the path instead."
    )
    def open_folder(self, data: View) -> bool:
        """Show a folder in this machine's file manager. Raises InvalidRequest."""
        path = self.data.folders.get(str(data["name"]))
        if path is None or not path.is_dir() or typer.launch(str(path)):
            raise InvalidRequest("folder", "No file manager found. Copy the path instead.")
        return True

    # ---- the user's data

    @endpoint
    def asked(self, data: View | None = None) -> View:
        """Return how much is stored of the user's data."""
        return {
            name: value if name == "chats" else format_bytes(value)
            for name, value in self.data.user_data().items()
        }

    @endpoint
    def forget(self, data: View | None = None) -> View:
        """Delete the user's data for good. Raises ForetokenError."""
        if self.chat.live_replies.stop_all():
            raise InvalidRequest(
                "chat",
                "A reply could not be stopped, so nothing was deleted. Wait until it ends and try again.",
            )
        self.data.forget()
        return {**self.asked(), "held": self.runtime.engine.loaded is not None}

    # ---- for a report

    @endpoint
    def diagnostics(self, data: View | None = None) -> View:
        """Return a report for finding faults, as text."""
        text = diagnostics.report(
            self.runtime.engine.loaded,
            self.data.folders,
            self.runtime.complaints.errors,
            chosen=self._plan(),
            secrets=(self.switch.api_key, hub_token().get()[0]),
        )
        return {"text": text}

    def _plan(self) -> list[tuple[str, str]]:
        loaded, settings = self.runtime.engine.loaded, self.chat.stored.now().settings
        rows = [("drafting method", pair_words.method(settings))]
        if loaded is None:
            return rows
        try:
            found = self.runtime.inventory.forecast(loaded.request)
            rows.append(("memory needed", found.sentence))
        except ForetokenError as error:
            rows.append(("memory needed", str(error)))
        return rows


def _pair(request: LoadRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in PAIR}


def _way(text: str) -> StartWith:
    try:
        return StartWith(text)
    except ValueError as error:
        raise InvalidRequest(START, f"start is {text!r}; choose an entry of the list.") from error
