"""``foretoken plan``: how to start a model elsewhere, on how many GPUs, and what to expect of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from app import paths
from app.cli import options
from app.deploy.methods import BACKENDS, ENGINES, METHODS, NONE


def plan(
    target: Annotated[
        str,
        typer.Argument(
            help="A published model (llama-3.1-8b, deepseek-r1, ...), its repository, a folder or a "
            "GGUF file."
        ),
    ],
    gpus: Annotated[str, typer.Option(help="How many of which kind: 8xH100.")],
    engine: Annotated[str, typer.Option(help=f"Of {', '.join(ENGINES)}.")] = ENGINES[0],
    method: Annotated[str, typer.Option(help=f"How it drafts, of {', '.join(METHODS)}.")] = NONE,
    draft: Annotated[
        str | None,
        typer.Option(help="A draft model, or a head for the target. Default: a published one."),
    ] = None,
    depth: Annotated[int | None, typer.Option(help="Tokens drafted in a round.")] = None,
    users: Annotated[int, typer.Option(help="People who are answered at once.")] = 8,
    context: Annotated[
        int | None,
        typer.Option(help="Tokens of each prompt and reply together. Default: 8192, or fewer."),
    ] = None,
    quantization: Annotated[
        str, typer.Option(help="auto (as published), bf16, fp8, awq, nvfp4 or mxfp4.")
    ] = "auto",
    kv_cache_dtype: Annotated[
        str, typer.Option("--kv-cache-dtype", help="auto (16 bits) or fp8.")
    ] = "auto",
    acceptance: Annotated[
        float | None,
        typer.Option(help="The chance that a drafted token is accepted. Default: the method's."),
    ] = None,
    backend: Annotated[
        str, typer.Option(help=f"What computes for dynamo, of {', '.join(BACKENDS)}.")
    ] = BACKENDS[0],
    loads: Annotated[
        bool, typer.Option("--loads", help="Show 1 to 1,000 users at once, plain and drafted.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="A folder to write the scripts and files into.")
    ] = None,
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Plan a launch on vLLM, SGLang, TensorRT-LLM or Dynamo. Starts nothing; speeds are estimates."""
    from app.cli.text.plan import loads_text, plan_text
    from app.deploy.launch_plan import PlanOptions, plan_for, write_folder
    from app.deploy.render import render
    from app.deploy.report import facts

    plan_options = PlanOptions(
        target,
        gpus,
        engine,
        method,
        draft,
        depth,
        users,
        context,
        quantization,
        kv_cache_dtype,
        acceptance,
        backend,
    )
    made = plan_for(plan_options, paths.data_folder(data_dir))
    rendered = render(made)
    plan_facts = facts(made, rendered)
    text = plan_text(made, rendered, plan_facts["notes"])
    print(text)
    if loads:
        print("\n" + loads_text(made))
    if out is not None:
        write_folder(out, rendered, text, plan_facts)
        print(f"\nWritten to {out}: {', '.join(rendered.folder)}, README.md and plan.json.")
    if as_json:
        print(json.dumps(plan_facts, ensure_ascii=False))
