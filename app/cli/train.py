"""``foretoken train``: tokenizer, target and draft from one recipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from app import paths
from engine.errors import InvalidRequest

STAGES = ("tokenizer", "target", "draft")


def train(
    recipe: Annotated[
        str, typer.Argument(help="A recipe file, or the name of a shipped one, such as pip.yaml.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="The folder with tales, dialogues and gsm8k. Default: ../shared/data."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for models and checkpoints. Default: runs/NAME."),
    ] = None,
    stage: Annotated[
        list[str] | None, typer.Option(help="Only this stage: tokenizer, target or draft.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")] = False,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="A folder with a trained target, and its draft, to go on from: assets/pip.",
        ),
    ] = None,
) -> None:
    """Train the models of a recipe. Run again after a stop, it goes on from the last checkpoint."""
    stages = tuple(stage or STAGES)
    unknown = [name for name in stages if name not in STAGES]
    if unknown:
        raise InvalidRequest(
            "stage", f"There is no stage {unknown[0]!r}; choose from {', '.join(STAGES)}."
        )
    file = find_recipe(recipe)
    # The heavy import comes after the quick mistakes.
    from engine.train.run import run

    try:
        run(
            file,
            out=out or paths.project_root() / "runs" / file.stem,
            data=data or paths.project_root().parent / "shared" / "data",
            resume=not fresh,
            stages=stages,
            start=start,
        )
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from the last checkpoint.", file=sys.stderr)
        raise typer.Exit(130) from None


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
