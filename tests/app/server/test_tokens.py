"""Tokens and templates without a reply, and code between two parts of a file."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tokenizers import AddedToken, Tokenizer

from app.server.text import _prompt
from engine.events import Finished, Started
from engine.request import Request, Speculation
from engine.values.messages import Message
from engine.values.sampling import Sampling
from tests.app.server.conftest import Server
from tests.support.checkpoints import LLAMA, write_random

ASK = [{"role": "user", "content": "Tell me a tale."}]
PLAIN = Speculation(proposer="none")
FIM = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<|repo_name|>")


def post(http: httpx.Client, path: str, **body: Any) -> Any:
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_llama_cpps_form_and_vllms(server: Server, http: httpx.Client) -> None:
    tokenizer = server.runtime.engine.tokenizer
    text = "once upon a time<|end|>"
    ids = list(tokenizer.encode(text))
    assert post(http, "/tokenize", content=text) == {"tokens": ids}
    plain = post(http, "/tokenize", content=text, parse_special=False)["tokens"]
    assert plain == list(tokenizer.encode(text, control=False)) != ids
    pieces = post(http, "/tokenize", content=text, with_pieces=True)["tokens"]
    assert [one["id"] for one in pieces] == ids
    assert "".join(one["piece"] for one in pieces).strip() == text
    of_vllm = post(http, "/tokenize", prompt=text, return_token_strs=True)
    own = list(tokenizer.encode(text, special=True))
    assert (of_vllm["count"], of_vllm["tokens"]) == (len(own), own)
    assert of_vllm["max_model_len"] == server.runtime.engine.loaded.context
    assert len(of_vllm["token_strs"]) == len(own)
    back = post(http, "/detokenize", tokens=ids)
    assert back["content"] == back["prompt"] == text


def test_a_chat_is_rendered_as_a_reply_would_see_it(server: Server, http: httpx.Client) -> None:
    prompt = post(http, "/apply-template", messages=ASK)["prompt"]
    of_chat = post(http, "/tokenize", messages=ASK)
    http.post("/v1/chat/completions", json={"messages": ASK, "max_tokens": 1})
    started = next(e for e in server.recorder.traces[-1] if isinstance(e, Started))
    assert of_chat["tokens"] == list(started.prompt_tokens)
    assert server.runtime.engine.tokenizer.encode(prompt) == started.prompt_tokens
    begun = [*ASK, {"role": "assistant", "content": "Once"}]
    asked = {"messages": begun, "continue_final_message": True}
    assert post(http, "/apply-template", **asked)["prompt"] == f"{prompt}Once"


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "content"),
        ("/tokenize", {"content": 5}, "content"),
        ("/tokenize", {"content": "word " * 10**5}, "messages"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [10**9]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/apply-template", {}, "messages"),
        ("/apply-template", {"messages": [{"role": "x", "content": ""}]}, "messages[0].role"),
        ("/infill", {"input_prefix": "def"}, "model"),
    ],
)
def test_mistakes_name_the_field(
    server: Server, http: httpx.Client, path: str, body: dict[str, Any], param: str
) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    if path == "/infill":
        assert "Qwen2.5-Coder" in answer.json()["error"]["message"]


def test_they_need_the_key_and_the_switch(start: Callable[..., Server]) -> None:
    locked = start(key="secret")
    for path in ("/tokenize", "/detokenize", "/apply-template", "/infill"):
        assert httpx.post(locked.url + path, json={}).status_code == 401
        assert httpx.get(locked.url + path, headers={"x-api-key": "secret"}).status_code == 405
    off = start(on=False)
    answer = httpx.post(off.url + "/tokenize", json={"content": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "api_off")


@pytest.fixture(scope="module")
def coder(start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A random model with Qwen2.5-Coder's tokens."""
    folder = tmp_path_factory.mktemp("models") / "coder"
    write_random(folder, vocab_size=LLAMA["vocab_size"] + len(FIM))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in FIM])
    tokenizer.save(str(folder / "tokenizer.json"))
    return start(folder)


@pytest.fixture
def code(coder: Server) -> Iterator[httpx.Client]:
    coder.recorder.clear()
    with httpx.Client(base_url=coder.url, timeout=60) as client:
        yield client


def seen_by(coder: Server) -> str:
    started = next(e for e in coder.recorder.traces[-1] if isinstance(e, Started))
    text: str = coder.runtime.engine.tokenizer.decode(started.prompt_tokens)
    return text


def test_an_infill_is_prompted_as_the_model_was_trained(coder: Server, code: httpx.Client) -> None:
    body = {
        "input_prefix": "def f(x):\n",
        "prompt": "    return ",
        "input_suffix": "\nprint(f(1))",
        "n_predict": 6,
        "seed": 3,
        "temperature": 0.7,
    }
    whole = post(code, "/infill", **body)
    core = "<|fim_prefix|>def f(x):\n    return <|fim_suffix|>\nprint(f(1))<|fim_middle|>"
    assert seen_by(coder) == core
    ids = next(e for e in coder.recorder.traces[-1] if isinstance(e, Started)).prompt_tokens
    own = coder.direct(
        Request(
            token_ids=ids,
            max_tokens=6,
            sampling=Sampling(temperature=0.7, seed=3),
            speculation=PLAIN,
        )
    )[-1]
    assert isinstance(own, Finished) and whole["content"] == own.text
    assert (whole["stop"], whole["tokens_evaluated"]) == (True, len(ids))
    lines = code.post("/infill", json={**body, "stream": True}).text.split("\n\n")
    parts = [json.loads(line.removeprefix("data: ")) for line in lines if line]
    assert "".join(part["content"] for part in parts) == whole["content"]
    assert [part["stop"] for part in parts[-2:]] == [False, True]
    of_ollama = {"prompt": "def f(x):\n    return ", "suffix": "\nprint(f(1))", "stream": False}
    options = {"num_predict": 6, "seed": 3, "temperature": 0.7}
    said = post(code, "/api/generate", **of_ollama, options=options)
    assert (said["response"], seen_by(coder)) == (whole["content"], core)
    assert "insert" in post(code, "/api/show", model=coder.model)["capabilities"]
    extra = [{"filename": "a.py", "text": "A = 1\n"}, {"text": "B = 2\n"}]
    post(code, "/infill", **body, input_extra=extra)
    head = "<|repo_name|>project\n<|file_sep|>a.py\nA = 1\n<|file_sep|>tmp\nB = 2\n"
    assert seen_by(coder) == f"{head}<|file_sep|>filename\n{core}"


def test_what_does_not_fit_is_left_out_far_from_the_cursor(
    coder: Server, code: httpx.Client
) -> None:
    body = {
        "input_prefix": "x" * 10**6 + "".join(f"before{n} " for n in range(2000)),
        "input_suffix": "".join(f"after{n} " for n in range(2000)),
        "input_extra": [{"text": "far"}, {"text": "never " * 10**5}],
        "n_predict": 4,
    }
    assert post(code, "/infill", **body)["tokens_predicted"] <= 4
    text = seen_by(coder)
    assert "before1999 <|fim_suffix|>after0 " in text and text.endswith("<|fim_middle|>")
    assert "before0 " not in text and "after1999" not in text and "never" not in text


def test_tokens_of_another_file_end_a_reply(coder: Server) -> None:
    """No text shows them, so no stop string could."""
    engine = coder.runtime.engine
    ask = Request(messages=(Message("user", "a"),), max_tokens=8, speculation=PLAIN)
    first = list(engine.generate(ask))[-1]
    assert isinstance(first, Finished) and first.token_ids
    ends = replace(ask, end_tokens=first.token_ids[:1])
    assert coder.direct(ends)[-1].token_ids == first.token_ids[:1]


def test_while_an_infill_is_encoded_others_are_answered(
    coder: Server, code: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was encoded in the thread of the event loop."""
    held, release = threading.Event(), threading.Event()

    def hold(*given: Any) -> tuple[int, ...]:
        held.set()
        assert release.wait(60)
        return _prompt(*given)

    monkeypatch.setattr("app.server.text._prompt", hold)
    with ThreadPoolExecutor(1) as pool:
        infill = pool.submit(post, code, "/infill", input_prefix="def", n_predict=2)
        try:
            assert held.wait(60)
            with httpx.Client(base_url=coder.url, timeout=5) as other:
                assert other.get("/health").status_code == 200
        finally:
            release.set()
        assert infill.result(60)["tokens_predicted"] <= 2
