"""``python -m tools.peers.real``: ``foretoken bench real`` beside OpenVINO GenAI and transformers too."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli import bench_real, options, run
from engine.bench.real.contest import Case, Program, Running
from engine.bench.real.worker import Worker
from engine.loading.request import LoadRequest
from tools.peers import openvino as openvino_peer

NAME = "transformers"


class Transformers:
    """Always there: it is a dependency."""

    engine = name = NAME

    def absent(self, case: Case) -> str | None:
        return None

    def start(self, case: Case, log: Path) -> Running:
        told = {
            "target": str(case.target),
            "draft": str(case.draft) if case.draft else "",
            "eos": sorted(case.eos),
            "threads": case.threads,
        }
        command = [sys.executable, "-m", "tools.peers.transformers_child", json.dumps(told)]
        return Worker(self.name, command, log, {"HF_HUB_OFFLINE": "1"})


def real(
    target: bench_real.TargetArgument,
    draft: bench_real.DraftArgument = None,
    llama_cpp: bench_real.LlamaCppOption = None,
    openvino: Annotated[
        Path | None,
        typer.Option(
            envvar=openvino_peer.VARIABLE, help="A virtual environment with OpenVINO GenAI."
        ),
    ] = None,
    openvino_models: Annotated[
        Path | None,
        typer.Option(
            envvar=openvino_peer.MODELS_VARIABLE,
            help="The folder that python -m tools.peers.openvino_export filled.",
        ),
    ] = None,
    transformers: Annotated[
        bool, typer.Option("--transformers/--no-transformers", help="Whether it takes part.")
    ] = True,
    depth: bench_real.DepthOption = None,
    rounds: bench_real.RoundsOption = 3,
    max_tokens: bench_real.LimitOption = 96,
    prompts_file: bench_real.PromptsOption = None,
    each: bench_real.EachOption = 0,
    out: bench_real.OutOption = None,
    quantization: options.QuantizationOption = "auto",
    native: options.NativeOption = True,
    as_json: options.JsonOption = False,
    threads: options.ThreadsOption = None,
) -> None:
    """This engine beside llama.cpp, OpenVINO GenAI and transformers: the same files, in turns."""
    load = LoadRequest(
        target=str(target),
        quantization=quantization,
        device="cpu",
        native=native,
        threads=threads,
    )

    def line_up(case: Case) -> list[Program]:
        return [
            *bench_real.shipped(load, depth, llama_cpp, case),
            *openvino_peer.programs(openvino, openvino_models, case),
            *([Transformers()] if transformers else []),
        ]

    bench_real.measure(
        load,
        draft,
        line_up,
        rounds=rounds,
        limit=max_tokens,
        prompts_file=prompts_file,
        each=each,
        out=out,
        as_json=as_json,
    )


def main() -> None:
    """Run the command line."""
    cli = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    cli.command()(real)
    run(cli)


if __name__ == "__main__":
    main()
