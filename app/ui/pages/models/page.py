"""The models page: a table of all models, what drafts for each, opening, downloads, and the disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from app.ui.components import only_here, scripted
from app.ui.pages.models.backend import ModelsBackend
from app.ui.pages.models.disk import DiskBackend
from app.ui.pages.models.servers import ServersBackend
from app.ui.pages.models.transfers import TransfersBackend
from app.ui.rounds.view import View
from app.ui.words import Words


def models_page(backend: ModelsBackend, *shared: Callable[[View], Any]) -> None:
    """Build the page in the current tab. ``shared`` is what other pages ask for, too: ``status`` and
    ``cancel_loading``."""
    transfers, disk = TransfersBackend(backend.runtime), DiskBackend(backend.runtime)
    servers = ServersBackend(backend.runtime)

    with gr.Column(elem_id="models-page", elem_classes="ft-page"):
        scripted(
            "models",
            '<div class="ft-models"></div>',
            functions=(
                *shared,
                backend.table,
                backend.why_not,
                backend.fit,
                backend.open,
                only_here(backend.browse, Words.BROWSE_AWAY),
                only_here(backend.dropped, Words.BROWSE_AWAY),
                backend.add_folder,
                backend.remove_folder,
                backend.forget,
                transfers.look_up,
                transfers.download,
                transfers.downloads,
                transfers.pause,
                transfers.discard,
                transfers.keep_token,
                transfers.forget_token,
                servers.servers,
                servers.ask_server,
                servers.connect,
                servers.forget_server,
                disk.disk,
                disk.delete,
            ),
            elem_id="models-view",
        )
