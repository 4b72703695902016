"""Programs: ``llm`` and curl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def run(*command: str, **variables: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def llm(tmp_path: Path, base: str, model: str) -> str:
    """Where the program finds this server."""
    pytest.importorskip("llm")
    entry = f"""\
- model_id: here
  model_name: {model}
  api_base: {base}
  supports_tools: true
  supports_schema: true
"""
    (tmp_path / "extra-openai-models.yaml").write_text(entry)
    (tmp_path / "keys.json").write_text('{"openai": "unused"}')
    return str(tmp_path)


def test_llm_answers_with_and_without_a_stream(llm: str) -> None:
    command = (
        sys.executable,
        "-m",
        "llm",
        "-m",
        "here",
        "Tell me a tale.",
        "-o",
        "max_tokens",
        "20",
    )
    streamed = run(*command, "-o", "temperature", "0", LLM_USER_PATH=llm)
    assert streamed.strip()
    assert run(*command, "-o", "temperature", "0", "--no-stream", LLM_USER_PATH=llm) == streamed


def test_llm_answers_by_a_schema(llm: str) -> None:
    command = (sys.executable, "-m", "llm", "-m", "here", "Invent a dog.", "--no-stream")
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"enum": [1, 2, 3]}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    said = run(*command, "--schema", json.dumps(schema), LLM_USER_PATH=llm)
    assert json.loads(said)["age"] in (1, 2, 3)


CURL = shutil.which("curl")


@pytest.mark.skipif(CURL is None, reason="curl is not here")
def test_curl_streams_by_the_words_of_the_documentation(base: str) -> None:
    body = {
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "max_tokens": 8,
        "stream_options": {"include_usage": True},
    }
    url = f"{base}/chat/completions"
    out = run(CURL or "", "-sN", "-D", "-", url, "-d", json.dumps(body))
    head, _, events = out.partition("\r\n\r\n") if "\r\n\r\n" in out else out.partition("\n\n")
    assert "200" in head.splitlines()[0] and "text/event-stream" in head
    *data, done = [line for line in events.splitlines() if line.startswith("data: ")]
    assert done == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in data]
    assert chunks[-1]["usage"]["completion_tokens"] <= 8 and not chunks[-1]["choices"]


@pytest.mark.skipif(CURL is None, reason="curl is not here")
def test_curl_is_told_of_a_body_before_it_sends_it(base: str, tmp_path: Path) -> None:
    """With ``Expect: 100-continue``, which it sends by itself before large bodies."""
    file = tmp_path / "body.json"
    file.write_text(json.dumps({"prompt": "x " * 2**20, "max_tokens": 1}))
    out = run(CURL or "", "-s", "-w", "\n%{http_code}", f"{base}/completions", "-d", f"@{file}")
    text, _, status = out.rpartition("\n")
    assert status == "400"
    assert json.loads(text)["error"]["code"] == "context_length_exceeded"
