"""The server page: the switch of the OpenAI-compatible endpoint, and how to call it."""

from __future__ import annotations

import gradio as gr

from app.runtime import Runtime
from app.switch import ApiSwitch
from app.ui.components import scripted
from app.ui.view import View
from engine.errors import ForetokenError


def server_page(runtime: Runtime, switch: ApiSwitch) -> None:
    """Build the page inside the current tab; its script draws the switch."""

    def api_state(data: View | None = None) -> View:
        loaded = runtime.engine.loaded
        return {
            "on": switch.on,
            "key": switch.api_key is not None,
            "needs_key": switch.needs_key,
            "model": loaded.id if loaded else None,
            "error": None,
        }

    def set_api(data: View) -> View:
        try:
            switch.set(bool(data["on"]))
        except ForetokenError as error:
            return {**api_state(), "error": str(error)}
        return api_state()

    with gr.Column(elem_id="server-page", elem_classes="ft-page"):
        scripted(
            "server",
            '<div class="ft-server"></div>',
            functions=(api_state, set_api),
            elem_id="server-view",
        )
