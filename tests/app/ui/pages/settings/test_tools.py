"""The settings of tool servers, without a browser."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest

from app.mcp.config import McpFile
from app.mcp.servers import McpServers
from app.ui.endpoints import endpoints_of, refusal_elsewhere
from app.ui.pages.settings.tools.backend import MASK, ToolServersBackend
from engine.errors import InvalidRequest


@pytest.fixture
def backend(tmp_path: Path) -> ToolServersBackend:
    file = McpFile(tmp_path)
    return ToolServersBackend(McpServers(file), file)


def test_keys_are_masked_and_kept_and_nothing_starts_by_being_added(backend, tmp_path) -> None:
    given = (
        '{"mcpServers": {"a": {"command": "x", "env": {"KEY": "secret"}, "autoApprove": ["y"]}}}'
    )
    added = backend.import_servers({"text": given})
    assert (added["added"], added["ignored"][-15:]) == (["a"], "a: autoApprove.")
    (shown,) = added["servers"]
    assert "secret" not in str(added)
    assert (shown["env"], shown["phase"]) == (f"KEY={MASK}", "stopped")
    form = {
        "was": "a",
        "name": "b",
        "command": "x",
        "args": "-a\nit is",
        "env": f"{shown['env']}\nB=c",
    }
    (shown,) = backend.keep_server(form)["servers"]
    assert (shown["name"], shown["line"]) == ("b", 'x -a "it is"')
    (kept,) = McpFile(tmp_path).servers()
    assert kept.env == {"KEY": "secret", "B": "c"}
    with pytest.raises(InvalidRequest, match="one NAME=value per line"):
        backend.keep_server({**form, "was": "b", "env": "nothing"})
    with pytest.raises(InvalidRequest, match="Enter the value again"):  # it was stored as empty
        backend.keep_server({**form, "was": "b", "env": f"API_KEY={MASK}"})
    with pytest.raises(InvalidRequest, match="already a server b"):
        backend.keep_server({"name": "b", "command": "y"})
    assert backend.remove_server({"name": "b"})["servers"] == []


@pytest.mark.parametrize("form", [{"name": "b"}, {"name": "b", "was": "a"}], ids=["new", "renamed"])
def test_a_form_that_could_not_be_read_again_is_refused_and_changes_nothing(
    backend, tmp_path, form
) -> None:
    """It was written, then the whole file counted as damaged: all servers and keys were gone."""
    backend.keep_server({"name": "a", "command": "x"})
    before = (tmp_path / "mcp.json").read_bytes()
    with pytest.raises(InvalidRequest, match="args of b must be text of at most 8,192"):
        backend.keep_server({**form, "command": "x", "args": "y" * 9000})
    assert [each["name"] for each in backend.tool_servers()["servers"]] == ["a"]
    assert (tmp_path / "mcp.json").read_bytes() == before


def test_arguments_that_nobody_edited_stay_as_they_are(backend, tmp_path) -> None:
    """Each line of one became an argument, and an empty one at the end was lost."""
    args = ["-c", "print(1)\nprint(2)", "a\u2028b", ""]
    given = json.dumps({"mcpServers": {"a": {"command": "x", "args": args}}})
    (shown,) = backend.import_servers({"text": given})["servers"]
    backend.keep_server({**shown, "was": "a", "seconds": "5"})
    assert McpFile(tmp_path).servers()[0].args == tuple(args)
    backend.keep_server({**shown, "was": "a", "args": "-c\na\u2028b\n"})
    assert McpFile(tmp_path).servers()[0].args == ("-c", "a\u2028b")


def test_a_tool_that_is_off_stays_off_when_its_server_is_imported_again(backend, tmp_path) -> None:
    given = {"text": '{"a": {"command": "x"}}'}
    backend.import_servers(given)
    backend.turn_tool({"name": "a", "tool": "delete", "on": False})
    backend.import_servers(given)
    assert McpFile(tmp_path).servers()[0].tools_off == {"delete"}
    backend.turn_tool({"name": "a", "tool": "delete", "on": True})
    assert not McpFile(tmp_path).servers()[0].tools_off


def test_a_server_is_tested_turned_off_and_limited(backend) -> None:
    with closing(backend._servers):
        backend.keep_server(
            {"name": "a", "command": sys.executable, "args": "-c\n1", "seconds": "5"}
        )
        backend.test_server({"name": "a"})
        backend._servers.wait(["a"])
        (shown,) = backend.tool_servers()["servers"]
        assert (shown["phase"], shown["why"], shown["seconds"]) == (
            "failed",
            "It ended with status 0.",
            5,
        )
        assert backend.turn_server({"name": "a", "on": False})["servers"][0]["on"] is False
        assert backend.limit_rounds({"value": "3"})["rounds"] == 3
        with pytest.raises(InvalidRequest, match="1 to 100 tool steps"):
            backend.limit_rounds({"value": "0"})


def test_only_a_browser_on_this_machine_may_change_what_is_started(backend) -> None:
    open_to_all = {
        each.__name__ for each in endpoints_of(backend) if refusal_elsewhere(each) is None
    }
    assert open_to_all == {"tool_servers", "test_server", "limit_rounds"}
