"""A model's chat template that loops or allocates without end fails its own request alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.app.server.conftest import Server
from tests.support.checkpoints import write_random

_ROUNDS = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"
TEMPLATE = (
    "{% set asked = messages[0].content %}"
    "{% if asked == 'loop' %}" + _ROUNDS + "{% elif asked == 'allocate' %}{{ 'A' * (10 ** 10) }}"
    "{% elif asked == 'pad' %}{{ '%1000000000d' % 1 }}{% endif %}<|user|>{{ asked }}<|assistant|>"
)
HOSTILE = "loop", "allocate", "pad"


@pytest.fixture(scope="module")
def server(start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder: Path = tmp_path_factory.mktemp("hostile")
    write_random(folder)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": TEMPLATE}))
    return start(folder)


def test_a_template_without_end_is_a_400_while_others_are_served(server: Server) -> None:
    def chat(text: str) -> httpx.Response:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 4}
        return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=120)

    asking = httpx.Client(base_url=server.url, timeout=120)
    with asking as http, ThreadPoolExecutor(len(HOSTILE)) as pool:
        refused = {text: pool.submit(chat, text) for text in HOSTILE}
        served = 0
        while not refused["loop"].done():
            assert http.get("/health").status_code == 200
            body = {"prompt": "Once", "max_tokens": 4}
            assert http.post("/v1/completions", json=body).status_code == 200
            served += 1
    assert served > 0
    for text, answer in refused.items():
        error = answer.result().json()["error"]
        assert answer.result().status_code == 400, text
        assert error["param"] == "messages" and "template was stopped" in error["message"]
    assert chat("Hello").status_code == 200
