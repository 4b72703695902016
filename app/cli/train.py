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
        typer.Argument(
            help="A recipe file, or the name of an included one: eagle3, pip-medusa, ..."
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            help="Model to train for, instead of the recipe's: an id, a folder or a GGUF file. "
            "TARGET::DRAFT uses that draft to speed up recording."
        ),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            help="Training prompts: general (code, chat, JSON, rewriting), pip (what Pip "
            "knows), chats (your own; they stay here) or a file of JSON lines."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for recordings, checkpoints and models. Default: runs/NAME, here."
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")] = False,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu or cuda, instead of the recipe's.")
    ] = None,
    native: Annotated[
        bool | None,
        typer.Option(
            "--native/--no-native",
            help="Use the compiled kernels for the model, instead of the recipe's choice.",
        ),
    ] = None,
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Train a drafter for a model. After a stop, the same command continues from the last checkpoint."""
    file = find_recipe(recipe)
    out = out or Path.cwd() / "runs" / file.stem
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
        print(
            "Stopped. Run the same command to continue from the last checkpoint.", file=sys.stderr
        )
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
    folder = paths.recipes()
    shipped = (folder / path.name).with_suffix(".yaml")
    if shipped.is_file():
        return shipped
    known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none"
    raise InvalidRequest("recipe", f"There is no recipe {text}. Included recipes: {known}.")
