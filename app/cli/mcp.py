"""``foretoken mcp``: the servers of tools that were added in the app, or those of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from app import paths
from app.cli import options
from app.cli.group import group
from app.cli.text.output import harmless, table
from app.cli.text.tools import read_file
from app.mcp.config import GivenServers, McpFile, read_servers
from app.mcp.servers import McpServers, ServerState
from engine.errors import InvalidRequest
from engine.values.units import counted

cli = group(name="mcp", help="Tool servers (MCP).", no_args_is_help=True)

FileOption = Annotated[
    Path | None,
    typer.Option("--file", help="A JSON file with MCP servers. Default: those added in the app."),
]


@cli.command("list")
def list_servers(
    file: FileOption = None,
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """List the servers and their commands. Starts nothing."""
    found, place = _servers(file, data_dir)
    if as_json:
        listed = [{"name": each.name, "line": each.line, "on": each.on} for each in found.given]
        print(json.dumps({"file": str(place), "servers": listed}, ensure_ascii=False))
        return
    if not found.given:
        print(f"No servers in {place}. Add one in Settings, Tools.")
        return
    rows = [(each.name, "on" if each.on else "off", each.line) for each in found.given]
    print(table(("name", "", "command or address"), rows, frozenset()))


@cli.command("test")
def test_servers(
    names: list[str] | None = Argument(
        None, help="Names of servers. Default: all that are turned on."
    ),
    file: FileOption = None,
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Start servers and list their tools. Exit status 2 if one fails."""
    found, place = _servers(file, data_dir)
    known = {each.name for each in found.given}
    if unknown := [each for each in names or () if each not in known]:
        raise InvalidRequest("names", f"{place} has no server {', '.join(unknown)}.")
    wanted = names or [each.name for each in found.given if each.on]
    servers = McpServers(found)
    try:
        servers.wait(wanted)
        states = [each for each in servers.states() if each.config.name in wanted]
    finally:
        servers.close()
    if as_json:
        print(json.dumps(list(map(_as_json, states)), ensure_ascii=False))
    else:
        for state in states:
            print(harmless(_text(state)))
    if failed := [each.config.name for each in states if each.phase == "failed"]:
        raise InvalidRequest("names", f"{', '.join(failed)} failed.")


def _servers(file: Path | None, data_dir: Path | None) -> tuple[GivenServers, Path]:
    if file is not None:
        return GivenServers(read_servers(read_file(file)).servers), file
    stored = McpFile(paths.data_folder(data_dir))
    return GivenServers(stored.servers()), stored.path


def _text(state: ServerState) -> str:
    if state.phase == "failed":
        return f"{state.config.name}: failed. {state.why}"
    lines = [f"{state.config.name}: {counted(len(state.tools), 'tool')}"]
    for tool in state.tools:
        off = " (off)" if tool.name in state.config.tools_off else ""
        about = " ".join(tool.description.split())
        lines.append(f"  {tool.name}{off}  {about[:100]}")
    return "\n".join([*lines, *(f"  Left out: {each}" for each in state.left_out)])


def _as_json(state: ServerState) -> dict[str, object]:
    return {
        "name": state.config.name,
        "phase": state.phase,
        "why": state.why,
        "tools": [{"name": each.name, "description": each.description} for each in state.tools],
        "left_out": list(state.left_out),
    }
