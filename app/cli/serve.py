"""``foretoken ui``, ``foretoken app`` and ``foretoken serve``: the app in the browser, in a window of
its own with an icon in the start menu or dock, or its API alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer import Option

from app import main, paths
from app.cli import options
from app.cli.text.output import reading
from app.web.switch import Serving
from engine.api import AUTO, FP8, LoadRequest
from engine.errors import ForetokenError, InvalidRequest
from engine.files import expanded

_LONGEST_KEY = 4096
_KEY_IS_SEEN = (
    "Other accounts on this machine can see --api-key in the process list. Use "
    "--api-key-file FILE or the variable FORETOKEN_API_KEY instead."
)


def with_listening(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the command's parameter ``settings`` by the options of where and how to listen.

    The command receives a function from its context and its own settings to all of them.
    """
    return options.gathered(command, "settings", _listening)


def _listening(
    port: options.PortOption = main.DEFAULT_PORT,
    host: str = Option(
        main.DEFAULT_HOST, help="Address to listen on; 127.0.0.1 = this machine only."
    ),
    data_dir: options.DataDirOption = None,
    api_key: str | None = Option(
        None,
        "--api-key",
        envvar="FORETOKEN_API_KEY",
        help="Key for the API and the pages; required if other machines can connect. Other "
        "accounts can see it on the command line: prefer --api-key-file or the environment variable.",
    ),
    api_key_file: Path | None = Option(
        None, "--api-key-file", metavar="FILE", help="A file with the API key on one line."
    ),
    allow_origin: list[str] | None = Option(
        None, help="A website whose pages may use the API, such as https://name. Repeatable."
    ),
    tls_cert: Path | None = Option(
        None, metavar="FILE", help="Serve HTTPS with this certificate (PEM); needs --tls-key."
    ),
    tls_key: Path | None = Option(None, metavar="FILE", help="The certificate's private key."),
    idle_unload: float | None = Option(
        None,
        metavar="MINUTES",
        min=0.01,
        help="Unload a model after this time without a request for it; the next request loads it again.",
    ),
    models_max: int = Option(
        1,
        metavar="N",
        min=1,
        max=16,
        help="Keep up to N models in memory, if they fit. Of the idle ones the least recently used is "
        "unloaded first.",
    ),
) -> Callable[..., main.Settings]:
    def settings(
        context: typer.Context, on_demand: bool, load: LoadRequest, **own: Any
    ) -> main.Settings:
        _check_gpu(load)
        return main.Settings(
            load=load,
            port=port,
            host=host,
            fixed=options.stated(context),
            data_dir=data_dir,
            api_key=_key_of(context, api_key, api_key_file),
            origins=tuple(allow_origin or ()),
            certificate=_certificate_of(tls_cert, tls_key),
            serving=Serving(on_demand, idle_unload, models_max),
            **own,
        )

    return settings


@options.with_load
@with_listening
def ui(
    command: typer.Context,
    settings: Callable[..., main.Settings] = main.Settings,
    browser: bool = Option(True, "--browser/--no-browser", help="Open the page in the browser."),
    api: bool = Option(False, "--api", help="Turn the API on."),
    load: LoadRequest = main.DEFAULT_LOAD,
    load_on_demand: bool = Option(
        False,
        "--load-on-demand/--no-load-on-demand",
        help="API requests may load another model, in place of the one in the pages.",
    ),
) -> None:
    """Open the app in the browser."""
    main.serve(settings(command, load_on_demand, load=load, api=api, browser=browser))


@options.with_load
@with_listening
def serve(
    command: typer.Context,
    settings: Callable[..., main.Settings] = main.Settings,
    load: LoadRequest = main.DEFAULT_LOAD,
    load_on_demand: bool = Option(
        True,
        "--load-on-demand/--no-load-on-demand",
        help="Load the model that a request names, if it is on this machine.",
    ),
) -> None:
    """Serve OpenAI's, Anthropic's and Ollama's API, without the pages."""
    main.serve(settings(command, load_on_demand, load=load, api=True, browser=False, pages=False))


def _check_gpu(load: LoadRequest) -> None:
    """Raise InvalidRequest for what needs a GPU or a draft that is not there; a load would tell only the
    pages."""
    elsewhere = load.draft == "" and load.draft_device != AUTO
    options.no_use("draft_device", elsewhere, without="a draft model")
    asked = {
        "device": load.device == "cuda",
        "draft_device": load.draft_device == "cuda",
        "gpu_layers": load.gpu_layers is not None,
        "kv_cache_dtype": load.kv_cache_dtype == FP8,
    }
    for name, needs in asked.items():
        options.check_gpu(name, getattr(load, name), needs=needs)


def _key_of(context: typer.Context, key: str | None, file: Path | None) -> str | None:
    """Return the API key; warn where others can read it. Raises InvalidRequest for a file without one."""
    source = context.get_parameter_source("api_key")
    typed = source is not None and source.name == "COMMANDLINE"
    if file is None:
        if typed:
            print(f"Note: {_KEY_IS_SEEN}", file=sys.stderr)
        return key
    with reading(file, "api_key_file"), expanded(file).open(encoding="utf-8") as opened:
        key = opened.read(_LONGEST_KEY + 1).strip()
        mode = os.fstat(opened.fileno()).st_mode
    if typed or not key.isprintable() or len(key.split()) != 1 or len(key) > _LONGEST_KEY:
        both = "Give --api-key or --api-key-file, not both."
        raise InvalidRequest(
            "api_key_file", both if typed else f"{file} does not hold a key (one word)."
        )
    if mode & 0o077 and os.name != "nt":
        print(
            f"Note: other accounts may be able to read {file}. Run: chmod 600 {file}",
            file=sys.stderr,
        )
    return key


def _certificate_of(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    """Return both files, or None if neither is given. Raises InvalidRequest for one alone."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InvalidRequest("tls_cert", "HTTPS needs both --tls-cert FILE and --tls-key FILE.")
    return expanded(certificate), expanded(key)


@options.with_load
def app(
    command: typer.Context,
    install: bool = Option(
        False, "--install", help="Add an icon to the start menu or dock, and quit."
    ),
    remove: bool = Option(False, "--remove", help="Remove that icon, and quit."),
    quit: bool = Option(False, "--quit", help="Quit the running app."),
    port: options.PortOption = main.DEFAULT_PORT,
    data_dir: options.DataDirOption = None,
    load: LoadRequest = main.DEFAULT_LOAD,
) -> None:
    """Open the app in its own window: pywebview's, or one of a browser's app mode.

    Closing the last window ends the app, but not while a reply, a download or a training runs, nor while
    the API is on and was used in the last ten minutes (with a tray icon: while it is on).

    A second start opens another window of the app that is running.
    """
    if install or remove:
        _change_icon(install)
    elif quit:
        from app.desktop.session import quit_running

        found = quit_running(paths.data_folder(data_dir))
        print("Foretoken has quit." if found else "Foretoken is not running.")
    else:
        try:
            main.serve(
                main.Settings(
                    port=port,
                    load=load,
                    fixed=options.stated(command),
                    data_dir=data_dir,
                    browser=False,
                    window=True,
                )
            )
        except ForetokenError as error:
            from app.desktop.window import alert

            if sys.stderr is None or not sys.stderr.isatty():
                alert(str(error))
            raise


def _change_icon(install: bool) -> None:
    from app.desktop import shortcut

    changed = shortcut.install() if install else shortcut.remove()
    for file in changed:
        print(file)
    done = "is installed" if install else "is removed"
    print(f"The icon {done}." if changed else "There was no icon.")
