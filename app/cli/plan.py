"""``foretoken plan``: how to start a model elsewhere, on how many GPUs, and what to expect of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from app import paths
from app.cli import options


def plan(
    gpus: Annotated[str, typer.Option(help="Number and kind, such as 8xH100.")],
    target: Annotated[
        str,
        typer.Argument(
            help="A published model (llama-3.1-8b, deepseek-r1, ...), its repository, a folder or a "
            "GGUF file. With --from a published one may be left out."
        ),
    ] = "",
    engine: Annotated[str, typer.Option(help="vllm, sglang, trtllm or dynamo.")] = "vllm",
    method: Annotated[
        str,
        typer.Option(
            help="Drafting method: none, ngram, suffix, draft_model, eagle, eagle3, medusa, mtp, dflash "
            "or dspark."
        ),
    ] = "none",
    draft: Annotated[
        str | None,
        typer.Option(help="A draft model, or a head for the target. Default: a published one."),
    ] = None,
    depth: Annotated[int | None, typer.Option(help="Drafted tokens per round.")] = None,
    users: Annotated[
        int | None, typer.Option(help="Concurrent users. Default: 8, or what --rps needs.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(help="Tokens of prompt and reply together. Default: 8192, or fewer."),
    ] = None,
    quantization: Annotated[
        str, typer.Option(help="auto (as published), bf16, fp8, awq, int4, nvfp4 or mxfp4.")
    ] = "auto",
    kv_cache_dtype: Annotated[
        str, typer.Option("--kv-cache-dtype", help="auto (16 bits) or fp8.")
    ] = "auto",
    acceptance: Annotated[
        float | None,
        typer.Option(help="Chance that a drafted token is accepted. Default: the method's."),
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="Backend of dynamo: vllm, sglang or trtllm. Default: vllm.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="Kind of replies, for the depth: code, json, chat or creative."),
    ] = None,
    isl: Annotated[int | None, typer.Option(help="Tokens of a prompt, for targets.")] = None,
    osl: Annotated[int | None, typer.Option(help="Tokens of a reply, for targets.")] = None,
    rps: Annotated[float | None, typer.Option(help="Target: requests per second.")] = None,
    ttft: Annotated[
        float | None, typer.Option(help="Target: milliseconds to the first token, mean.")
    ] = None,
    itl: Annotated[
        float | None, typer.Option(help="Target: milliseconds between tokens, mean.")
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(help="Price of a GPU for an hour, for the cost of a million tokens."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Plan with the acceptance and step time of a running server, such as "
            "http://127.0.0.1:8000. Its key, if it demands one: API_KEY.",
        ),
    ] = None,
    loads: Annotated[
        bool,
        typer.Option(
            "--loads", help="Show 1 to 1,000 concurrent users, with and without drafting."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the scripts and files.")] = None,
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Plan a GPU deployment on vLLM, SGLang, TensorRT-LLM or Dynamo; starts nothing."""
    from app.cli.text.plan import loads_text, plan_text
    from app.deploy.launch_plan import PlanOptions, check_folder, plan_for, write_folder
    from app.deploy.render import render
    from app.deploy.report import facts

    if out is not None:
        check_folder(out)
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
        task,
        isl,
        osl,
        rps,
        ttft,
        itl,
        price,
        server,
    )
    made = plan_for(plan_options, paths.data_folder(data_dir), os.environ.get("API_KEY"))
    rendered = render(made)
    plan_facts = facts(made, rendered)
    text = plan_text(made, rendered, plan_facts["notes"])
    print(text)
    if loads and made.has_ground:
        print("\n" + loads_text(made))
    if out is not None:
        write_folder(out, rendered, text, plan_facts)
        print(f"\nWritten to {out}: {', '.join(rendered.folder)}, README.md and plan.json.")
    if as_json:
        print(json.dumps(plan_facts, ensure_ascii=False))
