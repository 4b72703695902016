"""``foretoken bench``: measurements for people, and as JSON for scripts. One file per command."""

from __future__ import annotations

import typer

from app.cli.bench_compare import compare
from app.cli.bench_kernels import kernels
from app.cli.bench_load import load
from app.cli.bench_lossless import lossless
from app.cli.bench_overhead import overhead
from app.cli.bench_real import real
from app.cli.bench_sweep import sweep

cli = typer.Typer(
    help="Measure speed, acceptance and equal words.", no_args_is_help=True, rich_markup_mode=None
)
for command in (real, load, sweep, overhead, compare, kernels, lossless):
    cli.command()(command)
