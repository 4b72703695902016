"""``foretoken worker``: the loaded pair behind somebody else's frontend, shared by several machines."""

from __future__ import annotations

import os
import sys
from types import ModuleType

from typer import Argument, Option

from app import main, paths
from app.cli import options
from app.cli.loading import Drafting, Status, check_load, open_here
from app.inventory import open_inventory
from app.settings.defaults import Defaults
from engine.api import LoadRequest
from engine.errors import InvalidRequest, NotInstalled

CARDS = "cards"
"""The folder, within the data folder, of the cards that frontends read."""


@options.with_load
def worker(
    dynamo: bool = Option(False, "--dynamo", help="Serve NVIDIA Dynamo's frontend."),
    load: LoadRequest = main.DEFAULT_LOAD,
    name: str | None = Option(
        None,
        help="The model's name for clients; use the same for all workers of one target. "
        "Default: the pair's.",
    ),
    proposer: str | None = Option(
        None,
        help="Proposer for all requests. Default: the pair's measured default (`bench sweep "
        "--apply`), else its own.",
    ),
    depth: int | None = Option(None, help="Drafted tokens per round, as in `foretoken chat`."),
    controller: options.ControllerOption = None,
    dynamo_options: list[str] | None = Argument(
        None,
        metavar="OPTION",
        help="Dynamo's own worker options, after two dashes: -- --discovery-backend file. "
        "Its environment variables apply too.",
    ),
    data_dir: options.DataDirOption = None,
) -> None:
    """Answer the requests of a frontend that several machines share, until Ctrl-C or SIGTERM."""
    if not dynamo:
        raise InvalidRequest("dynamo", "Choose a frontend: --dynamo.")
    drafting = Drafting(proposer=proposer, depth=depth, control=options.control(controller))
    folder = paths.data_folder(data_dir)
    check_load(folder, load, proposer, here=True)
    dynamo_worker = _dynamo()
    config = dynamo_worker.read_options(dynamo_options or ())
    with Status(log=True) as status:
        files = open_inventory(folder).download_pair(load, status.on_progress)
    with open_here(load, folder, proposer, log=True) as (engine, loaded):
        from app.worker.model_card import write_model_card
        from engine.api import slug

        served_name = name or loaded.id
        speculation = drafting.speculation(loaded, Defaults(folder))
        card = write_model_card(files.target, folder / CARDS / slug(served_name))
        print(
            f"Serving {loaded.name} as {served_name} to Dynamo - press Ctrl-C to stop.", flush=True
        )
        dynamo_worker.serve(
            engine, dynamo_worker.ServedModel(card, served_name, speculation), config
        )
    print("Stopped.", flush=True)


def _dynamo() -> ModuleType:
    """Import the module that needs Dynamo's packages. Raises NotInstalled without them."""
    os.environ.setdefault("DYN_LOG", "warn")  # else it logs each of its steps
    try:
        from app.worker import dynamo
    except ImportError as error:
        raise NotInstalled(
            f"Dynamo's packages cannot be imported ({error}). Install them beside Foretoken "
            f"(Linux only): {sys.executable} -m pip install ai-dynamo"
        ) from error
    return dynamo
