"""Images in the APIs: what the engine gets of them, what they count, and what is refused."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from openai import OpenAI

from app.server.requests import image_at
from engine.events import Prefilled
from engine.request import Request, Speculation
from engine.values.messages import Image, Message
from tests.app.server.conftest import Server
from tests.support.seeing import picture, write_seeing

FILE = picture()
ENCODED = base64.b64encode(FILE).decode()
URL = f"data:image/png;base64,{ENCODED}"
TOKENS = 12
"""Of the picture."""


@pytest.fixture(scope="module")
def seeing(start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("models") / "seeing"
    write_seeing(folder)
    return start(folder)


@pytest.fixture
def http(seeing: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=seeing.url, timeout=60) as client:
        yield client


def with_image(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": list(parts)}]


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_openais_client_sends_one(seeing: Server) -> None:
    """The model sees it, its tokens count, and another image gives other words."""
    words = []
    with OpenAI(base_url=f"{seeing.url}/v1", api_key="unused", max_retries=0) as client:
        for file in (FILE, picture(seed=2), FILE):
            url = f"data:image/png;base64,{base64.b64encode(file).decode()}"
            reply = client.chat.completions.create(
                model=seeing.model,
                messages=with_image(
                    text("Look:"), {"type": "image_url", "image_url": {"url": url}}, text("What?")
                ),
                max_tokens=12,
                extra_body={"ignore_eos": True},
            )
            words.append(reply.choices[0].message.content)
        plain = client.chat.completions.create(
            model=seeing.model, messages=with_image(text("Look:What?")), max_tokens=1
        )
        shown = client.models.retrieve(seeing.model)
    assert words[0] == words[2] != words[1]
    assert reply.usage is not None and plain.usage is not None
    marks = 2  # before and after an image
    assert reply.usage.prompt_tokens == plain.usage.prompt_tokens + TOKENS + marks
    assert shown.model_extra is not None
    assert shown.model_extra["input_modalities"] == ["text", "image"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v1/responses",
            {"input": with_image({"type": "input_image", "image_url": URL}, text("What?"))},
        ),
        ("/api/chat", {"messages": [{"role": "user", "content": "What?", "images": [ENCODED]}]}),
        ("/api/generate", {"prompt": "What?", "images": [ENCODED]}),
    ],
)
def test_the_other_apis_take_it_too(
    http: httpx.Client, seeing: Server, path: str, body: dict[str, Any]
) -> None:
    answer = http.post(path, json={"stream": False, **body})
    assert answer.status_code == 200, answer.text
    counted = answer.json().get("prompt_eval_count") or answer.json()["usage"]["input_tokens"]
    message = Message("user", "What?", images=(Image(FILE),))
    request = Request(messages=(message,), speculation=Speculation(proposer="none"), max_tokens=1)
    assert counted == next(e.tokens for e in seeing.direct(request) if isinstance(e, Prefilled))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://example.com/a.png", "messages[0].content[0].image_url: send images as data URLs"),
        ("data:image/png;base64,%%%", "messages[0].content[0].image_url is not base64."),
        ("data:image/png;base64,", "messages[0].content[0].image_url is empty."),
        (
            f"data:image/png;base64,{base64.b64encode(FILE[:200]).decode()}",
            "The image is damaged and cannot be read",
        ),
        (
            f"data:image/png;base64,{base64.b64encode(b'%PDF-1.7 and so on').decode()}",
            "The image is not a PNG, JPEG, WebP or GIF file.",
        ),
    ],
)
def test_what_is_no_image_is_refused(http: httpx.Client, url: str, message: str) -> None:
    body = {"messages": with_image({"type": "image_url", "image_url": {"url": url}})}
    answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(message), answer.text


def test_a_model_of_text_alone_says_so(paired: Server) -> None:
    with httpx.Client(base_url=paired.url, timeout=60) as client:
        body = {"messages": with_image({"type": "image_url", "image_url": {"url": URL}})}
        answer = client.post("/v1/chat/completions", json=body)
        shown = client.get("/v1/models").json()["data"][0]
    assert answer.status_code == 400
    assert "cannot see images: it was made for text alone." in answer.json()["error"]["message"]
    assert shown["input_modalities"] == ["text"]


@pytest.mark.parametrize(
    "head", ["data:;base64,", "DATA:image/PNG;Base64,", "data:a/b;c=d;base64,"]
)
def test_the_address_of_an_image_may_be_written_in_other_ways(head: str) -> None:
    assert image_at(head + ENCODED, "x") == FILE
