"""The tune page: every method at every depth on one's own prompts, and the fastest kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from app.ui.components import scripted
from app.ui.pages.tune.backend import TuneBackend
from app.ui.rounds.view import View


def tune_page(backend: TuneBackend, *shared: Callable[[View], Any]) -> None:
    """Build the page in the current tab. ``shared``: ``status``, which other pages ask for, too."""
    with gr.Column(elem_id="tune-page", elem_classes="ft-page"):
        scripted(
            "tune",
            '<div class="ft-tune"></div>',
            functions=(
                *shared,
                backend.offer,
                backend.forecast,
                backend.start,
                backend.stop,
                backend.follow,
                backend.use,
                backend.forget,
                backend.export,
            ),
            elem_id="tune-view",
        )
