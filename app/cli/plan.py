"""``foretoken plan``: how to start a model elsewhere, on how many GPUs, and what to expect of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from typer import Argument, Option

from app import paths
from app.cli import options
from app.deploy.options import PlanOptions


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    own = options.of_fields(
        PlanOptions,
        target=Argument(
            "",
            help="A published model (llama-3.1-8b, deepseek-r1, ...), its repository, a folder or a "
            "GGUF file. With --from a published one may be left out.",
        ),
        gpus=Option(..., help="Number and kind, such as 8xH100."),
        server=Option(
            None,
            "--from",
            help="Plan with the acceptance and step time of a running server, such as "
            "http://127.0.0.1:8000. Its key, if it demands one: API_KEY.",
        ),
    )
    return options.gathered(command, "chosen", PlanOptions, own)


@_with_options
def plan(
    chosen: PlanOptions,
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
    from app.deploy.launch_plan import check_folder, facts, plan_for, write_folder
    from app.deploy.render import render

    if out is not None:
        check_folder(out)
    made = plan_for(chosen, paths.data_folder(data_dir), os.environ.get("API_KEY"))
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
