"""``foretoken bench real``: a pair of real models, plain and drafting, beside other engines."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from app import paths
from app.cli import options
from app.cli.loading import Status, by_files, compile_before
from app.cli.text.output import check_writable, progress, table
from engine.api import LoadRequest
from engine.request import Speculation

if TYPE_CHECKING:
    from engine.bench.real.contest import NotMeasured, Record
    from engine.bench.real.reports.report import Report


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
    repeats: int = Option(3, min=1, help="At most this many rounds of measurement; medians count."),
    minutes: float = Option(
        9,
        min=0,
        help="Start no measurement that would end later than this after the start; 0 = no limit.",
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
    from engine.bench.real.own import NAME, Own
    from engine.bench.real.peers import ik_llama_cpp as ik
    from engine.bench.real.peers import llama_cpp as llama
    from engine.bench.real.peers import mistral_rs as mistral
    from engine.bench.real.peers import openvino as genai
    from engine.bench.real.peers import transformers as hf
    from engine.bench.real.peers import vllm as vllm_server
    from engine.bench.real.reports.report import Report, facts_of

    load = LoadRequest.parse(
        pair, quantization=quantization, device="cpu", native=native, threads=threads
    )
    depths = tuple(depth or ())
    for value in depths:
        Speculation(depth=value)  # refused before anything is started
    if out is not None:
        check_writable(out.with_suffix(".json"))
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
    if skipped := len(questions) - len(token_prompts):
        print(
            f"Note: {skipped} included prompt{'s do' if skipped > 1 else ' does'} not fit into the "
            f"context of {case.target.stem} and {'are' if skipped > 1 else 'is'} skipped.",
            file=sys.stderr,
        )
    line_up = [
        Own(load, depths),
        *llama.programs(llama_cpp, case, everything=all_settings),
        *ik.programs(ik_llama_cpp, case),
        *mistral.programs(mistralrs, case),
        *genai.programs(openvino, openvino_models, case),
        *(vllm_server.programs(vllm, case) if vllm else []),
        *(hf.programs(case) if transformers else []),
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
    done = max((row.repeats for row in report.rows), default=0)
    facts = facts_of(case, done, len(token_prompts))
    if out is not None:
        _write(out, report, facts, f"{case.target.stem} compared with other engines")
    if as_json:
        print(json.dumps({"facts": facts, **report.as_json()}))


def _print_turn(turn: Sequence[Record] | NotMeasured) -> None:
    """Print the result of a turn as it comes."""
    from engine.bench.real.contest import NotMeasured, speed

    if isinstance(turn, NotMeasured):
        print(f"{turn.name} failed: {turn.reason.splitlines()[0]}", flush=True)
        return
    for setting in dict.fromkeys(record.setting for record in turn):
        reached = speed([record.reply for record in turn if record.setting == setting])
        print(
            f"Turn {turn[0].repeat + 1}, {turn[0].engine}, {setting.name}: {reached:.1f} tokens/s",
            flush=True,
        )


def _print(report: Report) -> None:
    head, lines = report.lines()
    print(table(head, lines, frozenset(range(3, len(head) - 2))))
    head, lines = report.loading()
    print(f"\n{table(head, lines, frozenset({3, 4, 5}))}\n")
    for sentence in (report.steps(), *report.headlines()):
        if sentence:
            print(sentence)
    for one in report.absent:
        print(f"\nNot measured: {one.name}. {one.reason}")


def _write(out: Path, report: Report, facts: dict[str, str], title: str) -> None:
    from engine.bench.real.own import NAME
    from engine.bench.real.reports.report import chart

    value = {"title": title, "facts": facts, **report.as_json()}
    out.with_suffix(".json").write_text(json.dumps(value) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(report.markdown(title, facts), encoding="utf-8")
    out.with_suffix(".svg").write_text(chart(value, title, NAME), encoding="utf-8")
