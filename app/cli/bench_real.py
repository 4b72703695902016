"""``foretoken bench real``: a pair of real models, plain and drafting, beside other engines."""

from __future__ import annotations

import contextlib
import json
import platform
import re
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import paths
from app.cli import options
from app.cli.loading import Status, compile_first, fetched
from app.cli.outputs import check_writable
from app.cli.progress import progress
from app.cli.tables import table
from engine.loading.request import LoadRequest
from engine.request import Speculation

if TYPE_CHECKING:
    from engine.bench.real.contest import Absence, Case, Program
    from engine.bench.real.report import Report

DEPTHS = (2, 4, 6)


def real(
    pair: options.PairOption,
    llama_cpp: Annotated[
        Path | None,
        typer.Option(
            envvar="FORETOKEN_LLAMA_CPP",
            help="The folder where llama.cpp was built or installed. Default: what is on the PATH.",
        ),
    ] = None,
    openvino: Annotated[
        Path | None,
        typer.Option(
            envvar="FORETOKEN_OPENVINO", help="A virtual environment with OpenVINO GenAI."
        ),
    ] = None,
    openvino_models: Annotated[
        Path | None,
        typer.Option(
            envvar="FORETOKEN_OPENVINO_MODELS",
            help="The folder of models that were converted for it.",
        ),
    ] = None,
    transformers: Annotated[
        bool,
        typer.Option(
            "--transformers",
            help="With transformers too, which widens weights to bf16 or fp32 and takes its time.",
        ),
    ] = False,
    depth: Annotated[
        list[int] | None,
        typer.Option(
            help="Of our draft model, beside auto; repeatable. Default: 2, 4 and 6.",
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="How often all take their turn; the middle one counts.")
    ] = 3,
    max_tokens: Annotated[int, typer.Option(min=4, help="The longest reply.")] = 96,
    prompts_file: Annotated[
        Path | None,
        typer.Option(
            "--prompts",
            help="One JSON object a line: prompt or turns (the first), kind. Default: eight of "
            "code, chat, JSON and rewriting.",
        ),
    ] = None,
    each: Annotated[int, typer.Option(min=0, help="Prompts of each kind; 0: all.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write OUT.md, OUT.json and OUT.svg.")] = None,
    quantization: options.QuantizationOption = "auto",
    native: options.NativeOption = True,
    as_json: options.JsonOption = False,
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Speed, words, start and memory on a CPU, beside llama.cpp and others, in turns.

    Each engine runs in a process of its own, alone in memory. One that is missing is named, with how to
    get it.
    """
    from engine.bench import prompts
    from engine.bench.real import case as cases
    from engine.bench.real import contest
    from engine.bench.real.own import NAME
    from engine.bench.real.report import Report

    load = LoadRequest.parse(
        pair, quantization=quantization, device="cpu", native=native, threads=threads
    )
    depths = tuple(depth or DEPTHS)
    for value in depths:
        Speculation(depth=value)  # refused before anything is started
    if out is not None:
        check_writable(out)
    held = prompts.first_of_each(prompts.read(prompts_file or cases.SHIPPED), each)
    with Status() as status:
        compile_first(load, status)
        load = _by_files(load, paths.data_folder(data_dir), status)
        status.say(f"Reading {pair} ...")
        case, asked = cases.make(load, held, max_tokens)
    line_up = _line_up(load, depths, case, llama_cpp, openvino, openvino_models, transformers)
    with (
        tempfile.TemporaryDirectory(prefix="foretoken-real-") as logs,
        progress("Taking turns") as on_progress,
    ):
        result = contest.run(line_up, asked, case, repeats, Path(logs), on_progress)
    report = Report(result, NAME, case.eos)
    _print(report)
    facts = _facts(case, repeats, len(asked))
    if out is not None:
        _write(out, report, facts, f"{case.target.stem} beside other engines")
    if as_json:
        print(json.dumps({"facts": facts, **report.as_json()}))


def _by_files(load: LoadRequest, data_dir: Path, status: Status) -> LoadRequest:
    """The same by what lies on disk, downloaded if it does not yet: what other engines can read too."""
    from engine.loading.request import AUTO

    found = fetched(load, data_dir, status)
    suits = found.pairing.target.quantization
    return replace(
        load,
        target=str(found.target.resolve()),
        draft="" if found.draft is None else str(found.draft.resolve()),
        heads=tuple(map(str, found.pairing.heads)),
        quantization=suits if load.quantization == AUTO else load.quantization,
    )


def _line_up(
    load: LoadRequest,
    depths: tuple[int, ...],
    case: Case,
    llama_cpp: Path | None,
    openvino: Path | None,
    openvino_models: Path | None,
    with_transformers: bool,
) -> list[Program | Absence]:
    """This engine, and the others in all their settings."""
    from engine.bench.real import llama_cpp as llama
    from engine.bench.real import openvino as genai
    from engine.bench.real import transformers
    from engine.bench.real.own import Own

    return [
        Own(load, depths),
        *llama.programs(llama_cpp, case),
        *genai.programs(openvino, openvino_models, case),
        *(transformers.programs(case) if with_transformers else []),
    ]


def _facts(case: Case, repeats: int, prompts: int) -> dict[str, str]:
    return {
        "target": case.target.name,
        "draft": case.draft.name if case.draft else "none",
        "replies": f"{prompts} prompts, {case.limit} tokens at most, temperature 0",
        "repeats": str(repeats),
        "threads": str(case.threads),
        "machine": f"{_processor()}, {platform.system()}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def _processor() -> str:
    """As Linux calls it; elsewhere what Python knows."""
    with contextlib.suppress(OSError):
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if found := re.search(r"^model name\s*: (.+)$", cpuinfo, re.MULTILINE):
            return found[1]
    return platform.processor() or platform.machine()


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
    from engine.bench.real.chart import chart
    from engine.bench.real.own import NAME

    value = {"title": title, "facts": facts, **report.as_json()}
    out.with_suffix(".json").write_text(json.dumps(value) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(report.markdown(title, facts), encoding="utf-8")
    out.with_suffix(".svg").write_text(chart(value, title, NAME), encoding="utf-8")
