"""The models page: the catalog, opening a folder, and what is loaded now."""

from __future__ import annotations

from collections.abc import Callable

import gradio as gr

from app.ui.components import scripted
from app.ui.pages.models.backend import ModelsBackend
from app.ui.view import View


def models_page(backend: ModelsBackend, status: Callable[[View], View]) -> None:
    """Build the page in the current tab; its script asks ``backend``, and ``status`` what is loaded."""
    with gr.Column(elem_id="models-page", elem_classes="ft-page"):
        scripted(
            "models",
            '<div class="ft-models"></div>',
            functions=(status, backend.catalog, backend.why_not, backend.open, backend.cancel),
            elem_id="models-view",
        )
