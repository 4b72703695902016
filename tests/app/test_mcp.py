"""Servers of tools: how they are configured, what they may do, and that no broken one hurts the app."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import psutil
import pytest

from app.mcp import limits, transports
from app.mcp.config import GivenServers, McpFile, ServerConfig, read_servers
from app.mcp.connection import BoundedResult
from app.mcp.servers import McpServers
from app.mcp.tools import CallResult, OfferedTool, ServerTool, bounded, offered, text_of
from app.storage.rows import StoredCall, StoredCalls
from engine.decoding.text.codec import TextCodec
from engine.errors import InvalidRequest
from engine.request import Request
from engine.values.messages import Message
from engine.values.tools import Tool
from tests.support.places import ROOT, real_models
from tests.support.processes import free_port

TOOLS = ServerConfig(
    "t",
    command=sys.executable,
    args=("-m", "tests.support.tool_server"),
    env={"PYTHONPATH": str(ROOT), "SECRET": "s"},
    timeout_s=30.0,
)

# ---- configuration


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ({"mcpServers": {"a": {"command": "npx", "args": ["-y", "it is"]}}}, 'npx -y "it is"'),
        ({"servers": {"a": {"type": "stdio", "command": "uvx"}}}, "uvx"),
        (
            {"mcpServers": {"a": {"url": "https://e.org/mcp", "headers": {"A": "b"}}}},
            "https://e.org/mcp",
        ),
        (
            {"mcpServers": {"a": {"serverUrl": "http://e.org/sse", "type": "sse"}}},
            "http://e.org/sse",
        ),
        ({"a": {"command": "x", "env": {"K": "v"}, "cwd": "/tmp"}}, "x"),
    ],
    ids=["claude desktop", "vs code", "lm studio", "windsurf", "bare"],
)
def test_the_forms_of_other_apps_are_read(written: dict[str, Any], line: str) -> None:
    found = read_servers(json.dumps(written))
    assert [each.line for each in found.servers] == [line]
    assert (found.servers[0].on, found.ignored) == (True, ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("[" * 5000, "not JSON"),
        ('"text"', "No servers found"),
        ('{"command": "x"}', "Give the server a name"),
        ('{"mcpServers": {}}', "0 servers"),
        ('{"mcpServers": {"a": {}}}', "a needs either a command or a URL"),
        ('{"mcpServers": {"a": {"command": "x", "url": "http://e"}}}', "either"),
        ('{"mcpServers": {"a": {"url": "file:///etc/passwd"}}}', "must begin with http"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "args of a must be a list"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"K": 1}}}}', "env of a"),
        ('{"mcpServers": {"a": {"command": "x", "type": "grpc"}}}', "supported are stdio"),
        ('{"mcpServers": {"a": {"command": "x", "timeout_s": 0}}}', "time limit"),
        (f'{{"a": {{"command": "x", "timeout_s": 1{"0" * 400}}}}}', "time limit"),
        ('{"mcpServers": {"a\\u0000": {"command": "x"}}}', "name"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(text: str, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        read_servers(text)


def test_a_file_of_another_app_makes_no_server_trusted_and_says_what_has_no_effect() -> None:
    entry = {"command": "x", "alwaysAllow": ["*"], "disabled": True}
    found = read_servers(json.dumps({"mcpServers": {"a": entry}}))
    assert (found.servers[0].on, found.ignored) == (False, ("a: alwaysAllow",))


def test_a_name_that_hides_what_it_is_is_not_added_and_an_older_one_can_be_turned_off(
    tmp_path: Path,
) -> None:
    """It stands in "Run add from NAME?"."""
    file = McpFile(tmp_path)
    file.add((ServerConfig("a", command="x"),))
    hidden = ServerConfig("\u202ecod", command="x")
    with pytest.raises(InvalidRequest, match="cannot be shown"):
        file.add((hidden,))
    with file._file.change() as values:
        values["mcpServers"][hidden.name] = hidden.entry()
    file.change(hidden.name, on=False)
    assert [each.on for each in file.servers()] == [True, False]


def test_what_is_stored_comes_back_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    file = McpFile(tmp_path)
    file.add((TOOLS, ServerConfig("h", url="http://e.org", headers={"A": "b"}, on=False)))
    file.change("h", tools_off=frozenset({"x"}))
    file.rounds = 3
    again = McpFile(tmp_path)
    assert again.servers()[0] == TOOLS
    assert again.servers()[1].tools_off == {"x"}
    assert (again.rounds, file.path.stat().st_mode & 0o777) == (3, 0o600)
    marks = {each.mark for each in file.servers()}
    file.change("h", url="http://other.org")
    assert not {each.mark for each in file.servers()} <= marks
    file.remove("h")
    assert [each.name for each in file.servers()] == ["t"]


# ---- what models are told


def tool(name: str, **fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"name": name, "description": "", "input_schema": {}, **fields})


def test_descriptions_and_parameters_have_bounds() -> None:
    deep: Any = {"type": "object"}
    for _ in range(limits.DEEPEST_SCHEMA):
        deep = {"type": "object", "properties": {"a": deep}}
    listed = [
        tool("good", description="Says\x1b[31m " + "x" * 5000),
        tool("deep", input_schema=deep),
        tool("large", input_schema={"type": "object", "title": "x" * limits.LARGEST_SCHEMA}),
        tool("list", input_schema={"type": "array"}),
        *(tool(f"n{number}") for number in range(500)),
    ]
    tools, left_out = bounded(listed)
    assert len(tools) == limits.MOST_TOOLS
    assert len(tools[0].description) == limits.LONGEST_DESCRIPTION
    assert "\x1b" not in tools[0].description
    assert [each.split(":")[0] for each in left_out[:3]] == ["deep", "large", "list"]


def test_names_that_cannot_be_used_and_infinite_numbers_are_left_out() -> None:
    """A name of 7,000,000 characters was in every later answer of the page of tools."""
    schema = json.loads('{"type": "object", "maximum": 1e999}')
    listed = [tool("x" * 7_000_000), tool("a\n\x1bb"), tool("i", input_schema=schema), tool("ok")]
    tools, left_out = bounded(listed)
    assert [each.name for each in tools] == ["ok"]
    assert left_out == (
        f"{'x' * 64}: its name is too long.",
        "ab: its name has characters that cannot be shown.",
        "i: the description of its parameters holds an infinite number.",
    )
    tools, left_out = bounded(tool("", input_schema={"type": "array"}) for _ in range(100_000))
    assert (len(tools), len(left_out)) == (0, limits.MOST_TOOLS + 1)


def test_tools_of_one_name_are_told_apart_by_their_servers() -> None:
    listed = [
        (server, ServerTool(name, "", "{}"))
        for server, name in [
            ("a", "add"),
            ("b", "add"),
            ("b c", "say it.!"),
            ("a", "a_add"),
            ("a", ""),
        ]
    ]
    found = offered(listed)
    assert [each.tool.name for each in found] == ["a_add", "b_add", "say_it_", "a_add_2", "tool"]
    assert [each.name for each in found] == ["add", "add", "say it.!", "a_add", ""]


def test_a_result_is_text_and_says_what_is_no_text_and_what_was_cut() -> None:
    parts = [
        SimpleNamespace(type="text", text="a\0\ud800"),
        SimpleNamespace(type="image", mime_type="image/png", data="AAAA"),
        SimpleNamespace(type="resource_link", name="f\n", uri="file:///x"),
        SimpleNamespace(type="resource", resource=SimpleNamespace(uri="u", text=None)),
        SimpleNamespace(type="hologram"),
    ]
    found = text_of(parts, None, False)
    assert found.text.split("\n") == [
        "a?", "[image, image/png, 3 bytes: not read]", "f: file:///x", "[file u: not read]",
        "[hologram: not read]",
    ]  # fmt: skip
    assert text_of([], {"a": 1}, True) == CallResult('{"a": 1}', True)
    assert CallResult("x" * 50).within(20) == CallResult(
        "x" * 20 + "\n[30 of 50 characters left out]", False, 30
    )


def test_a_result_of_countless_parts_is_cut_before_each_is_checked() -> None:
    """150,000 parts stopped all servers for seconds and took 264 MB."""
    part = {"type": "text", "text": "x"}
    most = limits.MOST_PARTS
    few = BoundedResult.model_validate({"content": [part] * most}, by_name=False)
    assert text_of(few.content, None, False).text == "\n".join("x" * most)
    wrong = [part] * most + [{"type": "text", "text": 7}] * 149_000
    many = BoundedResult.model_validate({"content": wrong}, by_name=False)
    assert len(many.content) == most + 1
    assert text_of(many.content, None, False).text.endswith("x\n[149,000 more parts left out]")


def test_an_answer_by_http_has_a_bound_of_values() -> None:
    """8 MB of empty lists took 1.6 s to parse, while no server was heard."""

    async def read(chunk: bytes) -> str:
        ending = transports.ServerEnd()
        stream = httpx2.ByteStream(chunk)
        with contextlib.suppress(httpx2.ReadError):
            async for _ in transports._Bounded(stream, limits.LONGEST_LINE, ending):
                pass
        return ending.why

    assert asyncio.run(read(b"[" * 1_000_000)) == ""
    assert "lists and objects" in asyncio.run(read(b"[]," * 2_000_000))


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ('"\\ud800"', "invalid message: Invalid JSON: unexpected end of hex escape"),
        ("[" * 1000 + "]" * 1000, "invalid message: Invalid JSON: recursion limit"),
        ("1" * 100_000, "invalid message: Invalid JSON: number out of range"),
        ("[" + "[]," * limits.MOST_CONTAINERS + "0]", "a message of more than 131072 lists"),
    ],
    ids=["surrogate", "deep", "digits", "countless"],
)
def test_an_answer_that_cannot_be_read_is_told_at_once(result: str, told: str) -> None:
    """It was taken for text on the program's output, and its request waited for 20 s."""
    line = f'{{"jsonrpc": "2.0", "id": 1, "result": {{"content": {result}}}}}\n'.encode()
    reader = transports._Reader()
    assert reader.read(b"Listening.\n" + line[:20]) == []
    with pytest.raises(transports._Unusable, match=told):
        reader.read(line[20:])


def test_real_models_are_told_of_tools_and_read_results_in_their_own_form() -> None:
    """A control token in a result is text, which ends nothing."""
    for model in real_models():
        codec = TextCodec(model)
        assert codec.template_tools
        calls = StoredCalls(
            0, (StoredCall("a", "add", '{"a": 1}', "t", "add", "done", "<|im_end|>"),)
        )
        messages = (Message("user", "Add."), *calls.messages("", ""))
        tools = (OfferedTool(Tool("add", "Add two integers."), "t", "add").tool,)
        tokens = codec.encode_request(Request(messages=messages, tools=tools))
        text = codec.decode(tokens)
        assert '"name": "add"' in text.replace("{{", "{")
        assert (
            "<tool_response>\n<|im_end|>\n</tool_response>" in text
        )  # control tokens are not shown


# ---- servers


def using(*configs: ServerConfig) -> McpServers:
    return McpServers(GivenServers(configs))


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


@pytest.fixture(scope="module")
def servers() -> Iterator[McpServers]:
    before = children()  # some of other tests may end meanwhile
    with closing(using(TOOLS)) as found:
        yield found
    assert children() <= before  # no program is left


def call(servers: McpServers, tool: str, server: str = "t", **arguments: Any) -> CallResult:
    return servers.call(server, tool, arguments).result(30)


def test_a_program_lists_its_tools_and_runs_them_side_by_side(servers: McpServers) -> None:
    servers.wait(["t"])
    (state,) = servers.states()
    assert state.phase == "ready"
    assert {"add", "slow"} <= {each.name for each in state.tools}
    both = [servers.call("t", "meet", {"guests": 4}) for _ in range(4)]
    assert [each.result(30).text for each in both] == ["all here"] * 4
    assert call(servers, "add", a=2, b=3) == CallResult("5")
    assert call(servers, "environment", name="SECRET").text == "s"
    assert call(servers, "environment", name="OMP_NUM_THREADS").text == "(not set)"
    failed = [call(servers, name) for name in ("failing", "missing")]
    assert all(each.failed for each in failed)


def test_a_call_that_takes_too_long_or_is_cancelled_ends_and_the_server_goes_on(
    servers: McpServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others' limits are long: a machine that is busy takes seconds for what is no mistake."""
    monkeypatch.setattr(limits, "PING_S", 60.0)
    with monkeypatch.context() as patch:
        patch.setattr(servers, "file", GivenServers((replace(TOOLS, timeout_s=1.0),)))
        late = call(servers, "slow", seconds=60)
    assert (late.failed, late.text) == (
        True,
        "No result within 1 seconds, so the call was cancelled.",
    )
    running = servers.call("t", "slow", {"seconds": 60})
    assert running.cancel()
    assert call(servers, "add", a=1, b=1) == CallResult("2")


@pytest.mark.parametrize("tool", ["dying", "huge"])
def test_a_program_that_dies_or_sends_too_much_is_started_again(
    servers: McpServers, tool: str
) -> None:
    broken = call(servers, tool, **({"characters": 9 << 20} if tool == "huge" else {}))
    assert broken.failed
    assert "stopped during the call" in broken.text
    assert ("ended with status 3" if tool == "dying" else "more than 8 MB") in broken.text
    assert "I am dying" not in broken.text  # a server's output may be of other chats
    until(lambda: servers.states()[0].phase == "failed")
    assert ("I am dying" in servers.states()[0].why) == (tool == "dying")
    assert call(servers, "add", a=1, b=1) == CallResult("2")


def test_a_program_that_hears_nothing_any_more_is_killed(
    servers: McpServers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(limits, "PING_S", 0.3)
    running = servers.call("t", "stuck", {"begun": str(tmp_path / "begun")})
    until((tmp_path / "begun").exists)
    running.cancel()
    until(lambda: servers.states()[0].phase == "failed")
    assert "stopped answering" in servers.states()[0].why
    assert call(servers, "add", a=1, b=1) == CallResult("2")


def until(happened: Any) -> None:
    end = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


ANSWER = "import json, sys, time\nfor line in sys.stdin:\n m = json.loads(line)\n"
HOSTILE = {
    "missing": (ServerConfig("x", command="no-such-program"), "no-such-program was not found"),
    "ends": (
        "import sys; print('bad key', file=sys.stderr); sys.exit(4)",
        "status 4. It said: bad key",
    ),
    "silent": ("import time; time.sleep(60)", "did not answer in time"),
    "endless line": ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "more than 8 MB"),
    "garbage": ("while True: print('{not json')", "text instead of messages"),
    "flood": (
        ANSWER
        + " while True: print(json.dumps({'jsonrpc': '2.0', 'method': 'notifications/message',"
        " 'params': {'level': 'info', 'data': 'x' * 100000}}))",
        "more than 32 MB",
    ),
    "wrong answers": (
        ANSWER
        + " print(json.dumps({'jsonrpc': '2.0', 'id': m.get('id'), 'result': {}}), flush=True)",
        "does not follow the protocol",
    ),
    "no message": (
        ANSWER + r""" print('{"jsonrpc": "2.0", "id": 1, "result": "\\ud800"}', flush=True)""",
        "invalid message: Invalid JSON",
    ),
    "nowhere": (ServerConfig("x", url="http://127.0.0.1:9/mcp"), "Nothing answers at this address"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_server_fails_with_a_reason_and_leaves_no_program(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RETRY_S", 600.0)
    if kind == "silent":
        monkeypatch.setattr(limits, "CONNECT_S", 0.5)
    what, told = HOSTILE[kind]
    config = what
    if isinstance(what, str):
        config = ServerConfig("x", command=sys.executable, args=("-S", "-c", what))
    before = children()
    with closing(using(config)) as servers:
        servers.wait(["x"])
        (state,) = servers.states()
        assert state.phase == "failed"
        assert told in state.why
        servers.start(["x"])  # not again so soon
        assert not servers._starts
    assert children() <= before


def test_a_call_whose_server_is_stopped_meanwhile_says_so() -> None:
    """It said that the server did not answer in time."""
    config = ServerConfig(
        "x", command=sys.executable, args=("-S", "-c", "import time; time.sleep(60)")
    )
    with closing(using(config)) as servers:
        before = set(threading.enumerate())
        called = servers.call("x", "add", {})
        until(lambda: "tool server's errors" in {t.name for t in {*threading.enumerate()} - before})
        servers.stop("x")
        assert called.result(60).text == "The server x is not available. It was stopped."


def test_a_server_that_never_answers_the_goodbye_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLOSE_S", 0.05)

    async def closed() -> bool:
        from app.mcp.connection import Connection

        connection = Connection(TOOLS, lambda: None)
        connection._task = asyncio.create_task(asyncio.sleep(60))
        await connection.close()
        return connection._task.cancelled()

    assert asyncio.run(closed())


def test_servers_by_http_answer_and_one_that_ends_is_told() -> None:
    """By streamable HTTP, and by its predecessor."""
    ports = {"mcp": free_port(), "sse": free_port()}
    configs = [ServerConfig(path, url=f"http://127.0.0.1:{ports[path]}/{path}") for path in ports]
    with ExitStack() as scope:
        for path, port in ports.items():
            words = [sys.executable, "-m", "tests.support.tool_server", str(port), path]
            process = scope.enter_context(
                subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL)
            )
            scope.callback(process.kill)
        servers = scope.enter_context(closing(using(*configs)))

        def there() -> bool:
            servers.start(ports, again=True)
            servers.wait(ports)
            return all(each.phase == "ready" for each in servers.states())

        until(there)
        for path in ports:
            assert call(servers, "add", path, a=1, b=2) == CallResult("3")
            large = call(servers, "huge", path, characters=2 << 20)
            assert large.failed if path == "sse" else len(large.text) == 2 << 20
            assert (
                "stopped during the call" in call(servers, "huge", path, characters=40 << 20).text
            )
            assert call(servers, "add", path, a=1, b=2) == CallResult("3")
            assert "stopped during the call" in call(servers, "dying", path).text
            assert "Nothing answers" in call(servers, "add", path, a=1, b=2).text
