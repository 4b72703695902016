"""``foretoken diagnostics``: what somebody needs to know who is to find a fault."""

from __future__ import annotations

from app import paths
from app.cli import options


def diagnostics(data_dir: options.DataDirOption = None) -> None:
    """Print versions, machine and compiled step for a report of a fault: no chats, no keys.

    The Settings page of a running app has more: what is loaded, and what went wrong lately.
    """
    from app import diagnostics as found
    from app.stored_data import folders
    from engine.loading.inventory import models_folder
    from engine.machine.secrets import hub_token

    data = paths.data_folder(data_dir)
    where = folders(data, models_folder(data))
    print(found.report(None, where, secrets=(hub_token().get()[0],)), end="")
