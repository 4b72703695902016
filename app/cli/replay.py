"""``foretoken replay``: a trace as one HTML file that plays a reply round by round."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.errors import InvalidRequest


def replay(
    trace: Annotated[Path, typer.Argument(help="A file that `chat --trace` or the page wrote.")],
    html: Annotated[Path, typer.Option(help="The file to write.")],
    reply: Annotated[
        int | None, typer.Option(min=1, help="Which of the trace's replies. Default: the last.")
    ] = None,
) -> None:
    """Write a trace's reply as one HTML file, with its replay inside; it needs no network."""
    from app.ui import replay_file

    try:
        lines = trace.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest("trace", f"The trace {trace} cannot be read: {error}.") from error
    page = replay_file.page(lines, reply)
    try:
        html.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InvalidRequest("html", f"{html} cannot be written: {error}.") from error
    print(f"Wrote {html}.")
