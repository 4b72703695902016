"""The race page: two configurations, their pairs as they are measured, and what they tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from app.ui.components import scripted
from app.ui.pages.race.backend import RaceBackend
from app.ui.rounds.view import View


def race_page(backend: RaceBackend, *shared: Callable[[View], Any]) -> None:
    """Build the page in the current tab. ``shared``: ``status``, which other pages ask for, too."""
    with gr.Column(elem_id="race-page", elem_classes="ft-page"):
        scripted(
            "race",
            '<div class="ft-race"></div>',
            functions=(
                *shared,
                backend.offer,
                backend.look,
                backend.start,
                backend.more,
                backend.stop,
                backend.follow,
            ),
            elem_id="race-view",
        )
