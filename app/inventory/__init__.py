"""Models on this machine: folders, downloads, the disk, and the user's own catalog."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.loading.inventory import Inventory

log = logging.getLogger(__name__)


def open_inventory(data_dir: Path) -> Inventory:
    """Return the models of this machine, by the shipped catalog and the user's additions, each in the
    file that is here or suits the machine. A broken catalog file is logged and left out."""
    from app import paths
    from app.inventory.model_folders import searched
    from engine.loading.inventory import Inventory, System, models_folder, open_catalog

    catalog = open_catalog(paths.catalog_file(), paths.own_catalog(data_dir))
    for problem in catalog.problems:
        log.warning("%s", problem)
    folders = partial(searched, data_dir)
    inventory = Inventory(catalog, models_folder(data_dir), folders, System.current())
    return inventory.with_files_chosen()
