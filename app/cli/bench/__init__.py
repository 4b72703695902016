"""``foretoken bench``: measurements for people, and as JSON for scripts. One file per command."""

from __future__ import annotations

import typer

from app.cli.bench.compare import compare
from app.cli.bench.kernels import kernels
from app.cli.bench.load import load
from app.cli.bench.lossless import lossless
from app.cli.bench.overhead import overhead
from app.cli.bench.real import real
from app.cli.bench.sweep import sweep

cli = typer.Typer(
    help="Measure speed, acceptance and equal words.", no_args_is_help=True, rich_markup_mode=None
)
for command in (real, load, sweep, overhead, compare, kernels, lossless):
    cli.command()(command)
