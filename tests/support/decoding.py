"""A sequence that is decoded alone."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from engine.decoding.context import Context
from engine.decoding.controller import Controller
from engine.decoding.loop import Launcher, RoundLoop, StoppingCriteria
from engine.events import Round


def decode(
    context: Context,
    launcher: Launcher,
    controller: Controller,
    stopping: StoppingCriteria,
    name: str,
) -> Generator[Round]:
    """Yield its rounds; see ``RoundLoop``."""
    with closing(RoundLoop(context, launcher, controller, stopping, name)) as rounds:
        while not rounds.ended:
            rounds.launch()
            yield rounds.finish()
