"""With a key nothing of the pages is served without it; the browser keeps it where no script reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http.cookies import SimpleCookie

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.web import login
from app.web.guard import Guard
from app.web.switch import ApiSwitch

KEY = "a key & <b>"
PAGE = {"accept": "text/html"}


async def answer(request: Request) -> PlainTextResponse:
    return PlainTextResponse("private")


PUBLIC = ("/app.webmanifest", "/worker.js", "/icons/foretoken-192.png", "/health")
"""What a browser fetches without its cookies to install the page as an app; nothing of it is private."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def http(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setattr(login, "WRONG_S", 0.0)
    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    guarded = Guard(app, host="127.0.0.1", switch=ApiSwitch(api_key=KEY))
    transport = httpx.ASGITransport(app=guarded)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as client:
        yield client


pytestmark = pytest.mark.anyio
PATHS = (
    "/",
    "/config",
    "/chat/12",
    "/gradio_api/component_server",
    "/foretoken/0123456789ab/app.js",
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("cookie", ["", "foretoken-7860=wrong", "foretoken-7860=", "==;;\x01"])
async def test_without_the_key_nothing_is_served(
    http: httpx.AsyncClient, path: str, cookie: str
) -> None:
    for method in ("GET", "POST", "PUT", "OPTIONS"):
        reply = await http.request(method, path, headers={"cookie": cookie})
        assert reply.status_code == 401
        assert "private" not in reply.text
    opened = await http.get(path, headers=PAGE | {"cookie": cookie})
    assert opened.status_code == 303
    assert opened.headers["location"] == f"/login?next={path}"


async def test_what_a_browser_needs_to_install_the_page_comes_without_the_key(
    http: httpx.AsyncClient,
) -> None:
    for path in PUBLIC:
        assert (await http.get(path)).status_code == 200
    for path in ("/icons", "/worker.js/x", "/app.webmanifest2"):
        assert (await http.get(path)).status_code == 401
    assert 'rel="manifest"' in (await http.get("/login")).text


async def test_the_right_key_opens_the_page_that_was_asked_for(http: httpx.AsyncClient) -> None:
    asked = await http.get("/chat/12", headers=PAGE)
    page = await http.get(asked.headers["location"])
    assert page.status_code == 200
    assert 'value="/chat/12"' in page.text
    assert "script" not in page.headers["content-security-policy"]
    # With the app's own policy browsers send "Origin: null" with a form, which is refused.
    assert page.headers["referrer-policy"] == "same-origin"
    own = {"origin": "http://127.0.0.1:7860"}
    entered = await http.post("/login", data={"key": KEY, "next": "/chat/12"}, headers=own)
    assert (entered.status_code, entered.headers["location"]) == (303, "/chat/12")
    kept = SimpleCookie(entered.headers["set-cookie"])["foretoken-7860"]
    assert kept["httponly"]
    assert kept["samesite"] == "strict"
    assert KEY not in entered.headers["set-cookie"]
    for path in PATHS:
        assert (await http.get(path)).text == "private"


async def test_the_cookie_of_another_run_is_worth_nothing(http: httpx.AsyncClient) -> None:
    entered = await http.post("/login", data={"key": KEY})
    cookie = entered.headers["set-cookie"].split(";")[0]
    other = Guard(Starlette(), host="127.0.0.1", switch=ApiSwitch(api_key=KEY))
    transport = httpx.ASGITransport(app=other)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as client:
        assert (await client.get("/", headers={"cookie": cookie})).status_code == 401


async def test_odd_cookies_of_other_apps_on_this_host_log_nobody_out(
    http: httpx.AsyncClient,
) -> None:
    """Behind one with a name that no cookie may have, ours was not found: the key was asked for again."""
    entered = await http.post("/login", data={"key": KEY})
    ours = entered.headers["set-cookie"].split(";")[0]
    http.cookies.clear()
    for cookie in (f'{{"a": 1}}=2; {ours}', f"x y; {ours}; =z"):
        assert (await http.get("/", headers={"cookie": cookie})).text == "private"


@pytest.mark.parametrize("key", ["", "wrong", KEY + "x", "\x00"])
async def test_a_wrong_key_is_said_and_sets_nothing(http: httpx.AsyncClient, key: str) -> None:
    reply = await http.post("/login", data={"key": key, "next": '"><script>'})
    assert reply.status_code == 401
    assert "Wrong key" in reply.text
    assert "<script>" not in reply.text
    assert "set-cookie" not in reply.headers


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil",
        "/a\r\nb",
        "",
        "/login",
    ],
)
async def test_the_key_leads_to_no_other_server(http: httpx.AsyncClient, elsewhere: str) -> None:
    entered = await http.post("/login", data={"key": KEY, "next": elsewhere})
    assert entered.headers["location"] == "/"


async def test_another_websites_page_cannot_send_the_form(http: httpx.AsyncClient) -> None:
    reply = await http.post("/login", data={"key": KEY}, headers={"origin": "https://evil.example"})
    assert reply.status_code == 403


async def test_a_form_without_end_is_refused(http: httpx.AsyncClient) -> None:
    assert (await http.post("/login", content=b"key=" + b"x" * 10_000)).status_code == 413


async def test_programs_may_send_the_key_itself(http: httpx.AsyncClient) -> None:
    reply = await http.get("/config", headers={"authorization": f"Bearer {KEY}"})
    assert reply.text == "private"


async def test_whether_it_is_up_may_be_field_missing(http: httpx.AsyncClient) -> None:
    assert (await http.get("/health")).status_code == 200
