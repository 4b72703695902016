"""The models page: what is loaded now, what lies on this machine, opening a path, and the catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from app.ui.components import scripted
from app.ui.pages.models.backend import ModelsBackend
from app.ui.view import View


def models_page(backend: ModelsBackend, *shared: Callable[[View], Any]) -> None:
    """Build the page in the current tab. ``shared`` is what other pages ask for, too: ``status`` and
    ``cancel_loading``."""
    with gr.Column(elem_id="models-page", elem_classes="ft-page"):
        scripted(
            "models",
            '<div class="ft-models"></div>',
            functions=(
                *shared,
                backend.catalog,
                backend.found,
                backend.why_not,
                backend.open,
                backend.add_folder,
                backend.remove_folder,
            ),
            elem_id="models-view",
        )
