"""``python -m tools.pip``: trains Pip, grades it, writes the shipped prompts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import main as app_main
from app import paths
from app.cli import options, run
from app.cli.loading import open_for_command
from app.cli.text.output import progress, table
from app.cli.train import stoppable
from engine.errors import InvalidRequest
from engine.loading.request import LoadRequest

if TYPE_CHECKING:
    from tools.pip.exam import Miss, Score

RECIPE = Path(__file__).with_name("pip.yaml")
STAGES = ("tokenizer", "target", "draft")

cli = typer.Typer(
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@cli.command()
def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe file. Default: Pip's.")] = RECIPE,
    data: Annotated[
        Path | None,
        typer.Option(help="The folder with tales, dialogues and gsm8k. Default: ../shared/data."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for models, log and checkpoints. Default: runs/NAME."),
    ] = None,
    stage: Annotated[
        list[str] | None,
        typer.Option(help="Only this one: tokenizer, target or draft. Repeatable."),
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
    """Train a pair from nothing. Run again after a stop, it goes on from the last checkpoint."""
    stages = tuple(stage or STAGES)
    unknown = [name for name in stages if name not in STAGES]
    if unknown:
        raise InvalidRequest(
            "stage", f"There is no stage {unknown[0]!r}; choose from {', '.join(STAGES)}."
        )
    from tools.pip.run import run as train_pair

    try:
        with stoppable():
            train_pair(
                recipe,
                out=out or paths.shipped() / "runs" / recipe.stem,
                data=data or paths.shipped().parent / "shared" / "data",
                resume=not fresh,
                stages=stages,
                start=start,
            )
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from the last checkpoint.", file=sys.stderr)
        raise typer.Exit(130) from None


@cli.command()
def exam(
    pair: options.PairOption = app_main.DEFAULT_PAIR,
    count: Annotated[
        int, typer.Option(min=1, help="Questions of each kind but the guide's.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="Decides which questions are drawn.")] = 7,
    misses: Annotated[bool, typer.Option(help="Print the replies that failed.")] = True,
    native: options.NativeOption = True,
    device: options.DeviceOption = "auto",
    cuda_graphs: options.GraphsOption = True,
    as_json: options.JsonOption = False,
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Grade Pip on wordings that it was not trained on."""
    from tools.pip import exam as held

    load = LoadRequest.parse(
        pair, device=device, native=native, cuda_graphs=cuda_graphs, threads=threads
    )
    with open_for_command(load, paths.data_folder(data_dir)) as (engine, _):
        examples = held.questions(count, seed)
        with progress("Asking") as on_progress:
            scores, failed = held.run(engine, examples, on_progress)
    if misses:
        _print_misses(failed)
    _print_scores(scores)
    if as_json:
        print(json.dumps(held.as_json(scores, failed)))


@cli.command()
def prompts(
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Default: the shipped file, assets/prompts.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Default: the shipped file's own.")] = None,
) -> None:
    """Write the prompts that Foretoken ships, from the generators alone."""
    from tools.pip import prompts as shipped

    file = out or paths.pip_prompts()
    count = shipped.write(file, shipped.SEED if seed is None else seed)
    print(f"{count:,} prompts in {file}")


def _print_scores(scores: Sequence[Score]) -> None:
    from tools.pip.exam import EXPECTED

    rows = [
        (
            score.kind,
            f"{score.passed} of {score.asked}",
            f"{score.share:.1%}",
            f"{EXPECTED[score.kind]:.0%}" if score.kind in EXPECTED else "-",
        )
        for score in scores
    ]
    print(table(("kind", "passed", "share", "expected"), rows, frozenset({1, 2, 3})))


def _print_misses(misses: Sequence[Miss]) -> None:
    for miss in misses:
        print(
            f"[{miss.kind}] {miss.prompt}\n  expected: {miss.expected}\n  replied:  {miss.reply}\n"
        )


def main() -> None:
    """Run the command line."""
    run(cli)


if __name__ == "__main__":
    main()
