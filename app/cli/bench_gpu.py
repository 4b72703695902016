"""``foretoken bench gpu``: one GPU, and how near decoding comes to its memory's bandwidth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from app.cli import options
from app.cli.loading import Status

RESULTS = Path("docs/results")


def gpu(
    minutes: Annotated[
        float, typer.Option(min=0.1, help="The budget; the largest models are left out first.")
    ] = 5.0,
    out: Annotated[
        Path, typer.Option(help="The folder of the page and the JSON, written after every part.")
    ] = RESULTS,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Llama-3.2-1B, Llama-3.1-8B, Qwen3-8B or Qwen3-32B. Repeatable. Default: all."
        ),
    ] = None,
    quantization: Annotated[
        list[str] | None, typer.Option(help="bf16, int8 or nf4. Repeatable. Default: all.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="cuda; cpu tries the whole run at tiny shapes, for no figures.")
    ] = "cuda",
    as_json: options.JsonOption = False,
) -> None:
    """A GPU on random weights of real shapes: steps, kernels, tokens/s, and others beside it."""
    from engine.bench.gpu.run import Options
    from engine.bench.gpu.supervise import supervise

    kinds = tuple(options.check_quantization(kind) for kind in quantization or ())
    with Status() as status:
        report = supervise(Options(minutes, out, device, tuple(model or ()), kinds), status.say)
    print(report.page(kernels=False))
    print(f"All figures: {report.file(out)} and .json")
    if as_json:
        print(json.dumps(report.summary()))
