"""``python -m tools.peers``: this engine beside others, on the same weights in the same run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import paths
from app.cli import options, run
from app.cli.loading import Status, compile_before
from app.cli.text.output import progress, table
from app.main import DEFAULT_PAIR
from engine.errors import InvalidRequest
from engine.loading.request import LoadRequest
from engine.machine.threads import use as use_threads
from engine.request import Speculation

if TYPE_CHECKING:
    from tools.peers.cases import Models
    from tools.peers.turns import Absence, Row

RANDOM_1B = "1b"
ACCEPTANCE = 0.8
RANDOM_PROMPTS, RANDOM_LENGTH = 3, 32


def peers(
    weights: Annotated[
        str,
        typer.Option(
            metavar="PAIR|1b",
            help="pip, another pair, TARGET_FOLDER[::DRAFT_FOLDER]; or 1b: random weights of the "
            "shape of Llama-3.2-1B, with drafts that are simulated.",
        ),
    ] = DEFAULT_PAIR,
    llama_cpp: Annotated[
        Path | None,
        typer.Option(envvar="FORETOKEN_LLAMA_CPP", help="The folder where llama.cpp was built."),
    ] = None,
    vllm: Annotated[
        Path | None,
        typer.Option(envvar="FORETOKEN_VLLM", help="A virtual environment with vLLM."),
    ] = None,
    prompts_file: Annotated[
        Path | None,
        typer.Option(
            "--prompts", help="One JSON object a line: prompt or turns (the first), kind."
        ),
    ] = None,
    each: Annotated[int, typer.Option(min=0, help="Prompts of each kind; 0: all.")] = 3,
    repeats: Annotated[int, typer.Option(min=1, help="Each reply's time is their median.")] = 3,
    max_tokens: Annotated[int, typer.Option(min=4, help="The longest reply.")] = 128,
    depth: Annotated[
        int | None,
        typer.Option(help="Tokens drafted a round, by all. Default: every engine's own choice."),
    ] = None,
    acceptance: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Simulate drafts of which so many are right. With 1b: 0.8."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of random weights and simulated mistakes.")] = 1,
    quantization: options.QuantizationOption = "auto",
    native: options.NativeOption = True,
    device: options.DeviceOption = "auto",
    cuda_graphs: options.GraphsOption = True,
    as_json: options.JsonOption = False,
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """This engine beside transformers, llama.cpp and vLLM: same weights, same prompts, in turns."""
    from engine.bench import prompts as held_prompts
    from tools.peers import cases, field, turns

    load = LoadRequest.parse(
        weights, quantization=quantization, device=device, native=native, threads=threads
    )
    computing = use_threads(threads)
    Speculation(depth=depth)  # refused before anything is loaded
    if weights == RANDOM_1B and prompts_file is not None:
        raise InvalidRequest(
            "prompts", "The random model of --weights 1b knows no words: leave --prompts out."
        )
    folder = paths.data_folder(data_dir)
    with tempfile.TemporaryDirectory(prefix="foretoken-peers-") as temporary, Status() as status:
        workspace = Path(temporary)
        if weights == RANDOM_1B:
            status.say("Writing random weights ...")
            models = cases.random_1b(workspace, seed)
            prompts = cases.random_prompts(models.target, RANDOM_PROMPTS, RANDOM_LENGTH, seed)
            acceptance = ACCEPTANCE if acceptance is None else acceptance
        else:
            models = _models(weights, folder, status)
            held = held_prompts.first_of_each(
                held_prompts.read(prompts_file or held_prompts.SHIPPED), each
            )
            prompts = cases.encode(models.target, held)
        case = cases.make(
            models,
            prompts,
            max_tokens,
            quantization=quantization,
            depth=depth,
            acceptance=acceptance,
            seed=seed,
            threads=computing,
            device=device,
            native=native,
            cuda_graphs=cuda_graphs,
        )
        compile_before(load, status)
        known = field.peers(llama_cpp, vllm)
        with field.line_up(known, case, workspace, status.say) as line:
            with progress("Taking turns") as on_progress:
                rows, failed = turns.run(
                    line.contenders, prompts, case, max_tokens, repeats, on_progress
                )
            absent = (*line.absent, *failed)
    _print(rows, absent)
    if as_json:
        print(json.dumps(turns.as_json(rows, absent)))


def _models(text: str, data_dir: Path, status: Status) -> Models:
    """The pair's folders, downloaded if they are not on disk."""
    from app.inventory import open_inventory
    from engine.errors import IncompatiblePair
    from engine.loading import hub
    from engine.loading.files import fetch_pair
    from engine.loading.planning.pairing import vocabularies
    from engine.models.checkpoints.checkpoint import inspect
    from tools.peers.cases import Models

    catalog, downloaded = open_inventory(data_dir).catalog, hub.models_folder(data_dir)
    found = fetch_pair(LoadRequest.parse(text), catalog, downloaded, status.on_progress)
    target, draft = found.target, found.draft
    if draft is not None and vocabularies(inspect(target), inspect(draft)) is not None:
        raise IncompatiblePair(
            f"{draft.name} has another vocabulary than {target.name}; the other engines do not draft "
            "across vocabularies. Give a draft of the target's family."
        )
    return Models(text, target, draft, found.pairing.target.quantization)


def _print(rows: Sequence[Row], absent: Sequence[Absence]) -> None:
    head = ("engine", "setting", "weights", "tok/s", "to ours", "words", "how")
    lines = [
        (
            row.entrant.engine,
            row.entrant.setting,
            f"{row.weights} {row.entrant.quantization}",
            f"{row.tokens_per_s:.1f}",
            f"{row.ratio:.2f}x",
            {True: "equal", False: "DIFFER", None: "-"}[row.equal_words],
            "; ".join(filter(None, (row.entrant.source.value, row.entrant.detail))),
        )
        for row in rows
    ]
    print(table(head, lines, frozenset({3, 4})))
    for one in absent:
        print(f"\nNot measured: {one.engine}. {one.reason}")


def main() -> None:
    """Run the command line."""
    cli = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    cli.command()(peers)
    run(cli)


if __name__ == "__main__":
    main()
