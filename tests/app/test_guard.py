"""Which requests reach the app, and which are turned away."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.web.guard import Guard
from app.web.switch import ApiSwitch


async def answer(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.method} {request.url.path}")


def client(
    host: str = "127.0.0.1", origins: tuple[str, ...] = (), key: str | None = None
) -> httpx.AsyncClient:
    routes = [Route("/{path:path}", answer, methods=["GET", "POST"])]
    switch = ApiSwitch(api_key=key, origins=origins)
    app = Guard(Starlette(routes=routes), host=host, switch=switch)
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860")


async def send(method: str, path: str = "/", **options: object) -> httpx.Response:
    headers = options.pop("headers", {})
    async with client(**options) as http:  # type: ignore[arg-type]
        return await http.request(method, path, headers=headers)  # type: ignore[arg-type]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("host", ["localhost:7860", "127.0.0.1", "[::1]:7860", "LOCALHOST"])
async def test_names_of_this_machine_are_served(host: str) -> None:
    assert (await send("GET", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "10.0.0.1", "", "[", ":"]
)
async def test_other_names_are_refused_against_dns_rebinding(host: str) -> None:
    reply = await send("GET", headers={"host": host})
    assert reply.status_code == 403
    assert "localhost" in reply.text


async def test_beyond_loopback_any_address_will_do_but_no_foreign_name() -> None:
    assert (await send("GET", host="0.0.0.0", headers={"host": "10.0.0.1:7860"})).status_code == 200
    assert (await send("GET", host="0.0.0.0", headers={"host": "evil.example"})).status_code == 403


async def test_own_pages_may_post() -> None:
    own = {"host": "localhost:7860", "origin": "http://localhost:7860"}
    assert (await send("POST", headers=own)).status_code == 200


async def test_programs_without_an_origin_may_post() -> None:
    assert (await send("POST")).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:3000", "http://127.0.0.1"]
)
async def test_pages_of_others_may_not_post(origin: str) -> None:
    reply = await send("POST", headers={"origin": origin})
    assert reply.status_code == 403
    assert "--allow-origin" in reply.text


async def test_pages_of_others_may_not_ask_the_api_anything() -> None:
    """GET /v1/models was answered, though no browser would have let the page read it."""
    foreign = {"origin": "https://evil.example"}
    for method in ("GET", "HEAD", "OPTIONS"):
        for path in ("/v1/models", "/api/tags", "/metrics"):
            assert (await send(method, path, headers=foreign)).status_code == 403
    own = {"host": "localhost:7860", "origin": "http://localhost:7860"}
    assert (await send("GET", "/v1/models", headers=own)).status_code == 200
    listed = {"origins": ("https://evil.example",)}
    assert (await send("GET", "/v1/models", headers=foreign, **listed)).status_code == 200


async def test_listed_origins_may_use_the_api_and_not_the_pages() -> None:
    options = {"origins": ("https://Friend.example/",)}
    friend = {"origin": "https://friend.example"}
    assert (await send("POST", "/v1/models", headers=friend, **options)).status_code == 200
    assert (await send("POST", "/", headers=friend, **options)).status_code == 403


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//", "\x00", "http://a]b"])
async def test_an_origin_that_is_none_is_refused_as_any_other(origin: str) -> None:
    """It once was a 500 with a traceback."""
    assert (await send("POST", headers={"origin": origin})).status_code == 403


async def test_a_path_with_a_line_end_is_no_endpoint_in_the_apis_form() -> None:
    reply = await send("GET", "/v1/models/a%0Ab")
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "unknown_endpoint"


async def test_the_api_answers_a_refusal_in_its_own_form() -> None:
    reply = await send("POST", "/v1/models", headers={"origin": "https://evil.example"})
    assert reply.json()["error"]["code"] == "origin_not_allowed"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_api_asks_for_its_key(scheme: str) -> None:
    refused = await send("GET", "/v1/models", key="secret")
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "invalid_api_key"
    for wrong in ("wrong", "secret2", "", "sécret"):
        headers = {"authorization": f"{scheme} {wrong}".encode()}
        reply = await send("GET", "/v1/models", key="secret", headers=headers)  # type: ignore[arg-type]
        assert reply.status_code == 401
    for path in ("/v1/responses/x", "/api/tags", "/metrics"):
        assert (await send("GET", path, key="secret")).status_code == 401
    told = (await send("GET", "/api/tags", key="secret")).json()["error"]
    assert "needs its API key" in told  # one string, as Ollama's clients read it
    right = {"authorization": f"{scheme} secret"}
    assert (await send("GET", "/v1/models", key="secret", headers=right)).status_code == 200


async def test_a_key_need_not_be_ascii() -> None:
    headers = {"authorization": "Bearer schlüssel".encode()}
    reply = await send("GET", "/v1/models", key="schlüssel", headers=headers)
    assert reply.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/upload",
        "/gradio_api/upload_progress",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/proxy=https://evil.example",
        "/gradio_api/vibe-edit",
        "/gradio_api/call/act",
        "/monitoring/summary",
        "/gradio_api",
    ],
)
async def test_what_no_page_uses_of_gradio_is_not_served(path: str) -> None:
    """Uploads had no bound and went into the system's folder for temporary files."""
    for method in ("GET", "POST"):
        reply = await send(method, path)
        assert reply.status_code == 404
        assert "There is nothing at" in reply.text


async def html(scope: Any, receive: Any, send: Any) -> None:
    page = b'<SCRIPT>let a = "<script>";</script>\n<script src="x.js"></script><scripture>'
    headers = [(b"content-type", b"text/html"), (b"content-length", str(len(page)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": page[:20], "more_body": True})
    await send({"type": "http.response.body", "body": page[20:]})


async def test_each_page_has_a_word_by_which_its_scripts_are_known() -> None:
    app = Guard(html, host="127.0.0.1", switch=ApiSwitch())
    words = set()
    for _ in range(2):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            reply = await http.get("/", headers={"accept": "text/html", "accept-encoding": "br"})
            asked = await http.get("/")
        policy = reply.headers["content-security-policy"]
        word = policy.split("'nonce-")[1].split("'")[0]
        words.add(word)
        named = f'nonce="{word}"'
        assert reply.text == (
            f'<SCRIPT {named}>let a = "<script>";</script>\n'
            f'<script {named} src="x.js"></script><scripture>'
        )
        assert int(reply.headers["content-length"]) == len(reply.content)
        for found in (policy, asked.headers["content-security-policy"]):
            allowed = dict(each.split(maxsplit=1) for each in found.split("; "))
            assert "unsafe-inline" not in allowed["script-src"]
            for kind in ("default-src", "connect-src"):  # a page sends nothing to another machine
                assert set(allowed[kind].split()) <= {"'self'", "data:", "blob:"}
        assert "nonce" not in asked.headers["content-security-policy"]
    assert len(words) == 2


async def test_every_answer_carries_the_security_headers() -> None:
    for host in ("127.0.0.1", "evil.example"):
        reply = await send("GET", headers={"host": host})
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'self'" in reply.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "headers", "form"),
    [
        ("/v1/models", {}, "openai"),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, "anthropic"),
        ("/v1/messages", {}, "anthropic"),
        ("/v1/messagesx", {}, "openai"),
        ("/api/tags", {}, "ollama"),
    ],
)
async def test_a_refusal_has_the_form_of_the_clients_protocol(
    path: str, headers: dict[str, str], form: str
) -> None:
    reply = await send("GET", path, key="secret", headers=headers)
    assert reply.status_code == 401
    body = reply.json()
    if form == "ollama":
        assert isinstance(body["error"], str)
    elif form == "openai":
        assert body["error"]["code"] == "invalid_api_key" and "type" not in body
    else:
        assert body["type"] == "error" and body["error"]["type"] == "authentication_error"
    assert ("request-id" in reply.headers) is (form == "anthropic")


@pytest.mark.parametrize("sent", ["secret", "wrong", ""])
async def test_the_key_may_come_in_anthropics_header(sent: str) -> None:
    for path in ("/v1/messages", "/v1/models", "/api/tags", "/metrics"):
        reply = await send("GET", path, key="secret", headers={"x-api-key": sent})
        assert reply.status_code == (200 if sent == "secret" else 401)
