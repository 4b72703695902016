"""Read a stream of OpenAI's protocol chunk by chunk: text, finish reason and usage.

Many servers separate thoughts from the reply; they are put back between ``<think>`` and ``</think>``,
as the models wrote them. Tool calls are written into the text in Hermes' style.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.events import FinishReason
from engine.remote.kinds import ENGINE_DATA
from engine.thoughts import THINK, THOUGHT
from engine.tool_calls.styles import HERMES

Json = Mapping[str, Any]

CALLS = HERMES
"""The style of tool calls in the text."""

_REASONS = {"length": FinishReason.LENGTH, "max_tokens": FinishReason.LENGTH}


def object_in(parent: Json, name: str) -> Json:
    """Return the object that ``parent`` has by this name; an empty one if it has none."""
    found = parent.get(name)
    return found if isinstance(found, dict) else {}


class Reading:
    """A reply as far as it was read. What a server does not send stays None or empty."""

    def __init__(self) -> None:
        self.text = ""
        self.reason: FinishReason | None = None
        self.stop_string: str | None = None
        self.usage: Json = {}
        self.extras: dict[str, Any] = {}
        """Other fields: llama-server's ``timings``, vLLM's ``metrics``, LM Studio's ``stats``."""
        self.decoded_per_iteration: object = None
        """TensorRT-LLM's, of this reply."""
        self._thinking = self._answers = False  # a thought is open; no more may follow
        self._call: int | None = None
        self._has_arguments = False  # the open call

    def add(self, chunk: Json) -> str:
        """Return the text that ``chunk`` adds. Raise TypeError, KeyError, AttributeError for no chunk."""
        merged = {**chunk, **object_in(object_in(chunk, "nvext"), ENGINE_DATA)}  # Dynamo's
        for name in ("timings", "metrics", "stats"):
            if isinstance(merged.get(name), dict):
                self.extras[name] = merged[name]
        if isinstance(chunk.get("usage"), dict):
            self.usage = chunk["usage"]
        added = ""
        for choice in chunk["choices"]:
            added += "".join(self._choice(choice))
        self.text += added
        return added

    def _choice(self, choice: Json) -> Iterator[str]:
        delta = choice.get("delta")
        if delta is None:
            yield str(choice.get("text") or "")
        else:
            yield from self._delta(delta)
        mean = choice.get("avg_decoded_tokens_per_iter")
        if mean is not None:
            self.decoded_per_iteration = mean
        if choice.get("finish_reason"):
            self.reason = _REASONS.get(choice["finish_reason"], FinishReason.STOP)
            yield from self.end()
            stop = choice.get("stop_reason", choice.get("matched_stop"))  # vLLM's, SGLang's
            self.stop_string = stop if isinstance(stop, str) else None

    def _delta(self, delta: Json) -> Iterator[str]:
        thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
        yield from self.thought(thought if isinstance(thought, str) else "")
        yield from self.content(delta.get("content") or "")
        for call in delta.get("tool_calls") or ():
            yield from self.called(call)

    def thought(self, text: str) -> Iterator[str]:
        """Yield ``text`` of the thoughts, with their opening. One behind the answer's beginning is left
        out: there is no place for it."""
        if not text or self._answers:
            return
        if not self._thinking:
            yield THINK
            self._thinking = True
        yield text

    def content(self, text: str) -> Iterator[str]:
        """Yield ``text`` of the answer, after closing the thoughts."""
        if text:
            yield from self.end()
            self._answers |= bool(text.strip())
        yield text

    def end(self) -> Iterator[str]:
        """Close open thoughts or an open tool call. One that ``max_tokens`` did not cut has arguments."""
        if self._thinking:
            self._thinking, self._answers = False, True
            yield THOUGHT
        if self._call is not None:
            self._call = None
            if not self._has_arguments and self.reason is not FinishReason.LENGTH:
                yield "{}"
            yield CALLS.tail

    def called(self, call: Json) -> Iterator[str]:
        """Yield a delta of a tool call."""
        function, index = call.get("function") or {}, call.get("index", 0)
        if index != self._call or function.get("name"):
            again = self._call is not None
            yield from self.end()
            yield f"{CALLS.between if again else ''}{CALLS.head}{function['name']}{CALLS.middle}"
            self._call, self._has_arguments, self._answers = index, False, True
        arguments = function.get("arguments") or ""
        self._has_arguments |= bool(arguments.strip())
        yield arguments
