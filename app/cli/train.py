"""``foretoken train``: a drafter for a model that is there."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from app import paths
from app.cli import options
from engine.errors import InvalidRequest


def train(
    recipe: Annotated[
        str,
        typer.Argument(help="A recipe file, or the name of a shipped one: eagle3, pip-medusa, ..."),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            help="The model to draft for, instead of the recipe's own: an id, a folder or a GGUF file. "
            "TARGET::DRAFT has that draft help to record it where it cannot give several replies at once."
        ),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            help="What the model is asked: general (code, chat, JSON, rewriting), pip (of the kinds that "
            "Pip knows), chats (your own, which stay here) or a file of JSON lines."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for models and checkpoints. Default: runs/NAME.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")] = False,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu or cuda, instead of the recipe's own.")
    ] = None,
    native: Annotated[
        bool | None,
        typer.Option(
            "--native/--no-native",
            help="Whether the model may run in the step that is compiled for this processor, instead "
            "of what the recipe says.",
        ),
    ] = None,
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Train a drafter for a model. Run again after a stop, it goes on from the last checkpoint."""
    file = find_recipe(recipe)
    out = out or paths.project_root() / "runs" / file.stem
    # The heavy imports come after the quick mistakes.
    from app.training.drafters import TrainingJob, train_drafter
    from engine.train.recipe import load_recipe

    own = {"device": device, "native": native, "threads": threads}
    chosen: Any = {name: value for name, value in own.items() if value is not None}
    job = TrainingJob(replace(load_recipe(file), **chosen), target, prompts, out, not fresh)
    try:
        with stoppable():
            train_drafter(job, paths.data_folder(data_dir))
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from the last checkpoint.", file=sys.stderr)
        raise typer.Exit(130) from None


@contextmanager
def stoppable() -> Iterator[None]:
    """Make SIGTERM stop as Ctrl-C does, so that what was learned is kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def find_recipe(text: str) -> Path:
    """Return the recipe at that path, or the shipped one of that name: ``pip-mlp``."""
    path = Path(text).expanduser()
    if path.is_file():
        return path
    folder = paths.project_root() / "engine" / "train" / "recipes"
    shipped = (folder / path.name).with_suffix(".yaml")
    if shipped.is_file():
        return shipped
    known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none"
    raise InvalidRequest("recipe", f"There is no recipe {text}. Shipped recipes: {known}.")
