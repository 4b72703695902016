"""``foretoken bench``: measurements for people, and as JSON for scripts. One file per command."""

from __future__ import annotations

import typer

from app.cli.bench import load, real, sweep

cli = typer.Typer(help="Measure speed and acceptance.", no_args_is_help=True, rich_markup_mode=None)
cli.command()(real.real)
cli.command()(load.load)
cli.command()(sweep.sweep)
cli.command()(sweep.compare)
