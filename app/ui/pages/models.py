"""The models page: the catalog, opening a folder, and what is loaded now."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from app.ui.desk import Desk
from app.ui.parts import scripted
from app.ui.shelf import Shelf


@dataclass(frozen=True, slots=True)
class ModelsPage:
    """The named elements."""

    view: gr.HTML


def models_page(desk: Desk, shelf: Shelf) -> ModelsPage:
    """Build the page inside the current tab; its script asks the shelf."""
    with gr.Column(elem_id="models-page", elem_classes="ft-page"):
        view = scripted(
            "models",
            '<div class="ft-models"></div>',
            functions=(desk.status, shelf.catalog, shelf.why_not, shelf.open, shelf.cancel),
            elem_id="models-view",
        )
    return ModelsPage(view)
