"""The content blocks of a reply, and the events of a stream that write them one after the other."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from app.server.answer import Answer
from engine.tool_calls.reading import Arguments, CallStart, Content, Part, Thought

Json = dict[str, Any]


class Blocks:
    """A reply's blocks so far: a thought, a text, then calls. The last one may be open."""

    def __init__(self, *, omits_thought: bool) -> None:
        """``omits_thought``: the block of a thought has no text."""
        self.content: list[Json] = []
        self._omits, self._open = omits_thought, False
        self._blank = ""  # white space that a text begins with, if a text follows
        self._written = ""  # the thought, or the JSON of a call's input

    def add(self, answer: Answer) -> Iterator[Json]:
        """Yield the events of what the answer's last event added."""
        for part in answer.parts:
            yield from self._add(part, answer)

    def end(self) -> Iterator[Json]:
        """Yield the events of the reply's end."""
        if self._blank and not self.content:
            yield from self._text("")
        yield from self._close()

    def _add(self, part: Part, answer: Answer) -> Iterator[Json]:
        match part:
            case Thought(text):
                if not self._is_open("thinking"):
                    yield from self._begin({"type": "thinking", "thinking": "", "signature": ""})
                self._written += text
                if not self._omits:
                    self.content[-1]["thinking"] += text
                    yield self._delta("thinking_delta", thinking=text)
            case Content(text):
                yield from self._text(text)
            case CallStart(index, name):
                call = {"type": "tool_use", "id": answer.called[index].id, "name": name}
                yield from self._begin({**call, "input": {}})
            case Arguments(_, text):
                self._written += text
                yield self._delta("input_json_delta", partial_json=text)

    def _text(self, text: str) -> Iterator[Json]:
        """Add text. Blank text before a call makes no block: Anthropic's API takes none back."""
        if not self._is_open("text"):
            self._blank += text
            if text and not self._blank.strip():
                return
            text, self._blank = self._blank, ""
            yield from self._begin({"type": "text", "text": ""})
        self.content[-1]["text"] += text
        yield self._delta("text_delta", text=text)

    def _is_open(self, kind: str) -> bool:
        return self._open and self.content[-1]["type"] == kind

    def _begin(self, block: Json) -> Iterator[Json]:
        yield from self._close()
        self.content.append(block)
        self._open, self._written = True, ""
        yield self._event("content_block_start", content_block=dict(block))

    def _close(self) -> Iterator[Json]:
        if not self._open:
            return
        self._open, block = False, self.content[-1]
        if block["type"] == "thinking":
            block["signature"] = _signature(self._written)
            yield self._delta("signature_delta", signature=block["signature"])
        elif block["type"] == "tool_use" and self._written:
            # As clients read the deltas: what max_tokens cut is left out.
            block["input"] = from_json(self._written, allow_partial=True)
        yield self._event("content_block_stop")

    def _delta(self, kind: str, **fields: Any) -> Json:
        return self._event("content_block_delta", delta={"type": kind, **fields})

    def _event(self, kind: str, **fields: Any) -> Json:
        return {"type": kind, "index": len(self.content) - 1, **fields}


def _signature(thought: str) -> str:
    """Return a signature: clients drop thoughts without one. It is not checked when it comes back."""
    return base64.b64encode(hashlib.sha256(thought.encode()).digest()).decode("ascii")
