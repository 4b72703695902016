"""``foretoken verify``: whether drafting or batching changes a word, as a report to share."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from app import diagnostics, main, paths
from app.cli import options
from app.cli.loading import Status, by_files, check_load, open_here, with_default_draft
from app.cli.text.output import check_writable, progress, table, writing
from engine.api import AUTO, QUANTIZATIONS, LoadRequest
from engine.errors import InvalidRequest, OutOfMemory

if TYPE_CHECKING:
    from engine.bench.prompts import Prompt
    from engine.bench.real.contest import Case, EncodedPrompt, LineUp
    from engine.bench.reports.tables import Table
    from engine.bench.verify.report import Report

_FOLDERS = re.compile(r"(?:(?<=[=:])|^)(?:[A-Za-z]:)?[/\\~](?:[^:]*[/\\])?")
"""The folders of an absolute path, which begins a word or follows ``::`` or ``=``."""


@options.with_load
def verify(
    pair: str = Argument(
        main.DEFAULT_PAIR, help="pip, TARGET or TARGET::DRAFT, as --pair of other commands."
    ),
    load: LoadRequest = main.DEFAULT_LOAD,
    quantization: list[str] | None = Option(
        None, help="auto, fp32, bf16, int8, nf4, q4 or stored. Repeatable. Default: all."
    ),
    prompt: list[str] | None = Option(None, help="A prompt of your own. Repeatable."),
    prompts_file: Path | None = Option(
        None, "--prompts", help="File of JSON lines: prompt, messages, or turns (the first counts)."
    ),
    count: int = Option(
        8, min=1, max=10_000, help="At most this many prompts of the file, or of the included set."
    ),
    max_tokens: int = Option(24, min=1, help="Most tokens per reply."),
    seed: int = Option(1, help="Seed of the depths, temperatures and samples that are drawn."),
    llama_cpp: options.LlamaCppOption = None,
    openvino: options.OpenVinoOption = None,
    openvino_models: options.OpenVinoModelsOption = None,
    report: Path | None = Option(None, metavar="FILE", help="Write the report as Markdown."),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Check that every method, quantisation and batch gives equal tokens and log probabilities.

    Exit status: 0 all equal, 1 something differs, 130 stopped by Ctrl-C, which keeps what was compared.
    Differences within other engines do not count.
    """
    from engine.bench.real import case as cases
    from engine.bench.real.contest import NotMeasured
    from engine.bench.real.peers import environments
    from engine.bench.real.peers import llama_cpp as llama
    from engine.bench.verify import comparison
    from engine.bench.verify.report import Report, visible

    folder, asked = paths.data_folder(data_dir), load.alike(pair)
    load = replace(asked, heads=(*asked.heads, *load.heads))
    kinds = quantization or (AUTO, *QUANTIZATIONS[1:])
    loads = [replace(load, quantization=kind) for kind in kinds]
    questions = _prompts(prompt or [], prompts_file, count)
    if report is not None:
        check_writable(report, "report")
    check_load(folder, load, None, here=True)
    with Status() as status:
        files = by_files(with_default_draft(load, folder), folder, status)
        case, prompts = cases.make(files, questions, max_tokens, skip_long=True)
    line_up: LineUp = [
        *(llama.programs(llama_cpp, case, everything=False) if llama_cpp else ()),
        *(environments.openvino(openvino, openvino_models, case) if openvino else ()),
    ]
    for one in line_up:
        if isinstance(one, NotMeasured):
            raise InvalidRequest("peers", f"{one.name} cannot be tested. {one.reason}")
    made, ended = Report([one.text for one in prompts]), 0
    if skipped := len(questions) - len(prompts):
        made.left_out.append(f"{skipped} of {len(questions)} prompts are too long for the context.")
    run = partial(comparison.run, prompts=prompts, seed=seed, max_tokens=max_tokens)
    try:
        for each in loads:
            _compare(each, folder, run, made, chosen=bool(quantization))
        if line_up:
            _ask(line_up, prompts, case, made)
    except KeyboardInterrupt:
        if all(row.is_reference for row in made.found.rows.values()):
            raise
        made.left_out.append("The run was stopped early. This is what was compared until then.")
        ended = 130
    if not made.found.rows:
        raise InvalidRequest("quantization", f"Nothing was compared. {' '.join(made.left_out)}")
    print(visible("\n".join(made.sentences())))
    if report is not None or as_json:
        made.command = _command(sys.argv[1:])
        made.facts = {"tokens of a reply": f"at most {max_tokens}", "seed": str(seed)}
        made.facts |= comparison.drawn(prompts, seed)
        made.facts |= _facts(files, line_up)
    if report is not None:
        with writing(report, "report"):
            report.write_text(made.markdown(), encoding="utf-8")
        print(f"The report is in {report}. It holds the prompts, and nothing else of yours.")
    if as_json:
        print(json.dumps(made.as_json()))
    raise typer.Exit(1 if made.found.differences else ended)


def _prompts(texts: Sequence[str], file: Path | None, count: int) -> list[Prompt]:
    """Return the given prompts and those of the file; without any, the included ones, kinds in turn."""
    from engine.bench import prompts
    from engine.bench.real import case

    given = [prompts.Prompt("own", (text,)) for text in texts]
    every = prompts.read(file) if file else []
    if len(every) > count:
        print(f"Note: {count} of {len(every):,} prompts are used (--count).", file=sys.stderr)
    if not given and not every:
        included = [*prompts.read(case.SHIPPED), *prompts.read()]
        every = list(dict.fromkeys([*prompts.first_of_each(included, 1), *included]))
    return [*given, *every[:count]]


def _compare(
    load: LoadRequest, folder: Path, run: Callable[..., None], made: Report, *, chosen: bool
) -> None:
    """Compare in one format and print its table. ``chosen``: the user named it: it must be available."""
    from engine.bench.verify.report import weights

    if load.quantization in made.found.quantizations:
        return  # this is what ``auto`` was
    kind = load.quantization
    try:
        with (
            open_here(load, folder) as (engine, loaded),
            progress("Comparing") as on_progress,
        ):
            made.name, kind = loaded.name, loaded.quantization

            def tell(done: int, total: int) -> None:
                on_progress(done, total)
                # A bar is drawn in terminals alone: files get a line for each tenth.
                if not sys.stderr.isatty() and 10 * done // total > told[-1]:
                    told.append(10 * done // total)
                    print(f"{weights(kind)}: {done:,} of {total:,} replies", file=sys.stderr)

            told = [0]
            run(engine, found=made.found, on_progress=tell)
    except (InvalidRequest, OutOfMemory) as error:
        if chosen or getattr(error, "field", "quantization") != "quantization":
            raise
        # Nobody chose the format, so nothing is to be chosen instead.
        why = re.sub(r"^quantization is '\w+', but | Choose [\w ,]+\.$", "", str(error))
        made.left_out.append(f"Not compared in {kind}: {diagnostics.shortened(why)}")
    finally:
        if kind in made.found.quantizations:
            _print(weights(kind), made.table(kind))


def _ask(line_up: LineUp, prompts: list[EncodedPrompt], case: Case, made: Report) -> None:
    """Compare other engines, each with itself."""
    from engine.bench.real import contest
    from engine.bench.verify.report import of_peers

    with tempfile.TemporaryDirectory() as logs, progress("Other engines") as on_progress:
        result = contest.run(line_up, prompts, case, 1, Path(logs), on_progress)
    made.peers = of_peers(result, case)
    made.absent = [replace(one, reason=diagnostics.shortened(one.reason)) for one in result.absent]
    if made.peers:
        _print("Other engines", made.peer_table())


def _facts(files: LoadRequest, line_up: LineUp) -> dict[str, str]:
    """Return what a reader needs to judge the run, or to repeat it; no paths, which may name people."""
    from engine.bench.real.contest import Program
    from engine.bench.real.peers.llama_cpp import printed

    facts = {"date": datetime.now(UTC).date().isoformat()}
    for path in map(Path, filter(None, (files.target, files.draft, *files.heads))):
        for file in [path] if path.is_file() else sorted(path.glob("*.safetensors")):
            with Status() as status, file.open("rb") as opened:
                status.say(f"Hashing {file.name} ...")
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            facts[f"SHA-256 of {file.parent.name}/{file.name}"] = digest
    for server in {one.file for one in line_up if isinstance(one, Program) and one.file}:
        facts["llama.cpp"] = printed(server, "--version").partition("\n")[0]
    return facts | dict(diagnostics.versions() + diagnostics.machine())


def _command(words: Sequence[str]) -> str:
    """Return the command that repeats the run, without the folders of paths, which may name people."""
    shown = [
        word
        if before == "--prompt" or word.startswith("--prompt=")
        else _FOLDERS.sub("", word.rstrip("/"))
        for before, word in zip(("", *words), words, strict=False)
    ]
    return shlex.join(["foretoken", *shown])


def _print(title: str, what: Table) -> None:
    head, lines = what
    print(f"{title}\n\n{table(head, lines, frozenset(range(1, len(head))))}\n", flush=True)
