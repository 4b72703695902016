"""The command ``foretoken``. One file per command; whatever is heavy is imported inside them.

Exit status: 0 done, 1 a measurement or training that failed, 2 a mistake that the message explains,
130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import metadata

import typer
from typer import Option

from app.cli import bench, chat, mcp, models, plan, race, serve, settings, train, verify, worker
from app.cli.group import group
from app.cli.text.output import harmless
from engine.errors import ForetokenError, GenerationFailed

cli = group(
    name="foretoken", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
for each in (
    serve.ui, serve.app, chat.chat, serve.serve, worker.worker, race.race, verify.verify, chat.replay,
    train.train, train.learn, plan.plan, settings.compiler, settings.settings, settings.diagnostics,
):  # fmt: skip
    cli.command()(each)
cli.add_typer(bench.cli, name="bench")
cli.add_typer(models.cli, name="models")
cli.add_typer(mcp.cli, name="mcp")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"foretoken {metadata.version('foretoken')}")
        raise typer.Exit


@cli.callback()
def _general(
    version: bool = Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version and exit.",
    ),
) -> None:
    """Chat with local models, faster by speculative decoding, and see every drafted token."""


def main() -> None:
    """Run the command line; see ``run``. The launcher says what the program is called in messages."""
    run(partial(cli, prog_name=os.environ.get("FORETOKEN_PROGRAM")))


def run(command: Callable[[], object]) -> None:
    """Run a command; an expected error is one message and status 2, never a traceback."""
    try:
        command()
    except ForetokenError as error:
        print(f"foretoken: {harmless(str(error))}", file=sys.stderr)  # it may quote a server
        sys.exit(1 if isinstance(error, GenerationFailed) else 2)
