"""The plan page: a form, and the plan it leads to, with files to copy. Its script draws all of it."""

from __future__ import annotations

import gradio as gr

from app.ui.components import scripted
from app.ui.pages.plan.backend import PlanBackend


def plan_page(backend: PlanBackend) -> None:
    """Build the page inside the current tab."""
    with gr.Column(elem_id="plan-page", elem_classes="ft-page"):
        scripted(
            "plan",
            '<div class="ft-plan"></div>',
            functions=(backend.offer, backend.make),
            elem_id="plan-view",
        )
