"""A stand-in for llama-server and vLLM that answers as they are documented to.

Run as a program. What it says comes from the environment: FAKE_TOKENS is a JSON list of ids, and
FAKE_DRAFTED the one that it says where it has a draft model. With FAKE_IK it is ik_llama.cpp's, whose
replies have text and no tokens. With FAKE_BREAKS an answer ends before its time.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

IK = "FAKE_IK" in os.environ
HELP = "--spec-type none,draft-simple,ngram-simple --spec-draft-n-max N"
if IK:
    HELP = "--spec-type SPEC[:k=v,...]"
TOKENS = json.loads(
    os.environ.get("FAKE_DRAFTED" if "--model-draft" in sys.argv else "FAKE_TOKENS")
    or "[5, 6, 7, 1]"
)


class Answers(BaseHTTPRequestHandler):
    """/health, llama-server's /completion, the OpenAI API's /v1/completions."""

    def do_GET(self) -> None:
        self._send(200, {"status": "ok"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if os.environ.get("FAKE_REFUSES"):
            self._send(500, {"error": {"code": 500, "message": "no room in the context"}})
        elif self.path == "/completion":
            self._complete(body)
        elif self.path == "/tokenize":
            self._send(200, {"tokens": [int(token) for token in body["content"].split()]})
        else:
            self._stream(body)

    def _complete(self, body: dict[str, Any]) -> None:
        assert body["temperature"] == 0
        tokens = TOKENS[: body["n_predict"]]
        if body.get("stream"):
            return self._chunks([{"content": "x", "tokens": [token]} for token in tokens])
        assert body["cache_prompt"] is False
        timings = {
            "prompt_n": len(body["prompt"]),
            "prompt_ms": 50.0,
            "predicted_n": len(tokens),
            "predicted_ms": 100.0,
        }
        said = {"content": " ".join(map(str, tokens[:-1]))} if IK else {"tokens": tokens}
        self._send(200, {**said, "timings": timings})

    def _stream(self, body: dict[str, Any]) -> None:
        assert body["return_token_ids"] and body["stream"]
        assert (body["temperature"], body["repetition_penalty"]) == (0, 1.0)
        tokens = TOKENS[: body["max_tokens"]]
        ids = [{"index": 0, "text": "x", "token_ids": [token]} for token in tokens]
        end = [] if "FAKE_BREAKS" in os.environ else [{"index": 0, "finish_reason": "stop"}]
        self._chunks([{"choices": [choice]} for choice in ids + end])

    def _chunks(self, chunks: list[dict[str, Any]]) -> None:
        self.send_response(200)
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        missing = 9 if "FAKE_BREAKS" in os.environ and self.command == "POST" else 0
        self.send_header("Content-Length", str(len(data) + missing))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None: ...


def main(words: list[str]) -> None:
    if "--help" in words:
        print(HELP)
    elif "--version" in words:
        print("version: 7 (fake)\nbuilt with nothing")
    elif os.environ.get("FAKE_FAILS"):
        sys.exit("error: unknown model architecture")
    else:
        port = int(words[words.index("--port") + 1])
        HTTPServer(("127.0.0.1", port), Answers).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
