"""``foretoken app``: the app in a window of its own, and its icon in the start menu or dock."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app import main, paths
from app.cli import options
from engine.api import LoadRequest
from engine.errors import ForetokenError


@options.with_load
def app(
    command: typer.Context,
    install: Annotated[
        bool, typer.Option("--install", help="Add an icon to the start menu or dock, and quit.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove that icon, and quit.")] = False,
    quit: Annotated[bool, typer.Option("--quit", help="Quit the running app.")] = False,
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
            from app.desktop.alert import alert

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
