"""``foretoken settings``, ``compiler`` and ``diagnostics``: defaults of the app, what compiles its
kernels, and a report of a fault."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Exit, Option

from app import paths
from app.cli import options
from app.cli.loading import check_load
from app.main import DEFAULT_PAIR, Settings, first_load
from app.settings.preferences import Preferences, PreferencesFile, StartWith
from engine.api import LoadRequest
from engine.errors import InvalidRequest
from engine.machine import devices
from engine.request import PLAIN

if TYPE_CHECKING:
    from engine.machine.compilers import Compiler

DEFAULT = "default"


def settings(
    start: str | None = Option(
        None, metavar="PAIR", help="What to load at startup: pip, last, or a pair as in --pair."
    ),
    device: str | None = Option(None, help="auto, cpu or cuda."),
    threads: str | None = Option(None, metavar="N", help="CPU threads, or default."),
    native: bool | None = Option(
        None, "--native/--no-native", help="Use the compiled CPU kernels."
    ),
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
    if changes:
        print(f"Saved in {file.path}; it applies from the next start.")
    if device == "cuda" and not devices.has_driver():
        print("Note: without an NVIDIA driver, as here, the app runs on the CPU.", file=sys.stderr)
    if as_json:
        print(json.dumps(preferences.as_json, ensure_ascii=False))


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


def diagnostics(
    gpu: bool = Option(
        False,
        "--gpu",
        help="Test the GPU's kernels with --pair (default: the pair that the app starts "
        "with), and print all results to send in. Exits with 1 if nothing was tried.",
    ),
    pair: options.PairOption = "",
    again: bool = Option(False, "--again", help="With --gpu: forget earlier results first."),
    data_dir: options.DataDirOption = None,
) -> None:
    """Print versions, machine and compiled kernels for a bug report; no chats, no keys.

    The Settings page of a running app shows more: what is loaded, and recent errors.
    """
    from app import diagnostics as reports
    from app.stored_data import folders
    from engine.loading.inventory import models_folder
    from engine.machine.secrets import hub_token

    data = paths.data_folder(data_dir)
    options.no_use("pair", pair and not gpu, without="--gpu")
    options.no_use("again", again and not gpu, without="--gpu")
    if gpu:
        if pair:
            check_load(data, LoadRequest.parse(pair), PLAIN, here=True)
        _test_gpu(pair, data, again=again)
        return
    where = folders(data, models_folder(data))
    print(reports.report(None, where, secrets=(hub_token().get()[0],)), end="")


def compiler(
    fetch: bool = Option(
        False, "--fetch", help="Download a compiler (package ziglang) if none works."
    ),
) -> None:
    """Show which C++ compiler builds the kernels that make models fast on a CPU."""
    from engine.backends.native import build
    from engine.machine import compilers

    if fetch:
        _ensure_compiler()
    candidates = compilers.found()
    if not candidates:
        raise compilers.NoCompiler()
    print(f"Compilers, in the order they are tried: {', '.join(map(str, candidates))}.")
    path = build.built()
    print(
        "The kernels have not been compiled yet."
        if path is None
        else f"The compiled kernels are in {path}."
    )


def _ensure_compiler() -> None:
    """Compile the step, with a downloaded compiler if there is no other. Raises BuildError."""
    from engine.files import size_on_disk
    from engine.machine import compilers
    from engine.values.units import format_bytes

    try:
        _compile(compilers.found())
        print("Nothing to download: a compiler is installed.")
        return
    except compilers.NoCompiler:
        pass
    except compilers.BuildError as error:
        print(f"No compiler works: {error}")
    folder = compilers.folder()
    print(f"Downloading {compilers.WHEEL} ({compilers.SIZE}) into {folder} ...", flush=True)
    start = time.monotonic()
    fetched = compilers.fetch()
    print(
        f"Downloaded in {time.monotonic() - start:.0f} s. Keep it: it is needed again "
        "after updates."
    )
    _compile([fetched])
    print(
        f"The compiler takes {format_bytes(size_on_disk(folder))}. To remove it, delete that folder."
    )


def _compile(candidates: Sequence[Compiler]) -> None:
    """Compile the step and check that it loads. Raises BuildError."""
    from app.cli.loading import Status
    from engine.backends.native import build
    from engine.machine import compilers

    start = time.monotonic()
    with Status() as status:
        status.say("Compiling the kernels; the first time may take minutes ...")
        path = build.build(candidates=candidates)
        if build.load(path) is None:
            raise compilers.BuildError(f"{path} was built, but cannot be loaded on this system.")
    print(f"The compiled kernels were ready in {time.monotonic() - start:.0f} s.")


def _test_gpu(pair: str, data: Path, *, again: bool) -> None:
    """Load a pair on the GPU, which tries its kernels, and print what was found.

    An empty ``pair`` is what the app starts with. Raises Exit if nothing was tried."""
    from app import diagnostics as reports
    from app.cli.loading import open_here

    print(reports.gpu_here(), flush=True)  # before what may end the program
    if (reason := reports.why_no_trial()) is not None:
        print(f"{reason}\nNothing was tried.")
        raise Exit(1)
    if again:
        reports.forget_trials()
    stated = Settings(
        load=LoadRequest.parse(pair or DEFAULT_PAIR, device="cuda"),
        fixed=frozenset({"device", "pair"} if pair else {"device"}),
    )
    with open_here(first_load(data, stated).load, data, log=True):
        found = reports.gpu_trials()
    print(found or "\nNo model was tried with the GPU's kernels.")
    if not found:
        raise Exit(1)
