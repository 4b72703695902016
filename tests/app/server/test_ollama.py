"""Ollama's protocol on the wire: lines of JSON, durations in nanoseconds, errors as one string."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from engine.events import Finished
from engine.request import Request
from engine.values.messages import Message
from engine.values.sampling import Sampling
from engine.values.tools import Tool, ToolCall
from tests.support.places import PIP
from tests.support.serving import Served

ASK = {"role": "user", "content": "Tell me a tale of a fox."}


def text_of(server, **request: Any) -> str:
    last = server.direct(Request(**request))[-1]
    assert isinstance(last, Finished)
    return last.text


def lines_of(http: httpx.Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    reply = http.post(path, json=body)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in reply.text.splitlines()]


def test_a_chat_streams_lines_and_ends_with_what_it_took(server, http: httpx.Client) -> None:
    options = {"temperature": 0.8, "seed": 4, "num_predict": 15, "repeat_penalty": 1.1}
    body = {"model": f"{server.model}:latest", "messages": [ASK], "options": options}
    *parts, last = lines_of(http, "/api/chat", body)
    sampling = Sampling(temperature=0.8, seed=4, repetition_penalty=1.1)
    own = text_of(
        server, messages=(Message("user", ASK["content"]),), max_tokens=15, sampling=sampling
    )
    assert "".join(part["message"]["content"] for part in parts) == own
    assert not any(part["done"] for part in parts)
    assert (last["done"], last["done_reason"], last["eval_count"]) == (True, "length", 15)
    assert last["message"] == {"role": "assistant", "content": ""}
    spent = last["prompt_eval_duration"] + last["eval_duration"]
    assert 0 < spent < last["total_duration"] < 600 * 10**9
    assert last["prompt_eval_count"] > 0 <= last["load_duration"]
    whole = http.post("/api/chat", json={**body, "stream": False}).json()
    assert whole["message"]["content"] == own
    assert whole["done"]


def test_text_is_generated_as_a_chat_or_raw(server, http: httpx.Client) -> None:
    body = {"prompt": "Once upon", "stream": False, "options": {"num_predict": 8}}
    asked = http.post("/api/generate", json={**body, "system": "Be brief."}).json()
    chat = (Message("system", "Be brief."), Message("user", "Once upon"))
    assert asked["response"] == text_of(server, messages=chat, max_tokens=8)
    raw = http.post("/api/generate", json={**body, "raw": True}).json()
    assert raw["response"] == text_of(server, prompt="Once upon", max_tokens=8)
    loaded = http.post("/api/generate", json={"model": server.model}).json()
    assert (loaded["response"], loaded["done"], loaded["done_reason"]) == ("", True, "load")


def test_models_are_listed_and_shown(server, http: httpx.Client) -> None:
    (tag,) = http.get("/api/tags").json()["models"]
    loaded = server.runtime.engine.loaded
    assert tag["name"] == tag["model"] == loaded.id
    assert tag["size"] > 0
    assert tag["details"]["parameter_size"] == "7.5M"
    (running,) = http.get("/api/ps").json()["models"]
    assert running.items() >= tag.items() and running["context_length"] == loaded.context
    assert running["expires_at"] > "2300"  # never
    assert running["size_vram"] == (0 if loaded.device == "cpu" else tag["size"])
    shown = http.post("/api/show", json={"model": tag["name"]}).json()
    family = shown["model_info"]["general.architecture"]
    assert shown["model_info"][f"{family}.context_length"] == loaded.context
    assert shown["capabilities"] == ["completion", "tools"]
    own = json.loads((PIP / "target" / "tokenizer_config.json").read_text())
    assert shown["template"] == own["chat_template"]
    lines = dict(line.split() for line in shown["parameters"].splitlines())
    assert lines == {"num_ctx": str(loaded.context), "temperature": "0"}
    version = http.get("/api/version").json()
    assert tuple(map(int, version["version"].split("."))) >= (0, 6, 4)  # which VS Code asks for
    assert version["foretoken"]
    assert http.head("/api/version").status_code == http.head("/").status_code == 200
    assert http.get("/").text.startswith("Ollama is running\n")


def test_a_format_allows_no_names_that_it_does_not_list(http: httpx.Client) -> None:
    """As in Ollama. The reply went on with further names until num_predict cut it."""
    schema = {"type": "object", "properties": {"word": {"enum": ["fox"]}}, "required": ["word"]}
    body = {"messages": [ASK], "format": schema, "options": {"num_predict": 60}, "stream": False}
    message = http.post("/api/chat", json=body).json()["message"]
    assert json.loads(message["content"]) == {"word": "fox"}


@pytest.mark.parametrize("top", [None, 3])
@pytest.mark.parametrize("raw", [False, True])
def test_log_probabilities_are_those_of_the_other_dialect(
    server, http: httpx.Client, top: int | None, raw: bool
) -> None:
    """They were left out in silence."""
    asked = {"logprobs": True, **({"top_logprobs": top} if top else {})}
    options = {"options": {"num_predict": 8}, **asked}
    if raw:
        path, body = "/api/generate", {"prompt": "Once upon", "raw": True, **options}
        other = {"prompt": "Once upon", "max_tokens": 8, "logprobs": top or 0}
        (choice,) = http.post("/v1/completions", json=other).json()["choices"]
        theirs = [choice["logprobs"][name] for name in ("tokens", "token_logprobs")]
    else:
        path, body = "/api/chat", {"messages": [ASK], **options}
        other = {"messages": [ASK], "max_tokens": 8, **asked}
        (choice,) = http.post("/v1/chat/completions", json=other).json()["choices"]
        entries = choice["logprobs"]["content"]
        theirs = [[each[name] for each in entries] for name in ("token", "logprob")]
    whole = http.post(path, json={**body, "stream": False}).json()["logprobs"]
    assert [[each[name] for each in whole] for name in ("token", "logprob")] == theirs
    for each in whole:
        assert len(each.get("top_logprobs", ())) == (top or 0)
        assert bytes(each.get("bytes", ())).decode() == each["token"]
    streamed = lines_of(http, path, body)
    assert [each for line in streamed for each in line.get("logprobs", ())] == whole
    assert "logprobs" not in http.post(path, json={**body, "logprobs": False}).text


def test_what_people_chose_is_not_unloaded_by_a_request(server, http: httpx.Client) -> None:
    for body in ({"messages": [ASK]}, {"messages": []}):
        answer = http.post("/api/chat", json={**body, "keep_alive": 0})
        assert answer.status_code == 400 and "--load-on-demand" in answer.json()["error"]


CITIES = {"enum": ["Rome", "Oslo"]}
PARAMETERS = {"type": "object", "properties": {"city": CITIES}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}


def test_a_call_comes_back_as_an_object_and_its_answer_finds_it(server, http: httpx.Client) -> None:
    """By its id, by the tool's name, or, for old clients, by the order."""
    call = {"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
    answers: list[dict[str, Any]] = [
        {"tool_name": "get_weather"},
        {},
        {"tool_call_id": "call00000"},
    ]
    options = {"num_predict": 10}
    told = []
    for answer in answers:
        messages = [
            ASK,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "sunny", **answer},
        ]
        body = {"messages": messages, "tools": [TOOL], "options": options, "stream": False}
        told.append(http.post("/api/chat", json=body).json()["message"]["content"])
    made = ToolCall("call00000", "get_weather", '{"city": "Oslo"}')
    own = text_of(
        server,
        messages=(
            Message("user", ASK["content"]),
            Message("assistant", "", (made,)),
            Message("tool", "sunny", tool_call_id="call00000", name="get_weather"),
        ),
        tools=(Tool("get_weather", parameters=json.dumps(PARAMETERS)),),
        max_tokens=10,
    )
    assert told == [own] * 3


def test_what_answers_no_call_is_taken_as_ollama_takes_it(http: httpx.Client) -> None:
    answer = {"role": "tool", "content": "sunny"}
    messages = [ASK, answer, {**answer, "tool_call_id": "gone"}, {**answer, "tool_name": "gone"}]
    body = {"messages": messages, "options": {"num_predict": 1}, "stream": False}
    assert http.post("/api/chat", json=body).status_code == 200


def test_a_call_that_num_predict_cut_is_left_out_and_the_chat_goes_on(caller: Served) -> None:
    """Its arguments are no object, and Ollama's clients know nothing else."""
    body: dict[str, Any] = {"tools": [TOOL], "stream": False}
    with caller.client() as http:
        for limit in (10, 22):  # before the arguments, and in them
            body["options"] = {"num_predict": limit}
            cut = http.post("/api/chat", json={**body, "messages": [ASK]}).json()
            assert cut["done_reason"] == "length"
            assert cut["message"] == {"role": "assistant", "content": "Let me look.\n"}
        again = http.post("/api/chat", json={**body, "messages": [ASK, cut["message"], ASK]})
    assert again.status_code == 200


def test_each_call_has_a_line_of_its_own(caller: Served) -> None:
    body = {"messages": [ASK], "tools": [TOOL]}
    with caller.client() as http:
        lines = [json.loads(line) for line in http.post("/api/chat", json=body).text.splitlines()]
        whole = http.post("/api/chat", json={**body, "stream": False}).json()
    called = [line["message"]["tool_calls"] for line in lines if "tool_calls" in line["message"]]
    assert [len(calls) for calls in called] == [1, 1]
    told = [call["function"] for calls in called for call in calls]
    assert told == [
        {"index": at, "name": "get_weather", "arguments": {"city": city}}
        for at, city in enumerate(("Rome", "Oslo"))
    ]
    assert "".join(line["message"]["content"] for line in lines) == "Let me look.\n"
    assert (lines[-1]["done"], lines[-1]["done_reason"]) == (True, "stop")
    message = whole["message"]
    assert message["content"] == "Let me look.\n"
    assert [call["function"] for call in message["tool_calls"]] == told


CALLED = {"id": "a", "function": {"name": "get_weather", "arguments": {}}}
ANSWERED = [ASK, {"role": "assistant", "tool_calls": [CALLED]}]


@pytest.mark.parametrize(
    ("path", "change", "field"),
    [
        ("chat", {"options": {"num_predict": 0}}, "options.num_predict"),
        ("chat", {"options": {"repeat_penalty": 0}}, "options.repeat_penalty"),
        ("generate", {"options": {"temperature": -1}}, "options.temperature"),
        ("chat", {"options": {"stop": [""]}}, "options.stop"),
        ("chat", {"options": {"stop": ["x"] * 65}}, "options.stop"),
        ("chat", {"format": {"type": "nonsense"}}, "format"),
        ("chat", {"speculation": {"depth": 99}}, "speculation.depth"),
        ("chat", {"tools": [TOOL, TOOL]}, "tools"),
        (
            "chat",
            {"think": "bogus"},
            "think is 'bogus'; it must be a valid boolean or be 'low'",
        ),
        (
            "chat",
            {"keep_alive": "soon"},
            "keep_alive is 'soon'; it must be a valid number or be a",
        ),
        (
            "chat",
            {"messages": [*ANSWERED, {"role": "tool", "content": "", "tool_call_id": "b"}]},
            "messages[2].tool_call_id",
        ),
    ],
)
def test_errors_name_the_field_as_its_clients_know_it(
    http: httpx.Client, path: str, change: dict[str, Any], field: str
) -> None:
    """They named those of OpenAI's that mean the same: max_tokens, structured_outputs.json. Of a value's
    two types they told only the first: "it must be a valid number"."""
    reply = http.post(f"/api/{path}", json={"messages": [ASK], "prompt": "Hi", **change})
    assert reply.status_code == 400
    assert re.match(rf"{re.escape(field)}\W", reply.json()["error"]), reply.text


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/chat", {"model": "other", "messages": [ASK]}, 404),
        ("/api/chat", {"messages": [ASK], "tools": [{"type": "function"}]}, 400),
        ("/api/chat", {"messages": [ASK], "tools": [TOOL], "tool_choice": "required"}, 400),
        ("/api/chat", {"messages": [{"role": "tool", "content": 5}]}, 400),
        ("/api/generate", {"prompt": "x", "tools": [TOOL]}, 400),
        ("/api/chat", {"messages": [ASK], "format": {"type": "nonsense"}}, 400),
        ("/api/chat", {"messages": [{**ASK, "images": ["x"]}]}, 400),
        ("/api/chat", {"messages": [{"role": "oracle", "content": "x"}]}, 400),
        ("/api/chat", {"messages": [ASK], "options": {"temperature": "hot"}}, 400),
        ("/api/generate", {"prompt": "x", "options": {"num_predict": 0}}, 400),
        ("/api/show", {"model": "other"}, 404),
        ("/api/pull", {"model": "x"}, 400),
        ("/api/pull", {}, 400),
        ("/api/push", {"model": "x"}, 404),
    ],
)
def test_errors_are_one_string(
    server, http: httpx.Client, path: str, body: dict[str, Any], status: int
) -> None:
    reply = http.post(path, json=body)
    assert reply.status_code == status, reply.text
    assert set(reply.json()) == {"error"}
    assert len(reply.json()["error"]) > 10
