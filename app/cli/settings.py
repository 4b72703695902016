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
            help="What the app begins with: pip, last (loaded last), or a pair as --pair has it.",
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N", help="Threads that compute, or default.")
    ] = None,
    native: Annotated[
        bool | None,
        typer.Option("--native/--no-native", help="Whether the compiled step may be used."),
    ] = None,
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Show what the app starts with and what computes, or change it. Its own options go before them."""
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
    print(f"Begins with {_begins_with(preferences)}.")
    count = preferences.threads
    threads_ = f"{count} thread{'' if count == 1 else 's'}" if count else "as many threads as suit"
    device_ = "whatever suits" if preferences.device == "auto" else preferences.device
    step = "with" if preferences.native else "without"
    print(f"Computes on {device_}, with {threads_}, {step} the compiled step.")
    print(f"Kept in {file.path}; a running app uses it from its next start on.")
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
        return f"the pair that was loaded last{now}"
    return preferences.pair.text if preferences.pair else "Pip, which comes with the app"


def diagnostics(data_dir: options.DataDirOption = None) -> None:
    """Print versions, machine and compiled step for a report of a fault: no chats, no keys.

    The Settings page of a running app has more: what is loaded, and what went wrong lately.
    """
    from app import diagnostics as reports
    from app.stored_data import folders
    from engine.loading.inventory import models_folder
    from engine.machine.secrets import hub_token

    data = paths.data_folder(data_dir)
    where = folders(data, models_folder(data))
    print(reports.report(None, where, secrets=(hub_token().get()[0],)), end="")
