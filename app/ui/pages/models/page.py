"""The models page: a table of all models, what drafts for each, opening, downloads, and the disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from app.browse import from_this_machine
from app.ui.components import scripted
from app.ui.pages.models.backend import ModelsBackend
from app.ui.pages.models.disk import DiskBackend
from app.ui.pages.models.servers import ServersBackend
from app.ui.pages.models.transfers import TransfersBackend
from app.ui.view import View
from app.ui.words import Words
from engine.errors import InvalidRequest


def models_page(backend: ModelsBackend, *shared: Callable[[View], Any]) -> None:
    """Build the page in the current tab. ``shared`` is what other pages ask for, too: ``status`` and
    ``cancel_loading``."""
    transfers, disk = TransfersBackend(backend.runtime), DiskBackend(backend.runtime)
    servers = ServersBackend(backend.runtime)

    def browse(data: View) -> View:
        check_from_here()
        return backend.browse(data)

    def dropped(data: View) -> View:
        check_from_here()
        return backend.dropped(data)

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
                browse,
                dropped,
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


def check_from_here(why: str = Words.BROWSE_AWAY) -> None:
    """Folders are shown to who sits at this machine alone. Raises InvalidRequest to others."""
    request = LocalContext.request.get()
    client = request.client.host if request is not None and request.client else None
    if request is None or not from_this_machine(client, request.headers):
        raise InvalidRequest("folder", why)
