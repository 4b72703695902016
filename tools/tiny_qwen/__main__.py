"""``python -m tools.tiny_qwen``: train the tests' tiny Qwen3.5 with its MTP layer, or measure it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app import paths
from app.cli import run

ASSET = paths.shipped() / "tests" / "data" / "tiny_qwen"

cli = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _data() -> Path:
    return paths.shipped().parent / "shared" / "data"


@cli.command()
def train(
    data: Annotated[
        Path | None, typer.Option(help="The folder with tales. Default: ../shared/data.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The finished model.")] = ASSET,
    work: Annotated[
        Path | None, typer.Option(help="Checkpoints and logs. Default: runs/tiny_qwen.")
    ] = None,
    minutes: Annotated[float, typer.Option(help="For the target.")] = 28.0,
    mtp_minutes: Annotated[float, typer.Option(help="For the MTP layer.")] = 15.0,
    threads: Annotated[int, typer.Option()] = 1,
    seed: Annotated[int, typer.Option()] = 29,
) -> None:
    """Train target and MTP layer; run again after a stop, it goes on from the last checkpoint."""
    import torch

    from engine.train.output.run_directory import RunDirectory
    from tools.pip.tokenizer import Encoder
    from tools.tiny_qwen import training
    from tools.tiny_qwen.asset import export
    from tools.tiny_qwen.data import Material, books, make_tokenizer
    from tools.tiny_qwen.network import Mtp, config_of, new_target

    torch.set_num_threads(threads)
    learned, held_out = books(data or _data())
    tokenizer = make_tokenizer(learned, seed)
    encoder = Encoder(tokenizer)
    config = config_of(tokenizer.get_vocab_size(), encoder.bos, encoder.end, encoder.pad)
    materials = [Material(texts, tokenizer, seed) for texts in (learned, held_out)]
    model, mtp = new_target(config, seed), Mtp(config)
    folder = RunDirectory(work or paths.shipped() / "runs" / "tiny_qwen")
    training.train_target(model, materials, minutes, folder)
    training.train_mtp(model, mtp, materials, mtp_minutes, folder)
    export(model, mtp, tokenizer, out)
    print(f"written to {out}")


@cli.command()
def acceptance(
    folder: Annotated[Path, typer.Argument()] = ASSET,
    data: Annotated[Path | None, typer.Option(help="The folder with tales.")] = None,
    count: Annotated[int, typer.Option(help="Prompts of each kind.")] = 20,
    length: Annotated[int, typer.Option(help="Tokens of a reply.")] = 128,
    depth: Annotated[int, typer.Option()] = 3,
) -> None:
    """Print how many drafted tokens the target accepts on held-out tales and questions."""
    from tools.tiny_qwen.acceptance import measure, prompts
    from tools.tiny_qwen.asset import load
    from tools.tiny_qwen.data import books

    model, mtp, tokenizer = load(folder)
    for kind, asked in prompts(books(data or _data())[1], tokenizer, count).items():
        found = measure(model, mtp, asked, length, depth)
        rates = ", ".join(f"{rate:.1%}" for rate in found.rates)
        print(
            f"{kind}: depth 1 to {depth} {rates}; {found.tokens_per_round:.2f} tokens a round "
            f"({found.positions} positions)"
        )


def main() -> None:
    """Run the command line."""
    run(cli)


if __name__ == "__main__":
    main()
