"""What clients get wrong, and what they are told: OpenAI's four keys, and the field's name."""

from __future__ import annotations

import gc
import json
from types import TracebackType
from typing import Any

import httpx
import pytest
from openai import AuthenticationError, BadRequestError, NotFoundError, OpenAI

from app.server.errors import ApiError
from app.server.fields.schemas import ChatBody, parse

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASK = {"messages": [{"role": "user", "content": "Hello"}]}


def error_of(reply: httpx.Response, status: int = 400) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    body = reply.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return body["error"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 1.1),
        ("top_k", -2),
        ("min_p", 1),
        ("repetition_penalty", 0),
        ("presence_penalty", 3),
        ("frequency_penalty", -3),
        ("seed", 2**64),
        ("seed", 1.5),
        ("max_tokens", 0),
        ("max_tokens", -2),
        ("max_tokens", "many"),
        ("max_completion_tokens", 0),
        ("n", 0),
        ("n", 129),
        ("stop", ""),
        ("stop", 3),
        ("stop", ["x"] * 65),
        ("stop", "x" * 1025),
        ("messages", [{"role": "user", "content": "Hi"}] * 4097),
        ("stream", "yes"),
        ("logit_bias", {"5": 101}),
        ("logit_bias", {"-1": 1}),
        ("top_logprobs", 3),
        ("prediction", "Once"),
        ("stream_options", True),
        ("proposer", "psychic"),
        ("depth", 0),
        ("depth", 99),
        ("controller", "lucky"),
        ("acceptance", "lenient"),
        ("messages", "Hello"),
    ],
)
def test_a_wrong_value_is_a_400_that_names_the_field(
    server, http: httpx.Client, field: str, value: object
) -> None:
    error = error_of(http.post(CHAT, json={**ASK, field: value}))
    assert error["param"] == field
    assert field in error["message"]
    assert error["type"] == "invalid_request_error"
    assert not server.recorder.traces


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"messages": []}, "messages is []; it must have at least 1 item."),
        ({"stop": 3}, "stop is 3; it must be a string or a list of strings."),
        ({"n": 0}, "n is 0; it must be at least 1."),
        ({"stream_options": True}, "stream_options is true; it must be an object."),
        ({"speculation": {"depht": 3}}, "speculation.depht is 3; there is no such field."),
        ({"top_k": "all"}, "top_k is 'all'; it must be a valid integer."),
    ],
)
def test_what_is_wrong_with_a_value_is_a_sentence_of_its_own(
    server, http: httpx.Client, change: dict[str, Any], message: str
) -> None:
    """Pydantic's words came through: "list should have at least 1 item after validation, not 0"."""
    assert error_of(http.post(CHAT, json={**ASK, **change}))["message"] == message


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        (
            {"messages": [{"role": "tool", "content": "sunny", "tool_call_id": "1"}]},
            "messages[0].tool_call_id",
        ),
        ({"messages": [{"role": "tool", "content": "sunny"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].image_url",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
        ),
        (
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}]},
            "messages[0].tool_calls[0].function",
        ),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"stop": ["a", 3]}, "stop[1]"),
        ({"speculation": {"depht": 3}}, "speculation.depht"),
        ({"speculation": {"depth": 16}}, "speculation.depth"),
        ({"speculation": {"proposer": "psychic"}}, "speculation.proposer"),
        (
            {"speculation": {"proposer": "ngram", "options": {"prompt_lookup_min": 0}}},
            "speculation.options",
        ),
        (
            {"speculation": {"proposer": "ngram", "options": {"unheard_of": 1}}},
            "speculation.options",
        ),
        ({"depth": 3, "speculation": {"depth": 4}}, "speculation.depth"),
    ],
)
def test_a_mistake_further_inside_is_named_by_its_place(
    server, http: httpx.Client, change: dict[str, Any], param: str
) -> None:
    assert error_of(http.post(CHAT, json={**ASK, **change}))["param"] == param


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("functions", [{"name": "f"}]),
        ("modalities", ["text", "audio"]),
        ("grammar", "root ::= [0-9]+"),
    ],
)
def test_what_would_change_the_reply_is_refused_not_ignored(
    server, http: httpx.Client, field: str, value: object
) -> None:
    error = error_of(http.post(CHAT, json={**ASK, field: value}))
    assert error["param"] == field
    assert error["code"] == "unsupported_value"
    assert "does not support" in error["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b'"text"',
        b"null",
        b"\xff\xfe{}",
        b'{"messages": "\\ud800"}',
        pytest.param(b'{"prompt": "Hi", "x": ' + b"[" * 100_000, id="deep"),
    ],
)
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_a_body_that_is_no_json_object_is_a_400(
    server, http: httpx.Client, path: str, body: bytes
) -> None:
    assert error_of(http.post(path, content=body))["code"] in ("invalid_json", "invalid_value")


def test_a_body_without_a_content_type_is_read_all_the_same(server, http: httpx.Client) -> None:
    body = b'{"prompt": "Once", "max_tokens": 2}'
    form = {"content-type": "application/x-www-form-urlencoded"}  # what curl -d sends
    assert http.post(TEXT, content=body, headers=form).status_code == 200


def test_a_number_too_long_for_python_is_a_400_where_nothing_reads_it_too(
    server, http: httpx.Client
) -> None:
    body = b'{"prompt": "Hi", "max_tokens": 1, "unknown": ' + b"9" * 5000 + b"}"
    assert error_of(http.post(TEXT, content=body))["code"] == "invalid_json"


def test_a_body_of_megabytes_is_refused(server, http: httpx.Client) -> None:
    error = error_of(http.post(TEXT, content=b" " * (17 * 2**20)), 413)
    assert error["code"] == "too_large"


@pytest.mark.parametrize(
    "value", [b"[" + b"[]," * 140_000 + b"[]]", b"[" + b"1," * 2_300_000 + b"1]", b'"\\"' * 99_999]
)
def test_a_body_of_countless_values_is_refused_before_it_is_read(
    server, http: httpx.Client, value: bytes
) -> None:
    """To read 15 MiB of empty lists took 25 seconds on a busy machine, and nobody was answered in 11."""
    error = error_of(
        http.post(TEXT, content=b'{"prompt": "Hi", "more": ' + value + b"}"),
        413 if value.startswith(b"[") else 400,
    )
    assert error["code"] == ("too_large" if value.startswith(b"[") else "invalid_json")
    text = "[" * 200_000 + ',"\\' * 800_000
    error = error_of(http.post(TEXT, json={"prompt": text, "max_tokens": 1}))
    assert error["code"] == "context_length_exceeded"


def test_a_refused_body_is_let_go_at_once(server, http: httpx.Client) -> None:
    """Its error's frames held it in a circle until a collection: hundreds of megabytes of bodies."""
    gc.collect()
    gc.disable()
    try:
        body = {"messages": [{"role": "user", "content": "x " * 100_000}]}
        assert error_of(http.post(CHAT, json=body))["code"] == "context_length_exceeded"
        held = [each for each in gc.get_objects() if isinstance(each, TracebackType)]
        assert not [each for each in held if each.tb_frame.f_code.co_name == "encode_request"]
    finally:
        gc.enable()


def test_a_prompt_longer_than_the_context_says_by_how_much(server, http: httpx.Client) -> None:
    long = "word " * 5000
    for path, body, param in (
        (CHAT, {"messages": [{"role": "user", "content": long}]}, "messages"),
        (TEXT, {"prompt": long}, "prompt"),
        (TEXT, {"prompt": ["short", long]}, "prompt"),
    ):
        error = error_of(http.post(path, json={**body, "stream": True}))
        assert error["code"] == "context_length_exceeded"
        assert error["param"] == param
        assert "Shorten it by" in error["message"]
    assert server.idle()


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": [1, "two"]}, "prompt"),
        ({"prompt": [10**9]}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": ["a"] * 65, "n": 2}, "n"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "echo": True}, "echo"),
        ({"prompt": "a", "suffix": "z"}, "suffix"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
        ({"prompt": "a", "chat_template": "{{ messages }}"}, "chat_template"),
        (
            {"prompt": "a", "chat_template_kwargs": {"enable_thinking": False}},
            "chat_template_kwargs",
        ),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
    ],
)
def test_text_completions_name_the_field_too(
    server, http: httpx.Client, body: dict[str, Any], param: str
) -> None:
    assert error_of(http.post(TEXT, json=body))["param"] == param


@pytest.mark.parametrize(
    "change",
    [
        {"model": "x" * 1_000_000},
        {"structured_outputs": {"k" * 1_000_000: 1}},
        {"speculation": {"proposer": "y" * 1_000_000}},
    ],
    ids=["model", "a field's name", "proposer"],
)
def test_an_answer_does_not_repeat_megabytes(
    server, http: httpx.Client, change: dict[str, Any]
) -> None:
    answer = http.post(CHAT, json={**ASK, **change})
    assert 400 <= answer.status_code < 500 and len(answer.content) < 4_000
    assert answer.json()["error"]["message"].endswith(".")


def test_the_openai_package_raises_its_own_errors(server, client: OpenAI) -> None:
    ask = {"model": server.model, **ASK}
    with pytest.raises(BadRequestError) as bad:
        client.chat.completions.create(**ask, temperature=-1)
    assert bad.value.param == "temperature"
    with pytest.raises(NotFoundError) as missing:
        client.chat.completions.create(**{**ask, "model": "gpt-4o"})
    assert missing.value.code == "model_not_found"
    assert server.model in missing.value.message


def test_a_draft_that_is_not_there_cannot_be_asked_for(alone) -> None:
    with httpx.Client(base_url=alone.url, timeout=60) as http:
        error = error_of(http.post(TEXT, json={"prompt": "Once", "proposer": "draft"}))
    assert error["param"] == "proposer"
    assert "ngram" in error["message"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/v1/moderations", "/v1", "/v1/", "/v1/chat/completions/x"])
def test_endpoints_that_do_not_exist_are_a_404_in_openais_form(
    server, http: httpx.Client, method: str, path: str
) -> None:
    assert error_of(http.request(method, path), 404)["code"] == "unknown_endpoint"


@pytest.mark.parametrize("method", ["TRACE", "PROPFIND", "GET", "POST", "DELETE", "OPTIONS"])
def test_a_method_that_a_path_does_not_have_is_a_405_that_names_those_it_has(
    server, http: httpx.Client, method: str
) -> None:
    """It was {"detail": "Method Not Allowed"}, then a 404."""
    for path, allowed in (
        (CHAT, "POST"),
        ("/v1/models", "GET, HEAD"),
        ("/v1/responses/x", "DELETE, GET, HEAD"),
        ("/api/chat", "POST"),
        ("/health", "GET, HEAD"),
        ("/metrics", "GET, HEAD"),
    ):
        if method in allowed.split(", "):
            continue
        answer = http.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        error = answer.json()["error"]
        if path == "/api/chat":
            assert f"only {allowed}" in error
        else:
            assert error["code"] == "method_not_allowed" and f"only {allowed}" in error["message"]


def test_getting_what_must_be_posted_names_the_endpoints(server, http: httpx.Client) -> None:
    said = error_of(http.get(CHAT), 405)["message"]
    assert "POST /v1/chat/completions" in said and "/v1/rerank" in said


def test_switched_off_every_path_is_a_404_that_says_where_the_switch_is(
    server, http: httpx.Client
) -> None:
    server.switch.set(False)
    try:
        for method, path in (
            ("GET", "/v1/models"),
            ("GET", f"/v1/models/{server.model}"),
            ("POST", CHAT),
            ("POST", TEXT),
            ("GET", "/v1"),
            ("GET", "/v1/anything"),
            ("POST", "/v1/responses"),
            ("GET", "/health"),
            ("GET", "/metrics"),
        ):
            error = error_of(http.request(method, path, content=b"{"), 404)
            assert error["code"] == "api_off"
            assert "Server page" in error["message"]
    finally:
        server.switch.set(True)
    assert http.get("/v1/models").status_code == 200


def test_without_a_model_clients_are_asked_to_come_back(empty) -> None:
    with httpx.Client(base_url=empty.url, timeout=60) as http:
        for path, body in ((CHAT, ASK), (TEXT, {"prompt": "Once"})):
            reply = http.post(path, json=body)
            assert error_of(reply, 503)["code"] == "model_not_loaded"
            assert int(reply.headers["retry-after"]) >= 1
        assert http.get("/v1/models").json()["data"] == []
        assert error_of(http.get("/health"), 503)["code"] == "model_not_loaded"


def test_a_key_is_asked_for_where_one_is_set(start) -> None:
    guarded = start(key="a-secret")
    with OpenAI(base_url=f"{guarded.url}/v1", api_key="wrong", max_retries=0) as client:
        with pytest.raises(AuthenticationError) as caught:
            client.models.list()
        assert caught.value.code == "invalid_api_key"
    with OpenAI(base_url=f"{guarded.url}/v1", api_key="a-secret", max_retries=0) as client:
        assert client.models.list().data == []
    with httpx.Client(base_url=guarded.url, timeout=60) as http:
        for method, path in (("POST", CHAT), ("GET", "/v1/nothing")):
            error_of(http.request(method, path), 401)


def test_other_websites_get_in_only_if_they_are_listed(start, server, http: httpx.Client) -> None:
    origin = {"origin": "https://pages.example"}
    said = error_of(http.post(CHAT, json=ASK, headers=origin), 403)["message"]
    assert "--allow-origin https://pages.example" in said
    assert "Server page" not in said  # it has none
    assert "access-control-allow-origin" not in http.get("/v1/models", headers=origin).headers
    listed = start(origins=("https://pages.example",))
    with httpx.Client(base_url=listed.url, timeout=60) as other:
        reply = other.get("/v1/models", headers=origin)
        assert reply.headers["access-control-allow-origin"] == "https://pages.example"
        asked = {**origin, "access-control-request-method": "POST"}
        assert other.options(CHAT, headers=asked).status_code == 200


IMAGE = "messages[0].content[0].image_url"


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ({"url": None}, f"{IMAGE}.url is null; it must be a valid string."),
        ({}, f"{IMAGE}.url is missing."),
        (5, f"{IMAGE} is 5; it must be a valid string or be an object."),
    ],
)
def test_a_field_with_two_forms_is_explained_by_the_one_that_was_meant(
    image: Any, message: str
) -> None:
    part = {"type": "image_url", "image_url": image}
    raw = json.dumps({"messages": [{"role": "user", "content": [part]}]}).encode()
    with pytest.raises(ApiError) as refused:
        parse(ChatBody, raw)
    assert refused.value.message == message


def test_null_and_depth_are_named() -> None:
    """Null was called "missing", and a valid body of many levels "not valid JSON"."""
    with pytest.raises(ApiError, match=r"stop\[0\] is null; it must be"):
        parse(ChatBody, b'{"messages": [{"role": "user", "content": "Hi"}], "stop": [null]}')
    deep = b'{"messages": ' + b"[" * 1000 + b"]" * 1000 + b"}"
    with pytest.raises(ApiError, match="nested too deeply: it may have at most 200 lists"):
        parse(ChatBody, deep)
