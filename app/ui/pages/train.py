"""The train page: a drafter for the user's model, learned on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr

from app.ui.parts import scripted
from app.ui.training_desk import TrainingDesk
from app.ui.view import View


@dataclass(frozen=True, slots=True)
class TrainPage:
    """The named elements."""

    view: gr.HTML


def train_page(desk: TrainingDesk, status: Callable[[View], View]) -> TrainPage:
    """Build the page inside the current tab; its script asks the desk, and ``status`` what is loaded."""
    with gr.Column(elem_id="train-page", elem_classes="ft-page"):
        view = scripted(
            "train",
            '<div class="ft-train"></div>',
            functions=(
                status,
                desk.training_choices,
                desk.training,
                desk.train,
                desk.stop_training,
                desk.resume_training,
                desk.discard_training,
                desk.put_training_away,
                desk.open_trained,
            ),
            elem_id="train-view",
        )
    return TrainPage(view)
