"""``foretoken bench real``: a pair of real models, plain and drafting, beside other engines."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from typer import Option

from app import paths
from app.cli import options
from app.cli.loading import Status, by_files, compile_before
from app.cli.text.output import check_writable, progress, report_file, table, write_report
from engine.api import LoadRequest
from engine.request import Speculation

if TYPE_CHECKING:
    from engine.bench.real.contest import NotMeasured, Turn
    from engine.bench.real.report import Report


def real(
    pair: options.PairOption,
    llama_cpp: options.LlamaCppOption = None,
    ik_llama_cpp: Path | None = Option(
        None, envvar="FORETOKEN_IK_LLAMA_CPP", help="Folder of an ik_llama.cpp build, to compare."
    ),
    mistralrs: Path | None = Option(
        None, envvar="FORETOKEN_MISTRALRS", help="Virtual environment with mistral.rs."
    ),
    openvino: options.OpenVinoOption = None,
    openvino_models: options.OpenVinoModelsOption = None,
    vllm: Path | None = Option(
        None,
        envvar="FORETOKEN_VLLM",
        help="Virtual environment with vLLM (reads model folders only).",
    ),
    transformers: bool = Option(
        False,
        "--transformers",
        help="Include transformers, slow: it converts weights to bf16 or fp32.",
    ),
    depth: list[int] | None = Option(
        None, help="Depth of our draft model, in addition to auto. Repeatable."
    ),
    repeats: int = Option(3, min=1, help="At most this many repeats; medians count."),
    minutes: float = Option(
        9,
        min=0,
        help="Time limit in minutes: start nothing that would end later. 0 = no limit.",
    ),
    max_tokens: int = Option(48, min=4, help="Most tokens per reply."),
    prompts_file: Path | None = Option(
        None,
        "--prompts",
        help="File with one JSON object per line: prompt or turns (the first counts), kind. "
        "Default: eight prompts of code, chat, JSON and rewriting.",
    ),
    each: int | None = Option(
        None, min=0, help="Prompts of each kind; 0 = all. Default: 1, or all of --prompts."
    ),
    all_settings: bool = Option(
        False, "--all-settings", help="Every setting of llama.cpp, not only the usual ones."
    ),
    out: Path | None = Option(None, help="Write OUT.md, OUT.json and OUT.svg."),
    quantization: options.QuantizationOption = "auto",
    native: options.NativeOption = True,
    as_json: options.JsonOption = False,
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Compare speed, text, startup and memory on a CPU with llama.cpp and others, in turns.

    Each engine runs alone, in its own process. For a missing one the output says how to install it.
    """
    from engine.bench import prompts
    from engine.bench.real import case as cases
    from engine.bench.real import contest
    from engine.bench.real.own import NAME, program
    from engine.bench.real.peers import environments
    from engine.bench.real.peers import llama_cpp as llama
    from engine.bench.real.report import Report
    from engine.values.units import counted

    load = LoadRequest.parse(
        pair, quantization=quantization, device="cpu", native=native, threads=threads
    )
    absent = not (llama_cpp or which(llama.SERVER))
    options.no_use("all_settings", all_settings and absent, without="--llama-cpp")
    for deep in depth or ():
        Speculation(depth=deep)  # refused before anything is started
    if out is not None:
        check_writable(report_file(out))
    if each is None:
        each = 0 if prompts_file else 1
    questions = prompts.first_of_each(prompts.read(prompts_file or cases.SHIPPED), each)
    with Status() as status:
        compile_before(load, status)
        load = by_files(load, paths.data_folder(data_dir), status)
        status.say(f"Reading {pair} ...")
        case, token_prompts = cases.make(
            load, questions, max_tokens, skip_long=prompts_file is None
        )
    name = case.target.name.removesuffix(".gguf")
    if skipped := len(questions) - len(token_prompts):
        left_out = counted(skipped, "included prompt")
        print(
            f"Note: skipped {left_out}, too long for the context of {name}.",
            file=sys.stderr,
        )
    line_up = [
        program(load, depth or ()),
        *llama.programs(llama_cpp, case, everything=all_settings),
        *llama.ik_programs(ik_llama_cpp, case),
        *environments.mistral_rs(mistralrs, case),
        *environments.openvino(openvino, openvino_models, case),
        *(environments.vllm(vllm, case) if vllm else []),
        *(environments.transformers(case) if transformers else []),
    ]
    with (
        tempfile.TemporaryDirectory(prefix="foretoken-real-") as logs,
        progress("Taking turns") as on_progress,
    ):
        limit = 60 * minutes or math.inf
        result = contest.run(
            line_up, token_prompts, case, repeats, Path(logs), on_progress, _print_turn, limit
        )
    report = Report(result, NAME, case.eos)
    _print(report)
    facts, title = report.facts(case), f"{name} compared with other engines"
    value = {"facts": facts, **report.as_json()}
    if out is not None:
        said = json.dumps({"title": title, **value})
        write_report(out, said, report.markdown(title, facts), report.chart(title))
    if as_json:
        print(json.dumps(value))


def _print_turn(turn: Turn | NotMeasured) -> None:
    """Print the result of a turn as it comes."""
    from engine.bench.real.contest import NotMeasured, speed

    if isinstance(turn, NotMeasured):
        print(f"{turn.name} failed: {turn.reason.splitlines()[0]}", flush=True)
        return
    for setting in turn.settings:
        reached = speed(one.reply for one in turn.answers if one.setting == setting)
        print(
            f"Turn {turn.repeat + 1}, {turn.engine}, {setting.name}: {reached:.1f} tokens/s",
            flush=True,
        )


def _print(report: Report) -> None:
    head, lines = report.lines()
    print(table(head, lines, frozenset(range(3, len(head) - 2))))
    head, lines = report.loading()
    print(f"\n{table(head, lines, frozenset({3, 4, 5}))}\n")
    for sentence in filter(None, (report.steps(), *report.headlines())):
        print(sentence)
    for one in report.result.absent:
        print(f"\nNot measured: {one.name}. {one.reason}")
