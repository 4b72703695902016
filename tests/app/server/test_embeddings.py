"""Embeddings and ranks of small random models, held to what transformers computes."""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from openai import BadRequestError, OpenAI
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer
from transformers import AutoModel, AutoModelForCausalLM

from app.server.embeddings import _AFTER, _BEFORE, INSTRUCTION
from engine.api import LoadRequest
from tests.app.server.conftest import Server
from tests.support.checkpoints import LLAMA, write_random
from tests.support.fake_engine import FakeEngine
from tests.support.serving import fake_runtime, served

TEXTS = ["the fox sleeps under a tree", "hens", "a longer text " * 30]


def write_embedding(folder: Path, mode: str, *, prefix: bool) -> Path:
    """A random model with sentence-transformers' files. ``prefix``: its tensors' names have it; those of
    Qwen3-Embedding do not."""
    write_random(folder, "qwen3", head_dim=16, tie_word_embeddings=True)
    if not prefix:
        file = folder / "model.safetensors"
        tensors = load_file(file)
        save_file(
            {name.removeprefix("model."): value for name, value in tensors.items()},
            file,
            {"format": "pt"},
        )
    (folder / "modules.json").write_text("[]")
    (folder / "1_Pooling").mkdir()
    modes = {"pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": False, mode: True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    return folder


def expected(folder: Path, tokens: list[int], mode: str) -> torch.Tensor:
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        states = model(torch.tensor([tokens])).last_hidden_state[0]
    vector = states[-1] if mode == "pooling_mode_lasttoken" else states.mean(0)
    return torch.nn.functional.normalize(vector, dim=0)


@pytest.mark.parametrize(
    ("mode", "prefix"),
    [("pooling_mode_lasttoken", False), ("pooling_mode_mean_tokens", True)],
)
def test_vectors_are_those_of_transformers(
    start: Callable[..., Server], tmp_path: Path, mode: str, prefix: bool
) -> None:
    folder = write_embedding(tmp_path / "embedding", mode, prefix=prefix)
    server = start(folder)
    tokenizer = server.runtime.engine.tokenizer
    with OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:
        reply = client.embeddings.create(model=server.model, input=TEXTS)  # base64
        plain = client.embeddings.create(model=server.model, input=TEXTS, encoding_format="float")
        ids = [list(tokenizer.encode(text, special=True)) for text in TEXTS]
        of_ids = client.embeddings.create(model=server.model, input=ids)
        cut = client.embeddings.create(model=server.model, input=TEXTS[0], dimensions=8)
        with pytest.raises(BadRequestError, match="dimensions is 9999"):
            client.embeddings.create(model=server.model, input="a", dimensions=9999)
        with pytest.raises(BadRequestError, match="input is empty"):
            client.embeddings.create(model=server.model, input="")
        for count, said in ((60_000, "The text is more than twice"), (5000, "The text has")):
            with pytest.raises(BadRequestError, match=said) as long:
                client.embeddings.create(model=server.model, input="word " * count)
            assert long.value.param == "input" and "reply" not in str(long.value)
    assert reply.usage.prompt_tokens == sum(map(len, ids))
    for at, tokens in enumerate(ids):
        own = expected(folder, tokens, mode)
        found = torch.tensor(reply.data[at].embedding)
        assert torch.allclose(found, own, atol=2e-5), mode
        assert torch.allclose(found, torch.tensor(plain.data[at].embedding), atol=1e-6)
        assert found.tolist() == of_ids.data[at].embedding
    first = torch.nn.functional.normalize(expected(folder, ids[0], mode)[:8], dim=0)
    assert torch.allclose(torch.tensor(cut.data[0].embedding), first, atol=2e-5)
    with httpx.Client(base_url=server.url, timeout=60) as http:
        body = {"model": server.model, "input": [*TEXTS, "word " * 5000]}
        answer = http.post("/api/embed", json=body).json()
        assert (
            answer["prompt_eval_count"] == sum(map(len, ids)) + server.runtime.engine.loaded.context
        )
        assert torch.allclose(
            torch.tensor(answer["embeddings"][:3]),
            torch.tensor([one.embedding for one in plain.data]),
            atol=1e-6,
        )
        assert http.post("/api/embed", json={**body, "truncate": False}).status_code == 400
        older = http.post("/api/embeddings", json={"prompt": TEXTS[1]}).json()
        assert older["embedding"] == answer["embeddings"][1]
        assert http.post("/api/embed", json={}).json()["embeddings"] == []
        shown = http.post("/api/show", json={"model": server.model}).json()
        assert shown["capabilities"] == ["embedding"]


@pytest.fixture(scope="module")
def reranker(
    start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Server, Path]:
    folder = tmp_path_factory.mktemp("models") / "Qwen3-Reranker-tiny"
    words = ["<|im_start|>", "<|im_end|>", "yes", "no"]
    size = LLAMA["vocab_size"] + len(words)
    write_random(folder, "qwen3", head_dim=16, vocab_size=size, max_position_embeddings=2048)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(word, normalized=False) for word in words[:2]])
    tokenizer.add_tokens(words[2:])
    tokenizer.save(str(folder / "tokenizer.json"))
    return start(folder), folder


@pytest.fixture
def http(reranker: tuple[Server, Path]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=reranker[0].url, timeout=60) as client:
        yield client


def test_ranks_are_those_of_the_models_card(
    reranker: tuple[Server, Path], http: httpx.Client
) -> None:
    server, folder = reranker
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def score(document: str) -> float:
        asked = f"<Instruct>: {INSTRUCTION}\n<Query>: foxes\n<Document>: {document}"
        ids = [
            token
            for part in (_BEFORE, asked, _AFTER)
            for token in tokenizer.encode(part, add_special_tokens=False).ids
        ]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        pair = logits[[tokenizer.token_to_id("no"), tokenizer.token_to_id("yes")]]
        return float(pair.softmax(0)[1])

    body = {"query": "foxes", "documents": [*TEXTS[:2], {"text": TEXTS[2]}]}
    answer = http.post("/v1/rerank", json=body).json()
    own = [score(text) for text in TEXTS]
    for result in answer["results"]:
        assert math.isclose(result["relevance_score"], own[result["index"]], abs_tol=1e-4)
    order = [result["index"] for result in answer["results"]]
    assert order == sorted(range(3), key=lambda at: -own[at])
    first = http.post("/v1/rerank", json={**body, "top_n": 1, "return_documents": True}).json()
    (only,) = first["results"]
    assert (only["index"], only["document"]["text"]) == (order[0], TEXTS[order[0]])
    long = {"query": "foxes", "documents": ["hen " * 1500]}
    context = server.runtime.engine.loaded.context
    assert http.post("/v1/rerank", json=long).json()["usage"]["prompt_tokens"] == context
    for path in ("/v1/reranking", "/rerank", "/reranking"):  # llama.cpp's other names
        assert http.post(path, json=body).json()["results"] == answer["results"]
    refused = http.post(
        "/v1/rerank", json={**long, "query": "hen " * 1500}
    )  # scored without a document
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "query")
    # A document cannot end its own place in the prompt.
    tricky = {"query": "foxes", "documents": ["<|im_end|>"]}
    count = http.post("/v1/rerank", json=tricky).json()["usage"]["prompt_tokens"]
    plain = len(tokenizer.encode("<|im_end|>", add_special_tokens=False).ids)
    assert plain == 1 and count > plain + len(tokenizer.encode(_BEFORE + _AFTER).ids) + 20


class _Blocked(FakeEngine):
    """Embeds token ids once ``go_on`` is set, and counts how many calls wait for it at once, at most."""

    tokenizer: Any = "not read for ids"

    def __init__(self) -> None:
        super().__init__()
        self.go_on, self.called = threading.Event(), threading.Event()
        self.inside = self.most = 0

    def embed(self, tokens: Sequence[int]) -> tuple[float, ...]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.called.set()
        assert self.go_on.wait(60)
        self.inside -= 1
        return (1.0,)


def test_a_client_that_leaves_does_not_free_the_turn_of_its_thread(tmp_path: Path) -> None:
    """Each took a thread that waited in the engine, until the server had none left."""
    engine, body = _Blocked(), {"input": [[1]]}
    runtime = fake_runtime(tmp_path, engine)
    engine.load(LoadRequest(target="pip"))
    with served(runtime) as running, running.client() as http:
        with socket.create_connection(("127.0.0.1", running.port)) as first:
            asked = http.build_request("POST", "/v1/embeddings", json=body)
            head = "".join(f"{name}: {value}\r\n" for name, value in asked.headers.items())
            first.sendall(f"POST /v1/embeddings HTTP/1.1\r\n{head}\r\n".encode() + asked.content)
            assert engine.called.wait(60)  # and it leaves
        for _ in range(4):
            with pytest.raises(httpx.ReadTimeout):
                http.post("/v1/embeddings", json=body, timeout=0.3)
        engine.go_on.set()
        assert http.post("/v1/embeddings", json=body).status_code == 200
    assert engine.most == 1


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v1/embeddings", {"input": "a"}, "Qwen3-Embedding"),
        ("/api/embed", {"input": "a"}, "Qwen3-Embedding"),
        ("/v1/rerank", {"query": "a", "documents": ["b"]}, "Qwen3-Reranker"),
        ("/v1/embeddings", {"input": []}, "input is"),
        ("/v1/embeddings", {"input": ["a"] * 2049}, "input"),
        ("/v1/rerank", {"query": "a"}, "documents is missing"),
        ("/api/embed", {"input": 5}, "input is 5"),
    ],
)
def test_other_models_and_mistakes_are_refused_by_name(
    server: Server, path: str, body: dict[str, Any], said: str
) -> None:
    answer = httpx.post(server.url + path, json=body, timeout=60)
    assert answer.status_code == 400
    assert said in answer.text
