"""Convert Anthropic's bodies to those of OpenAI's chats, block by block."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from app.documents.reading import is_pdf, read_file
from app.server.anthropic.schemas import (
    OTHERS,
    AnthropicMessage,
    AnthropicThinking,
    AnthropicTool,
    BlockBody,
    CountBody,
    MessagesBody,
    SourceBody,
)
from app.server.errors import ApiError, missing, unsupported
from app.server.fields.schemas import ChatBody, checked
from app.server.fields.tools import called_tool
from app.server.requests import file_in
from app.server.sending import Json
from app.storage.attachments import Attachment, with_files
from engine.errors import InvalidRequest

T = TypeVar("T")

MOST_FILES = 16
"""Documents of a request that must be read in another process, at most."""


def parts_of(blocks: Sequence[BlockBody], path: str) -> Iterator[Json]:
    """Yield the parts of a user's blocks, or of a tool's result. Raises ApiError for other types."""
    for at, block in enumerate(blocks):
        yield from _parts(block, f"{path}[{at}]")


def _parts(block: BlockBody, place: str) -> Iterator[Json]:
    match block.type:
        case "image":
            yield _image(source_of(block, place), f"{place}.source")
        case "document":
            yield from _document(block, place)
        case "search_result":
            texts = texts_of(given(block.content, f"{place}.content"), f"{place}.content")
            heads = filter(None, (block.title, block.source))
            yield text_part("\n".join([*map(str, heads), *texts]))
        case _:
            yield text_part(_text(block, place))


def texts_of(blocks: Sequence[BlockBody], path: str) -> list[str]:
    """Return the texts of blocks. Raises ApiError for other blocks."""
    return [_text(block, f"{path}[{at}]") for at, block in enumerate(blocks)]


def _text(block: BlockBody, place: str) -> str:
    if block.type != "text":
        what = f"blocks of type {block.type[:80]!r} here"
        raise unsupported(f"{place}.type", what, "Leave the block out.")
    return given(block.text, f"{place}.text")


def text_part(text: str) -> Json:
    return {"type": "text", "text": text}


def given(value: T | None, path: str) -> T:
    """Return a field's value. Raises ApiError if it is missing."""
    if value is None:
        raise missing(path)
    return value


def source_of(block: BlockBody, path: str) -> SourceBody:
    """Return the source of an image or a document. Raises ApiError for one that must be fetched."""
    source = block.source
    if not isinstance(source, SourceBody):
        raise missing(f"{path}.source")
    if source.type in OTHERS:
        what = f"sources of type {source.type!r}, which it would have to fetch"
        raise unsupported(f"{path}.source.type", what, "Send the data itself.")
    return source


def _image(source: SourceBody, path: str) -> Json:
    if source.type != "base64":
        what = f"images of type {source.type[:80]!r}"
        raise unsupported(f"{path}.type", what, "Send them as base64.")
    data = given(source.data, f"{path}.data")
    file_in(data, f"{path}.data")
    return {"type": "image_url", "image_url": f"data:image/any;base64,{data}"}


def _document(block: BlockBody, place: str) -> Iterator[Json]:
    """Yield a document as the pages give one to a model: its title, then its text in a fence."""
    source, path = source_of(block, place), f"{place}.source"
    title = block.title or "Document"
    if block.context:
        title += f"\n{block.context}"
    match source.type:
        case "text":
            yield _file(Attachment(title, given(source.data, f"{path}.data")))
        case "base64":
            yield _file(_pdf(title, given(source.data, f"{path}.data"), f"{path}.data"))
        case "content":
            yield text_part(title)
            yield from parts_of(given(source.content, f"{path}.content"), f"{path}.content")
        case _:
            what = f"documents of type {source.type[:80]!r}"
            raise unsupported(f"{path}.type", what, "Send base64, text or content.")


def _pdf(title: str, data: str, path: str) -> Attachment:
    """Return a document that is read in a worker process. Raises InvalidRequest if it cannot be."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "document.pdf"
        content = file_in(data, path)
        if not is_pdf(content):
            raise InvalidRequest(
                path, f"{path}: the document is no PDF. Send its text as type text."
            )
        file.write_bytes(content)
        try:
            return replace(read_file(file, file.name).attachment, name=title)
        except InvalidRequest as error:
            why = str(error).removeprefix(file.name).strip()
            raise InvalidRequest(path, f"{path}: the document {why}") from error


def files_in(blocks: Sequence[BlockBody]) -> int:
    """Return how many documents must be read in another process."""
    count = 0
    for block in blocks:
        count += files_in(block.content or ())
        if block.type == "document" and isinstance(block.source, SourceBody):
            count += (block.source.type == "base64") + files_in(block.source.content or ())
    return count


def _file(attachment: Attachment) -> Json:
    return text_part(with_files("", [attachment]))


NAMES = {
    "stop": "stop_sequences",
    "reasoning_effort": "output_config.effort",
    "thinking_budget": "thinking.budget_tokens",
    "response_format.json_schema.schema": "output_config.format.schema",
    "tools[].function.parameters": "tools[].input_schema",
    "tools[].function": "tools[]",
    "continue_final_message": "A last message of the assistant (a prefill)",
}
"""Anthropic's fields, by OpenAI's."""
_SAME = ("max_tokens", "temperature", "top_p", "top_k", "seed", "speculation")
"""Fields of a reply that both have."""
_BILLING = "x-anthropic-billing-header:"
"""Begins a block of Claude Code's system prompt that differs in every request. It tells a model nothing,
and no prompt could be reused behind it."""


def chat_of(body: CountBody) -> ChatBody:
    """Return the chat's body. Raises ApiError and InvalidRequest, which name Anthropic's fields for what
    is wrong with messages, and otherwise OpenAI's."""
    if body.thread is not None:
        raise ApiError(
            400,
            "thread: Foretoken stores no messages. Send all of them, and leave the field out.",
            code="thread_unsupported_request",  # by which Anthropic's clients do so
            param="thread",
        )
    contents = [message.content for message in body.messages]
    if (files := sum(map(files_in, contents))) > MOST_FILES:
        raise InvalidRequest(
            "messages", f"messages have {files} PDF documents; at most {MOST_FILES} are read."
        )
    messages = [*_system(body), *_joined(_messages(body.messages))]
    fields: Json = {"model": body.model, "messages": messages}
    if messages[-1]["role"] == "assistant":
        fields["continue_final_message"] = True
    fields |= _tools(body) | _thinking(body)
    if isinstance(body, MessagesBody):
        fields |= _options(body)
    return checked(ChatBody, fields)


def _options(body: MessagesBody) -> Json:
    fields = {name: getattr(body, name) for name in _SAME} | {"stop": body.stop_sequences}
    if body.output_config is not None and body.output_config.format is not None:
        schema = {"schema": body.output_config.format.schema_}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields


def _thinking(body: CountBody) -> Json:
    thinking = body.thinking or AnthropicThinking(type="adaptive")
    effort = None if body.output_config is None else body.output_config.effort
    match thinking.type:
        case "disabled":
            return {"reasoning_effort": "none"}
        case "enabled":
            budget = given(thinking.budget_tokens, "thinking.budget_tokens")
            return {"reasoning_effort": effort or "medium", "thinking_budget": budget}
        case "adaptive":
            return {"reasoning_effort": effort}


def _tools(body: CountBody) -> Json:
    fields: Json = {"tools": [_tool(tool, at) for at, tool in enumerate(body.tools or ())]}
    choice = body.tool_choice
    if choice is None:
        return fields
    if choice.disable_parallel_tool_use:
        fields["parallel_tool_calls"] = False
    if choice.type == "tool":
        function = {"name": given(choice.name, "tool_choice.name")}
        return fields | {"tool_choice": {"type": "function", "function": function}}
    return fields | {"tool_choice": "required" if choice.type == "any" else choice.type}


def _tool(tool: AnthropicTool, at: int) -> Json:
    if tool.type not in (None, "custom"):
        raise unsupported(
            f"tools[{at}].type",
            f"the tool {tool.type[:80]!r}, which Anthropic's API describes to its models itself",
            "Describe your tools by name, description and input_schema, without a type.",
        )
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": given(tool.input_schema, f"tools[{at}].input_schema"),
        "strict": tool.strict,
    }
    return {"type": "function", "function": function}


def _system(body: CountBody) -> Iterator[Json]:
    texts = [
        text
        for text in texts_of(body.system or (), "system")
        if text and not text.startswith(_BILLING)
    ]
    if texts:
        yield {"role": "system", "content": [*map(text_part, texts)]}


def _joined(messages: Iterator[Json]) -> Iterator[Json]:
    """Join messages of one role that follow each other, as Anthropic's API does: many chat templates want
    the roles to alternate."""
    last: Json | None = None
    for message in messages:
        if last is not None and message["role"] == last["role"] != "tool":
            last["content"] += message["content"]
            for name in ("tool_calls", "reasoning_content"):
                if name in message:
                    last[name] = last.get(name, type(message[name])()) + message[name]
            continue
        if last is not None:
            yield last
        last = message
    if last is not None:
        yield last


def _messages(messages: Sequence[AnthropicMessage]) -> Iterator[Json]:
    """Yield OpenAI's messages. A user's message is first the results of tools, then what is said."""
    names: dict[str, str] = {}  # of called tools, by ids of calls
    for at, message in enumerate(messages):
        path = f"messages[{at}].content"
        match message.role:
            case "assistant":
                yield _assistant(message.content, path, names)
            case "system":
                texts = texts_of(message.content, path)
                yield {"role": "system", "content": [*map(text_part, texts)]}
            case "user":
                said: list[Json] = []
                for place, block in enumerate(message.content):
                    if block.type == "tool_result":
                        yield _result(block, f"{path}[{place}]", names)
                    else:
                        said += _parts(block, f"{path}[{place}]")
                if said or not message.content:
                    yield {"role": "user", "content": said}


def _assistant(blocks: Sequence[BlockBody], path: str, names: dict[str, str]) -> Json:
    """Return the message of an assistant, with ``names`` of what it calls added. A thought that was
    redacted, or whose text was omitted, is left out."""
    thoughts, calls, said = [], [], []
    for at, block in enumerate(blocks):
        place = f"{path}[{at}]"
        match block.type:
            case "thinking":
                thoughts.append(given(block.thinking, f"{place}.thinking"))
            case "redacted_thinking":
                pass
            case "tool_use":
                id = given(block.id, f"{place}.id")
                names[id] = given(block.name, f"{place}.name")
                arguments = json.dumps(given(block.input, f"{place}.input"), ensure_ascii=False)
                function = {"name": names[id], "arguments": arguments}
                calls.append({"id": id, "type": "function", "function": function})
            case _:
                said.append(text_part(_text(block, place)))
    message: Json = {"role": "assistant", "content": said}
    if thought := "\n\n".join(filter(None, thoughts)):
        message["reasoning_content"] = thought
    return message | ({"tool_calls": calls} if calls else {})


def _result(block: BlockBody, place: str, names: dict[str, str]) -> Json:
    """Return the message of a tool. That the tool failed is told in words: templates have no field."""
    id = given(block.tool_use_id, f"{place}.tool_use_id")
    name = called_tool(id, names, f"{place}.tool_use_id")
    content = list(parts_of(block.content or (), f"{place}.content"))
    if block.is_error:
        content = [text_part("Error:"), *content]
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}
