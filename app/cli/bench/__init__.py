"""``foretoken bench``: measurements for people, and as JSON for scripts. One file per command."""

from __future__ import annotations

from app.cli.bench import load, real, sweep
from app.cli.group import group

cli = group(help="Measure speed and acceptance.", no_args_is_help=True)
cli.command()(real.real)
cli.command()(load.load)
cli.command()(sweep.sweep)
cli.command()(sweep.compare)
