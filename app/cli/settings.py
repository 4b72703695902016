"""``foretoken settings`` and ``foretoken diagnostics``: defaults of the app, and a report of a fault."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app import paths
from app.cli import options
from app.settings.preferences import Preferences, PreferencesFile, StartWith
from engine.api import LoadRequest
from engine.errors import InvalidRequest

DEFAULT = "default"


def settings(
    start: Annotated[
        str | None,
        typer.Option(
            metavar="PAIR",
            help="What to load at startup: pip, last, or a pair as in --pair.",
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N", help="CPU threads, or default.")
    ] = None,
    native: Annotated[
        bool | None,
        typer.Option("--native/--no-native", help="Use the compiled CPU kernels."),
    ] = None,
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Show or change what the app loads at startup, and its device; options override it."""
    file = PreferencesFile(paths.data_folder(data_dir))
    changes: dict[str, Any] = {} if start is None else _started_with(start)
    if device is not None:
        changes["device"] = device
    if threads is not None:
        changes["threads"] = _count(threads)
    if native is not None:
        changes["native"] = native
    if changes.get("chosen"):
        from app.inventory import open_inventory

        open_inventory(file.path.parent).named(changes["chosen"])  # told now, not at the next start
    preferences = file.keep(**changes) if changes else file.read()
    print(f"Starts with {_begins_with(preferences)}.")
    count = preferences.threads
    device_ = "automatic" if preferences.device == "auto" else preferences.device
    step = "on" if preferences.native else "off"
    print(f"Device: {device_}. CPU threads: {count or 'automatic'}. Compiled kernels: {step}.")
    print(f"Saved in {file.path}; it applies from the next start.")
    if as_json:
        print(json.dumps(asdict(preferences), ensure_ascii=False))


def _started_with(text: str) -> dict[str, Any]:
    if text == "pip":
        return {"start_with": StartWith.SHIPPED}
    if text == StartWith.LAST:
        return {"start_with": StartWith.LAST}
    return {"start_with": StartWith.CHOSEN, "chosen": LoadRequest.parse(text)}


def _count(text: str) -> int | None:
    if text == DEFAULT:
        return None
    if not text.isdecimal():
        raise InvalidRequest("threads", f"threads is {text!r}; give a number, or {DEFAULT}.")
    return int(text)


def _begins_with(preferences: Preferences) -> str:
    if preferences.start_with is StartWith.LAST:
        now = f", now {preferences.last.text}" if preferences.last else ""
        return f"the last pair{now}"
    return preferences.pair.text if preferences.pair else "Pip (included)"


def diagnostics(data_dir: options.DataDirOption = None) -> None:
    """Print versions, machine and compiled kernels for a bug report; no chats, no keys.

    The Settings page of a running app shows more: what is loaded, and recent errors.
    """
    from app import diagnostics as reports
    from app.stored_data import folders
    from engine.loading.inventory import models_folder
    from engine.machine.secrets import hub_token

    data = paths.data_folder(data_dir)
    where = folders(data, models_folder(data))
    print(reports.report(None, where, secrets=(hub_token().get()[0],)), end="")
