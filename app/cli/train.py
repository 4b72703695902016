"""``foretoken train``: a pair from nothing, or a drafter for a model that is there."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from app import paths
from app.cli import options
from engine.errors import InvalidRequest

STAGES = ("tokenizer", "target", "draft")


def train(
    recipe: Annotated[
        str,
        typer.Argument(help="A recipe file, or the name of a shipped one: pip, pip-medusa, ..."),
    ],
    target: Annotated[
        str | None,
        typer.Option(help="Drafters: the model to draft for, instead of the recipe's own."),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            help="Drafters: what the model is asked. pip, chats (your own, which stay here) or a "
            "file of JSON lines."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The folder with tales, dialogues and gsm8k. Default: ../shared/data."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for models and checkpoints. Default: runs/NAME."),
    ] = None,
    stage: Annotated[
        list[str] | None, typer.Option(help="Pairs: only this stage: tokenizer, target or draft.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")] = False,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Pairs: a folder with a trained target, and its draft, to go on from: assets/pip.",
        ),
    ] = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Train the models of a recipe. Run again after a stop, it goes on from the last checkpoint."""
    stages = tuple(stage or STAGES)
    unknown = [name for name in stages if name not in STAGES]
    if unknown:
        raise InvalidRequest(
            "stage", f"There is no stage {unknown[0]!r}; choose from {', '.join(STAGES)}."
        )
    file = find_recipe(recipe)
    out = out or paths.project_root() / "runs" / file.stem
    data = data or paths.project_root().parent / "shared" / "data"
    # The heavy imports come after the quick mistakes.
    from engine.train.distil import recipe as distil
    from engine.train.schema import load

    try:
        with _stoppable():
            if distil.is_distillation(load(file)):
                from app.drafters import Wanted, train_drafter

                wanted = Wanted(distil.load_recipe(file), target, prompts, data, out, not fresh)
                train_drafter(wanted, paths.data_folder(data_dir))
            else:
                _train_pair(file, out=out, data=data, resume=not fresh, stages=stages, start=start)
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from the last checkpoint.", file=sys.stderr)
        raise typer.Exit(130) from None


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does: what was learned is kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _train_pair(file: Path, **wanted: Any) -> None:
    from engine.train.run import run

    run(file, **wanted)


def find_recipe(text: str) -> Path:
    """The recipe at that path, or the shipped one of that name (``pip``, ``recipes/pip.yaml``)."""
    given = Path(text).expanduser()
    if given.is_file():
        return given
    folder = paths.project_root() / "engine" / "train" / "recipes"
    shipped = (folder / given.name).with_suffix(".yaml")
    if shipped.is_file():
        return shipped
    known = ", ".join(sorted(path.name for path in folder.glob("*.yaml"))) or "none"
    raise InvalidRequest("recipe", f"There is no recipe {text}. Shipped recipes: {known}.")
