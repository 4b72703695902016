"""One request to ``/v1/responses``, and its response object."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.server.answer import Answer
from app.server.dialects import chat_logprobs
from app.server.monitoring import metrics
from app.server.responses.response_store import Json, ResponseStore, StoredResponse
from app.server.responses.schemas import LOGPROBS, Item, ResponseBody
from engine.api import Loaded
from engine.events import FinishReason, Token
from engine.request import Request
from engine.tool_calls.in_reply import WrittenCall
from engine.values.messages import Message


@dataclass(frozen=True, slots=True)
class Job:
    """``items``: the request's input; ``conversation``: with everything before it."""

    body: ResponseBody
    loaded: Loaded
    items: Sequence[Item]
    conversation: tuple[Message, ...]
    responses: ResponseStore
    created: int = field(default_factory=lambda: int(time.time()))
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def message_id(self) -> str:
        return f"msg_{self.token}"

    @property
    def logprobs(self) -> bool:
        return LOGPROBS in (self.body.include or ())

    def answer(self, request: Request) -> Answer:
        detailed = self.body.spec_decode_metrics == "detailed"
        return Answer(request, self.loaded.capabilities.calls, keeps_rounds=detailed)

    def logprobs_of(self, tokens: Sequence[Token]) -> list[Json]:
        """Return the tokens' log probabilities, if the request includes them."""
        return chat_logprobs(tokens) if self.logprobs else []

    def part(self, answer: Answer | None) -> Json:
        """Return the text as a part of the message; an empty one for None."""
        tokens = [] if answer is None else list(answer.reply.tokens or ())
        if answer is not None:
            begin, end = answer.reply.thoughts.start, len(answer.reply.text)
            end = begin + len(answer.content) if answer.called else end
            tokens = [token for token in tokens if begin <= token.start < end]
        return {
            "type": "output_text",
            "text": "" if answer is None else answer.content,
            "annotations": [],
            "logprobs": self.logprobs_of(tokens),
        }

    def message(self, status: str, answer: Answer | None) -> Json:
        """Return the reply's text as a message item; an empty one for None."""
        return {
            "id": self.message_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [] if answer is None else [self.part(answer)],
        }

    @property
    def reasoning_id(self) -> str:
        return f"rs_{self.token}"

    def reasoning(self, status: str, answer: Answer | None) -> Json:
        """Return the thought as an item; an empty one for None."""
        text = [] if answer is None else [{"type": "reasoning_text", "text": answer.thought}]
        return {
            "id": self.reasoning_id,
            "type": "reasoning",
            "status": status,
            "summary": [],
            "content": text,
        }

    def call(self, at: int, status: str, call: WrittenCall) -> Json:
        """Return the ``at``-th call as an item."""
        return {
            "id": f"fc_{self.token}_{at}",
            "type": "function_call",
            "status": status,
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }

    def output(self, status: str, answer: Answer) -> list[Json]:
        """Return the reply as items. The last one has ``status``, unless it is a complete call."""
        done = "completed"
        items = [self.reasoning(done, answer)] if answer.thought else []
        if answer.content or not (answer.called or (items and answer.thinks)):
            items.append(self.message(done, answer))
        items += [self.call(at, done, call) for at, call in enumerate(answer.called)]
        if not answer.called or answer.called[-1].object is None:
            items[-1]["status"] = status
        return items

    def response(
        self, status: str, answer: Answer | None = None, error: Json | None = None
    ) -> Json:
        """Return the response object. ``answer``: the finished reply, if there is one."""
        body = self.body
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        sampling = None if answer is None else answer.request.sampling
        return {
            "id": f"resp_{self.token}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": error,
            "incomplete_details": cut,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "metadata": body.metadata or {},
            "model": self.loaded.id,
            "output": [] if answer is None else self.output(status, answer),
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": body.previous_response_id,
            "reasoning": {"effort": body.reasoning and body.reasoning.effort, "summary": None},
            "store": body.store is not False,
            "temperature": body.temperature if sampling is None else sampling.temperature,
            "text": {"format": _format(body)},
            "tool_choice": _choice(body),
            "tools": [tool.model_dump() for tool in body.tools or ()],
            "top_p": body.top_p if sampling is None else sampling.top_p,
            "truncation": "disabled",
            "usage": None if answer is None else usage(answer),
            "user": body.user,
            **({} if answer is None else metrics.measured([answer])),
        }

    def end(self, answer: Answer) -> Json:
        """Return the finished response, after storing it unless ``store`` is false."""
        cut = answer.reply.reason is FinishReason.LENGTH
        response = self.response("incomplete" if cut else "completed", answer)
        if self.body.store is not False:
            calls = () if answer.calls is None else answer.calls.made
            reply = Message("assistant", answer.content, tool_calls=calls, reasoning=answer.thought)
            items = tuple(
                {"id": f"{self.message_id}_in_{at}", "status": "completed", **_input_item(item)}
                for at, item in enumerate(self.items)
            )
            self.responses.put(StoredResponse(response, items, (*self.conversation, reply)))
        return response


def _input_item(item: Item) -> Json:
    """Return an input item for clients, whose text parts are named by their role."""
    value: Json = item.model_dump(exclude_none=True)
    kind = "output_text" if value.get("role") == "assistant" else "input_text"
    for part in (*value.get("content", ()), *value.get("output", ())):
        if part["type"] == "text":
            part["type"] = kind
    return value


def usage(answer: Answer) -> Json:
    """Return the usage with the names of this API."""
    counted = metrics.usage([answer], 1)
    return {
        "input_tokens": counted["prompt_tokens"],
        "input_tokens_details": counted["prompt_tokens_details"],
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": counted["completion_tokens_details"],
        "total_tokens": counted["total_tokens"],
    }


def _format(body: ResponseBody) -> Json:
    """Return the text format of the request."""
    format = None if body.text is None else body.text.format
    if format is None:
        return {"type": "text"}
    return format.model_dump(by_alias=True, exclude_none=True)


def _choice(body: ResponseBody) -> Any:
    choice = body.tool_choice
    return (choice or "auto") if choice is None or isinstance(choice, str) else choice.model_dump()
