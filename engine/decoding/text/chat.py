"""Render a chat, with its tools and tool calls, as the text that a model was trained on.

Chat templates take messages in a form that differs a little between families.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import ForetokenError, InvalidRequest
from engine.models.checkpoints.chat_template import Render, Values
from engine.request import OptionValue, Request
from engine.thoughts import choices_of, reasoning_name, template_values
from engine.tool_calls.prompting import in_words, one_system, without_system
from engine.tool_calls.styles import CallStyle, is_harmony, style_of
from engine.values.messages import Message, pieces, with_text
from engine.values.tools import ToolCall, json_object

Turn = dict[str, Any]


def turns_of(
    messages: Sequence[Message], style: CallStyle, reasoning: str, template: str
) -> list[Turn]:
    """Return the messages as ``template`` takes them.

    ``style``: that of its calls. ``reasoning``: its name of an earlier thought. The template decides
    which of them it renders: most render those behind the last message of the user, which the model still
    needs for its tools.
    """
    if is_harmony(template):
        messages = [*_one_call_each(messages)]
    elif "tool_calls" not in template:
        messages = [_with_calls_written(each, style) for each in messages]
    turns = [_turn(each, reasoning) for each in messages]
    return _with_responses(turns) if "tool_responses" in template else turns


def _turn(message: Message, reasoning: str) -> Turn:
    """Return a message as templates take it: arguments as an object, or as text if they are cut off."""
    turn: Turn = {"role": message.role, "content": message.content}
    if message.images:
        turn["content"] = [
            {"type": "text", "text": each} if isinstance(each, str) else {"type": "image"}
            for each in pieces(message)
        ]
    if message.reasoning:
        turn[reasoning] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.arguments if (value := call.object) is None else value,
                },
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        turn["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        turn["name"] = message.name
    return turn


def _with_calls_written(message: Message, style: CallStyle) -> Message:
    """Return a message with its calls in its text, for a template that renders tools but no calls."""
    if not message.tool_calls:
        return message
    return replace(message, content=message.content + style.written(message.tool_calls))


def _one_call_each(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages with one call in each, before its result.

    gpt-oss calls one tool at a time. Its template renders the first call of a message alone, and refuses
    content beside a thought.
    """
    calls: dict[str, Message] = {}
    for message in messages:
        if message.tool_calls:
            yield from calls.values()
            thought = "\n\n".join(filter(None, (message.reasoning, message.content)))
            first, *more = message.tool_calls
            calls = {
                call.id: replace(message, content="", reasoning="", tool_calls=(call,))
                for call in more
            }
            yield replace(message, content="", reasoning=thought, tool_calls=(first,))
            continue
        if message.role == "tool" and message.tool_call_id in calls:
            yield calls.pop(str(message.tool_call_id))
        elif message.role != "tool":
            yield from calls.values()
            calls = {}
        yield message
    yield from calls.values()


def _with_responses(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns with what tools returned in the turn that called them, as Gemma 4 has it."""
    kept: list[Turn] = []
    names: dict[str, str] = {}
    for turn in turns:
        if turn["role"] == "tool" and kept and kept[-1].get("tool_calls"):
            name = turn.get("name") or names.get(turn.get("tool_call_id", ""), "unknown")
            value = json_object(turn["content"])
            response = {"name": name, "response": turn["content"] if value is None else value}
            kept[-1].setdefault("tool_responses", []).append(response)
            continue
        names = {call["id"]: call["function"]["name"] for call in turn.get("tool_calls", ())}
        kept.append(turn)
    return kept


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat. ``definitions``: those of the tools that may be called. ``thinking``, ``budget`` and
    ``values`` are the request's."""

    messages: tuple[Message, ...]
    definitions: tuple[Any, ...] = ()
    thinking: str = ""
    budget: int | None = None
    values: tuple[tuple[str, OptionValue], ...] = ()

    @classmethod
    def of(cls, request: Request) -> Chat:
        definitions = tuple(tool.definition for tool in request.tools)
        return cls(
            request.messages,
            definitions,
            request.thinking,
            request.thinking_budget,
            request.template_values,
        )

    def texts(self) -> list[str]:
        """Return all text that people and programs wrote, and none of the template's."""
        found = list[str]()

        def note(text: str) -> str:
            found.append(text)
            return text

        self.mapped(note)
        return found

    def mapped(self, change: Callable[[str], str]) -> Chat:
        """Return the chat with ``change`` applied to all its ``texts``."""
        messages = (
            replace(
                with_text(each, change),
                tool_calls=tuple(
                    ToolCall(change(call.id), change(call.name), change(call.arguments))
                    for call in each.tool_calls
                ),
                tool_call_id=each.tool_call_id and change(each.tool_call_id),
                name=each.name and change(each.name),
                reasoning=change(each.reasoning),
            )
            for each in self.messages
        )
        return Chat(
            tuple(messages),
            tuple(_changed(each, change) for each in self.definitions),
            self.thinking,
            self.budget,
            tuple((name, _changed(value, change)) for name, value in self.values),
        )


class ChatTemplate:
    """The chat template of one model."""

    def __init__(self, render: Render | None, source: str | None) -> None:
        """``render`` applies the template ``source``. None: there is none; the model continues text."""
        self._render, self._source = render, source or ""
        self.calls, self.has_tools = style_of(source)
        self.thinking = choices_of(source)
        self._reasoning = reasoning_name(source)

    @property
    def exists(self) -> bool:
        return self._render is not None

    def render(self, chat: Chat) -> str:
        """Return the text up to the assistant's reply. Raises InvalidRequest if the template refuses.

        If the template has no tools, a system message describes them in words.
        """
        has_calls = any(each.tool_calls or each.role == "tool" for each in chat.messages)
        worded = (bool(chat.definitions) or has_calls) and not self.has_tools
        messages = list(chat.messages)
        if worded:
            messages = in_words(chat.messages, chat.definitions, self.calls)
        if self._render is None:
            return "\n".join(message.content for message in messages)
        definitions = None if worded or not chat.definitions else list(chat.definitions)
        values = template_values(self._source, chat.thinking, chat.budget) | dict(chat.values)
        try:
            return self._rendered(messages, definitions, values, worded=worded)
        except ForetokenError:
            raise
        except Exception as error:  # a template is a program, and raises what it likes
            raise InvalidRequest("messages", _why_not(error)) from error

    def _rendered(
        self, messages: list[Message], definitions: Any, values: Values, *, worded: bool
    ) -> str:
        """Return the rendered messages, in the first form that the template does not refuse."""
        assert self._render is not None
        joined = one_system(messages)
        forms = [messages] + [joined] * (joined != messages)
        forms += [without_system(joined)] * worded
        turns = [turns_of(each, self.calls, self._reasoning, self._source) for each in forms]
        for each in turns[:-1]:
            try:
                return self._render(each, definitions, values)
            except ForetokenError:
                raise
            except Exception:  # a template is a program, and raises what it likes
                continue
        return self._render(turns[-1], definitions, values)


_RAISED = ("TemplateError", "RuntimeError")
"""Names of the errors that a template's ``raise_exception`` raises, in the worker and in tests."""


def _why_not(error: Exception) -> str:
    """Return why a template failed: it refused the messages, or it is broken itself."""
    reason = str(error).rstrip(".")
    if getattr(error, "kind", type(error).__name__) in _RAISED:
        return (
            f"This model's chat template rejected these messages: {reason}. Some models do "
            "not accept a system prompt, or require user and assistant to alternate."
        )
    return (
        f"This model's chat template failed: {reason}. Load another file of this model, "
        "or use text completion, which needs no template."
    )


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_changed(key, change): _changed(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [_changed(each, change) for each in value]
    return value
