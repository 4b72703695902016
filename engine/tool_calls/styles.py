"""Formats of tool calls. The names are those of vLLM's tool parsers, where it has one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.values.tools import ToolCall


@dataclass(frozen=True, slots=True)
class CallStyle:
    """The format of a call: ``head`` NAME ``middle`` ARGUMENTS ``tail``. ``between`` separates
    calls, ``opening`` and ``closing`` surround all.

    ``trigger``: what calls begin with, which no other text holds; in a ``whole`` style none is needed,
    for there a reply is either text or calls, and the calls alone begin with a brace. ``control``: those
    of the strings above that are single tokens of a vocabulary, where it has them.
    """

    name: str
    head: str
    middle: str
    tail: str
    between: str = "\n"
    opening: str = ""
    closing: str = ""
    trigger: str = ""
    control: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """True if a reply that calls tools holds nothing else."""
        return not self.trigger

    def written(self, calls: Sequence[ToolCall]) -> str:
        """Write calls as a model writes them."""
        each = (f"{self.head}{call.name}{self.middle}{call.arguments}{self.tail}" for call in calls)
        return f"{self.opening}{self.between.join(each)}{self.closing}"


HERMES = CallStyle(
    "hermes",
    head='<tool_call>\n{"name": "',
    middle='", "arguments": ',
    tail="}\n</tool_call>",
    trigger="<tool_call>",
    control=("<tool_call>", "</tool_call>"),
)
"""Nous Research's, and Qwen 2.5's and 3's."""
LLAMA = CallStyle(
    "llama3_json", head='{"name": "', middle='", "parameters": ', tail="}", between="; "
)
MISTRAL_LIST = CallStyle(
    "mistral",
    opening="[TOOL_CALLS][",
    head='{"name": "',
    middle='", "arguments": ',
    tail="}",
    between=", ",
    closing="]",
    trigger="[TOOL_CALLS]",
    control=("[TOOL_CALLS]",),
)
"""Up to their tokenizer's version 7."""
MISTRAL = CallStyle(
    "mistral",
    head="[TOOL_CALLS]",
    middle="[ARGS]",
    tail="",
    between="",
    trigger="[TOOL_CALLS]",
    control=("[TOOL_CALLS]", "[ARGS]"),
)
"""From version 11 on."""
GEMMA = CallStyle(
    "gemma",
    head='```tool_code\n{"name": "',
    middle='", "arguments": ',
    tail="}\n```",
    trigger="```tool_code",
)
"""A block of code. Gemma's own templates have no tools, so it is told so."""


def style_of(template: str | None) -> tuple[CallStyle, bool]:
    """Return the call style of models with this chat template, and whether the template renders
    tools.

    One that does so in a style that is not known here is taken for one that does not: it is told of
    Hermes' style in a message.
    """
    if template is None or not re.search(r"\btools\b", template):
        return (GEMMA if template and "<start_of_turn>" in template else HERMES), False
    if "[TOOL_CALLS]" in template:
        return (MISTRAL if "[ARGS]" in template else MISTRAL_LIST), True
    if "<tool_call>" in template and "<function=" not in template and "<arg_key>" not in template:
        return HERMES, True
    if "<|eot_id|>" in template and '"parameters"' in template:
        return LLAMA, True
    return HERMES, False


def is_harmony(template: str) -> bool:
    """Return whether a chat template writes gpt-oss' harmony format."""
    return "<|channel|>" in template and "<|message|>" in template
