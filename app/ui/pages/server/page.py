"""The server page: the switch of the OpenAI-compatible endpoint, how to call it, and who does."""

from __future__ import annotations

import gradio as gr

from app.ui.components import scripted
from app.ui.pages.server.backend import ServerBackend


def server_page(backend: ServerBackend) -> None:
    """Build the page inside the current tab; its script draws it."""
    with gr.Column(elem_id="server-page", elem_classes="ft-page"):
        scripted(
            "server",
            '<div class="ft-server"></div>',
            functions=(
                backend.api_state,
                backend.set_api,
                backend.set_key,
                backend.make_key,
                backend.remove_key,
                backend.allow_origin,
                backend.forbid_origin,
                backend.follow,
                backend.cancel_request,
            ),
            elem_id="server-view",
        )
