"""A website's page that uses the API from another origin, as OpenAI's client does in a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from engine.api import LoadRequest
from tests.support.fake_engine import FakeEngine
from tests.support.serving import Served, fake_runtime, served

pytestmark = pytest.mark.browser
KEY = "a key"

FETCH = """async ({ url, method, key, body }) => {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json", "X-A": "b" };
  try {
    const reply = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part; !(part = await reader.read()).done; window.read = text) text += part.value;
    return { status: reply.status, text };
  } catch (error) { return { status: 0, text: String(error) }; }
}"""
EVENTS = """text => text.split("\\n\\n").filter(line => line.startsWith("data: {"))
  .map(line => JSON.parse(line.slice(6)).choices[0].delta.content || "").join("")"""


class Empty(BaseHTTPRequestHandler):
    """A website with nothing on it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>A website</title>")

    def log_message(self, *given: Any) -> None:
        pass


@pytest.fixture(scope="module")
def website() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def api(website: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The website is listed, in letters that no browser sends."""
    runtime = fake_runtime(Path(tmp_path_factory.mktemp("data")), FakeEngine(seconds_a_round=0.01))
    runtime.engine.load(LoadRequest(target="pip"))
    with served(runtime, key=KEY, origins=(f"{website.upper()}/",)) as running:
        yield running


def test_a_listed_website_streams_deletes_and_is_told_its_mistakes(
    browser: Any, api: Served, website: str
) -> None:
    page = browser.new_page()
    page.goto(website)

    def fetched(path: str, method: str = "POST", key: str = KEY, body: Any = None) -> Any:
        given = {"url": f"{api.url}{path}", "method": method, "key": key, "body": body}
        return page.evaluate(FETCH, given)

    words = " ".join(f"word{n}" for n in range(40))
    asked = {"messages": [{"role": "user", "content": words}]}
    engine = api.runtime.engine
    engine.held = lambda reply, number: number == 3  # until the rounds before were read
    given = {"url": f"{api.url}/v1/chat/completions", "method": "POST", "key": KEY}
    begin = f"given => {{ window.told = ({FETCH})(given); }}"
    page.evaluate(begin, given | {"body": {**asked, "stream": True}})
    page.wait_for_function("window.read?.includes('word1')")
    engine.held = lambda reply, number: False
    told = page.evaluate("window.told")
    assert told["status"] == 200
    assert page.evaluate(EVENTS, told["text"]) == words
    kept = fetched("/v1/responses", body={"input": "Hello"})
    name = page.evaluate("text => JSON.parse(text).id", kept["text"])
    assert fetched(f"/v1/responses/{name}", "DELETE")["status"] == 200
    assert fetched(f"/v1/responses/{name}", "GET")["status"] == 404
    wrong = fetched("/v1/chat/completions", key="another", body=asked)
    assert wrong["status"] == 401 and "needs its API key" in wrong["text"]
    assert fetched("/v1/chat/completions", body={})["status"] == 400
    page.goto(website.replace("127.0.0.1", "localhost"))  # another origin, which is not listed
    assert fetched("/v1/models", "GET")["status"] == 0
    assert fetched("/v1/chat/completions", body=asked)["status"] == 0
    page.close()
