"""One request to ``/v1/responses``, and its response object."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pydantic import BaseModel

from app.server.answer import Answer, chat_logprobs
from app.server.errors import ApiError, translate
from app.server.monitoring import metrics
from app.server.request_queue import Ticket
from app.server.responses.response_store import ResponseStore, StoredResponse
from app.server.responses.schemas import LOGPROBS, Item, ResponseBody
from app.server.sending import Json, comment, named
from engine.api import Loaded
from engine.events import Emitted, FinishReason, Queued, Token
from engine.request import Request
from engine.tool_calls.in_reply import WrittenCall
from engine.tool_calls.reading import Arguments, CallStart, Content, Part, Thought
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
        """Return the reply as items. The last one has ``status``, but a call that was cut is incomplete,
        and any other call complete."""
        done = "completed"
        items = [self.reasoning(done, answer)] if answer.thought else []
        if answer.content or not (answer.called or (items and answer.thinks)):
            items.append(self.message(done, answer))
        items += [self.call(at, done, call) for at, call in enumerate(answer.called)]
        if answer.cut or not answer.called:
            items[-1]["status"] = "incomplete" if answer.cut else status
        return items

    def response(
        self, status: str, answer: Answer | None = None, error: Json | None = None
    ) -> Json:
        """Return the response object. ``answer``: the finished reply, if there is one."""
        body, choice = self.body, self.body.tool_choice
        chosen = choice.model_dump() if isinstance(choice, BaseModel) else choice or "auto"
        form: Json = {"type": "text"}
        if body.text is not None and body.text.format is not None:
            form = body.text.format.model_dump(by_alias=True, exclude_none=True)
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
            "text": {"format": form},
            "tool_choice": chosen,
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
                # Not by the client's own id, which another client may use too.
                {"status": "completed", **_input_item(item), "id": f"{self.message_id}_in_{at}"}
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


Event = tuple[str, Json]
"""Its type and its fields."""


async def stream(ticket: Ticket, job: Job) -> AsyncGenerator[bytes, None]:
    """Yield the stream of one response."""
    answer, number = job.answer(ticket.only.request), count()
    output = _Output(job, answer)

    def encode(kind: str, fields: Json) -> bytes:
        return named(kind, {"type": kind, "sequence_number": next(number), **fields})

    for kind in ("response.created", "response.in_progress"):
        yield encode(kind, {"response": job.response("in_progress")})
    async for event in ticket.events_of(ticket.only):
        try:
            answer.add(event)
        except ApiError as error:
            failed = {"code": "server_error", "message": error.message}
            yield encode("response.failed", {"response": job.response("failed", error=failed)})
            return
        if isinstance(event, Queued):
            yield comment(f"waiting, {event.ahead} ahead")
        tokens = (event.tokens or ()) if isinstance(event, Emitted) else ()
        for kind, fields in output.add(tokens):
            yield encode(kind, fields)
    response = job.end(answer)
    for kind, fields in output.end(response["output"]):
        yield encode(kind, fields)
    yield encode(f"response.{response['status']}", {"response": response})


def error_event(failure: Exception) -> bytes:
    """Return the event that ends a stream which failed."""
    error = translate(failure)
    event = {"type": "error", "code": error.code, "message": error.message, "param": error.param}
    return named("error", {**event, "sequence_number": -1})


class _Output:
    """The events of a reply's items, one after the other: a thought, a message, then calls."""

    def __init__(self, job: Job, answer: Answer) -> None:
        self._job, self._answer = job, answer
        self._index = -1  # of the open item
        self._has_message = self._thinks = False
        self._tokens: deque[Token] = deque()  # of text that was not sent yet

    def add(self, tokens: tuple[Token, ...]) -> Iterator[Event]:
        """Yield what the answer's last event, which brought ``tokens``, added."""
        self._tokens.extend(tokens if self._job.logprobs else ())
        for part in self._answer.parts:
            yield from self._add(part)
        if self._has_message and (due := self._due()):  # tokens that complete no character
            yield self._delta("", due)

    def end(self, items: list[Json]) -> Iterator[Event]:
        """End the last of the reply's ``items``."""
        if items[-1]["type"] == "message" and not self._has_message:
            yield from self._end_thought()
            yield from self._begin_message()
        yield from self._close(items[-1])

    def _add(self, part: Part) -> Iterator[Event]:
        match part:
            case Thought(text):
                if not self._thinks:
                    self._index, self._thinks = self._index + 1, True
                    item = self._job.reasoning("in_progress", None)
                    yield self._event("output_item.added", item=item)
                    empty = {"type": "reasoning_text", "text": ""}
                    yield self._of_thought("content_part.added", part=empty)
                yield self._of_thought("reasoning_text.delta", delta=text)
            case Content(text):
                if not self._has_message:
                    yield from self._end_thought()
                    yield from self._begin_message()
                yield self._delta(text, self._due())
            case CallStart(index):
                yield from self._end_thought()
                if index:
                    before = self._answer.called[index - 1]
                    yield from self._close(self._job.call(index - 1, "completed", before))
                elif self._has_message:
                    yield from self._close(self._job.message("completed", self._answer))
                self._index += 1
                item = self._job.call(index, "in_progress", self._answer.called[index])
                opened = item | {"arguments": ""}
                yield self._event("output_item.added", item=opened)
            case Arguments(index, text):
                id = self._job.call(index, "in_progress", self._answer.called[index])["id"]
                yield self._event("function_call_arguments.delta", item_id=id, delta=text)

    def _end_thought(self) -> Iterator[Event]:
        if self._thinks:
            self._thinks = False
            yield from self._close(self._job.reasoning("completed", self._answer))

    def _begin_message(self) -> Iterator[Event]:
        self._index, self._has_message = self._index + 1, True
        yield self._event("output_item.added", item=self._job.message("in_progress", None))
        yield self._of_text("content_part.added", part=self._job.part(None))

    def _close(self, item: Json) -> Iterator[Event]:
        if item["type"] == "reasoning":
            (part,) = item["content"]
            yield self._of_thought("reasoning_text.done", text=part["text"])
            yield self._of_thought("content_part.done", part=part)
        elif item["type"] == "message":
            (part,) = item["content"]
            text = {"text": part["text"], "logprobs": part["logprobs"]}
            yield self._of_text("output_text.done", **text)
            yield self._of_text("content_part.done", part=part)
        else:
            arguments = {"name": item["name"], "arguments": item["arguments"]}
            yield self._event("function_call_arguments.done", item_id=item["id"], **arguments)
        yield self._event("output_item.done", item=item)

    def _delta(self, text: str, tokens: list[Token]) -> Event:
        logprobs = self._job.logprobs_of(tokens)
        return self._of_text("output_text.delta", delta=text, logprobs=logprobs)

    def _due(self) -> list[Token]:
        """Remove and return the tokens of the text so far. Those of calls are never sent."""
        due, begin = list[Token](), self._answer.reply.thoughts.start
        plain, end = self._answer.calls is None, begin + len(self._answer.content)
        while self._tokens and (plain or self._tokens[0].start < end):
            token = self._tokens.popleft()
            due += [token] if token.start >= begin else []
        return due

    def _of_text(self, kind: str, **fields: Any) -> Event:
        return self._event(kind, item_id=self._job.message_id, content_index=0, **fields)

    def _of_thought(self, kind: str, **fields: Any) -> Event:
        return self._event(kind, item_id=self._job.reasoning_id, content_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> Event:
        return f"response.{kind}", {"output_index": self._index, **fields}
