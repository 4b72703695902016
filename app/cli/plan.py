"""``foretoken plan``: how to start a model elsewhere, on how many GPUs, and what to expect of it."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path

from typer import Argument, Context, Option

from app import paths
from app.cli import options


def plan(
    command: Context,
    gpus: str = Option(..., help="Number and kind, such as 8xH100."),
    target: str = Argument(
        "",
        help="A published model (llama-3.1-8b, deepseek-r1, ...), its repository, a folder or a "
        "GGUF file. With --from a published one may be left out.",
    ),
    engine: str = Option("vllm", help="vllm, sglang, trtllm or dynamo."),
    method: str = Option(
        "none",
        help="Drafting method: none, ngram, suffix, draft_model, eagle, eagle3, medusa, mtp, dflash "
        "or dspark.",
    ),
    draft: str | None = Option(
        None, help="A draft model, or a head for the target. Default: a published one."
    ),
    depth: int | None = Option(
        None, help="Drafted tokens per round. Default: the fastest for so many users."
    ),
    users: int | None = Option(None, help="Concurrent users. Default: 8, or what --rps needs."),
    context: int | None = Option(
        None, help="Tokens of prompt and reply together. Default: 8192, or fewer."
    ),
    quantization: str = Option(
        "auto", help="auto (as published), bf16, fp8, awq, int4, nvfp4 or mxfp4."
    ),
    kv_cache_dtype: str = Option("auto", "--kv-cache-dtype", help="auto (16 bits) or fp8."),
    acceptance: float | None = Option(
        None,
        help="Chance that the next drafted token is accepted. Default: the method's.",
    ),
    backend: str | None = Option(
        None, help="Backend of dynamo: vllm, sglang or trtllm. Default: vllm."
    ),
    task: str | None = Option(
        None, help="Kind of replies, for the depth: code, json, chat or creative."
    ),
    isl: int | None = Option(None, help="Tokens of a prompt, for targets."),
    osl: int | None = Option(None, help="Tokens of a reply, for targets."),
    rps: float | None = Option(None, help="Target: requests per second."),
    ttft: float | None = Option(None, help="Target: milliseconds to the first token, mean."),
    itl: float | None = Option(None, help="Target: milliseconds between tokens, mean."),
    price: float | None = Option(
        None, help="Price of a GPU for an hour, for the cost of a million tokens."
    ),
    server: str | None = Option(
        None,
        "--from",
        help="Plan with the acceptance and step time of a running server, such as "
        "http://127.0.0.1:8000. Its key, if it demands one: API_KEY.",
    ),
    loads: bool = Option(
        False, "--loads", help="Show 1 to 1,000 concurrent users, with and without drafting."
    ),
    out: Path | None = Option(
        None,
        help="Write all scripts and files into this folder: Docker, Kubernetes, Grafana, tests.",
    ),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Plan a GPU deployment on vLLM, SGLang, TensorRT-LLM or Dynamo; starts nothing."""
    from app.cli.text.output import harmless
    from app.cli.text.plan import loads_text, plan_text
    from app.deploy.launch_plan import PlanOptions, check_folder, facts, plan_for, write_folder
    from app.deploy.render import render

    if out is not None:
        check_folder(out)
    plan_options = PlanOptions(
        **{each.name: command.params[each.name] for each in fields(PlanOptions)}
    )
    made = plan_for(plan_options, paths.data_folder(data_dir), os.environ.get("API_KEY"))
    rendered = render(made)
    plan_facts = facts(made, rendered)
    text = plan_text(made, rendered, plan_facts["notes"])
    print(harmless(text))  # it may quote a server
    if loads and made.has_ground:
        print("\n" + loads_text(made))
    files = ", ".join(rendered.folder)
    if out is None:
        print(f"\nMore with --out FOLDER, which writes {files}, README.md and plan.json.")
    else:
        write_folder(out, rendered, text, plan_facts)
        print(f"\nWritten to {out}: {files}, README.md and plan.json.")
    if as_json:
        print(json.dumps(plan_facts, ensure_ascii=False))
