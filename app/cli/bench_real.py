"""``foretoken bench real``: a real pair, plain and drafting, beside llama.cpp on the same files."""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import options
from app.cli.loading import Status, compile_first
from app.cli.outputs import check_writable
from app.cli.progress import progress
from app.cli.tables import table
from engine.loading.request import LoadRequest
from engine.request import Speculation

if TYPE_CHECKING:
    from engine.bench.real.contest import Case, Program
    from engine.bench.real.report import Report

TargetArgument = Annotated[Path, typer.Argument(help="The target: a GGUF file, or a folder.")]
DraftArgument = Annotated[Path | None, typer.Argument(help="The model that drafts for it.")]
LlamaCppOption = Annotated[
    Path | None,
    typer.Option(
        envvar="FORETOKEN_LLAMA_CPP",
        help="The folder where llama.cpp was built or installed. Default: what is on the PATH.",
    ),
]
DepthOption = Annotated[
    list[int] | None,
    typer.Option(help="Of the draft model, beside auto; repeatable. Default: 2, 4 and 6."),
]
RoundsOption = Annotated[
    int, typer.Option(min=1, help="How often all take their turn; the middle one counts.")
]
LimitOption = Annotated[int, typer.Option(min=4, help="The longest reply.")]
PromptsOption = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        help="One JSON object a line: prompt or turns (the first), kind. Default: eight of code, "
        "chat, JSON and rewriting.",
    ),
]
EachOption = Annotated[int, typer.Option(min=0, help="Prompts of each kind; 0: all.")]
OutOption = Annotated[Path | None, typer.Option(help="Write OUT.md, OUT.json and OUT.svg.")]

DEPTHS = (2, 4, 6)


def real(
    target: TargetArgument,
    draft: DraftArgument = None,
    llama_cpp: LlamaCppOption = None,
    depth: DepthOption = None,
    rounds: RoundsOption = 3,
    max_tokens: LimitOption = 96,
    prompts_file: PromptsOption = None,
    each: EachOption = 0,
    out: OutOption = None,
    quantization: options.QuantizationOption = "auto",
    native: options.NativeOption = True,
    device: options.DeviceOption = "auto",
    cuda_graphs: options.GraphsOption = True,
    as_json: options.JsonOption = False,
    threads: options.ThreadsOption = None,
) -> None:
    """Speed, words, start and memory of a pair of files, here and in llama.cpp, in turns.

    Each engine runs in a process of its own, alone in memory. In a clone, ``python -m tools.peers.real``
    has more engines.
    """
    load = LoadRequest(
        target=str(target),
        quantization=quantization,
        device=device,
        native=native,
        cuda_graphs=cuda_graphs,
        threads=threads,
    )
    measure(
        load,
        draft,
        lambda case: shipped(load, depth, llama_cpp, case),
        rounds=rounds,
        limit=max_tokens,
        prompts_file=prompts_file,
        each=each,
        out=out,
        as_json=as_json,
    )


def shipped(
    load: LoadRequest, depths: Sequence[int] | None, llama_cpp: Path | None, case: Case
) -> list[Program]:
    """This engine, then llama.cpp in all its settings."""
    from engine.bench.real import llama_cpp as theirs
    from engine.bench.real.own import Own

    chosen = tuple(depths or DEPTHS)
    for value in chosen:
        Speculation(depth=value)  # refused before anything is started
    return [Own(load, chosen), *theirs.programs(llama_cpp, case)]


def measure(
    load: LoadRequest,
    draft: Path | None,
    programs: Callable[[Case], Sequence[Program]],
    *,
    rounds: int,
    limit: int,
    prompts_file: Path | None,
    each: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """The command, whoever takes part."""
    from engine.bench import prompts
    from engine.bench.real import case as cases
    from engine.bench.real import contest
    from engine.bench.real.own import NAME
    from engine.bench.real.report import Report

    if out is not None:
        check_writable(out)
    target = Path(load.target).expanduser().resolve()
    held = prompts.first_of_each(prompts.read(prompts_file or cases.SHIPPED), each)
    case, asked = cases.make(
        target, draft and draft.expanduser().resolve(), held, limit, load.threads
    )
    line_up = programs(case)
    with tempfile.TemporaryDirectory(prefix="foretoken-real-") as logs:
        with Status() as status:
            compile_first(load, status)
        with progress("Taking turns") as on_progress:
            result = contest.run(line_up, asked, case, rounds, Path(logs), on_progress)
    report = Report(result, NAME, case.eos)
    _print(report)
    facts = _facts(case, rounds, len(asked))
    if out is not None:
        _write(out, report, facts, f"{target.stem} beside other engines")
    if as_json:
        print(json.dumps({"facts": facts, **report.as_json()}))


def _facts(case: Case, rounds: int, prompts: int) -> dict[str, str]:
    return {
        "target": case.target.name,
        "draft": case.draft.name if case.draft else "none",
        "replies": f"{prompts} prompts, {case.limit} tokens at most, temperature 0, {rounds} rounds",
        "threads": str(case.threads),
        "machine": f"{platform.processor() or platform.machine()}, {platform.system()}",
        "date": datetime.now(UTC).date().isoformat(),
    }


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
