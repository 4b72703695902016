"""The train page: a drafter for the user's model, learned on this machine."""

from __future__ import annotations

from collections.abc import Callable

import gradio as gr

from app.ui.components import scripted
from app.ui.pages.train.backend import TrainBackend
from app.ui.rounds.view import View


def train_page(backend: TrainBackend, status: Callable[[View], View]) -> None:
    """Build the page in the current tab; its script asks ``backend``, and ``status`` what is loaded."""
    with gr.Column(elem_id="train-page", elem_classes="ft-page"):
        scripted(
            "train",
            '<div class="ft-train"></div>',
            functions=(
                status,
                backend.training_choices,
                backend.training,
                backend.train,
                backend.stop_training,
                backend.resume_training,
                backend.discard_training,
                backend.put_training_away,
                backend.open_trained,
            ),
            elem_id="train-view",
        )
