"""Formats of tool calls. The names are those of vLLM's tool parsers, where it has one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.tool_calls.forms import (
    ARG_KEYS,
    GEMMA,
    JSON,
    PARAMETERS,
    PYTHON,
    TIGHT_ARG_KEYS,
    TIGHT_PARAMETERS,
)
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
    form: str = JSON
    """How arguments are written, see ``engine.tool_calls.forms``."""

    @property
    def whole(self) -> bool:
        """True if a reply that calls tools holds nothing else."""
        return not self.trigger

    def written(self, calls: Sequence[ToolCall]) -> str:
        """Return calls as a model of this style writes them; the form is JSON or Python's."""
        each = (
            f"{self.head}{call.name}{self.middle}{self._arguments(call)}{self.tail}"
            for call in calls
        )
        return f"{self.opening}{self.between.join(each)}{self.closing}"

    def _arguments(self, call: ToolCall) -> str:
        assert self.form in (JSON, PYTHON)
        if self.form == JSON:
            return call.arguments
        return (
            ", ".join(f"{name}={_python(value)}" for name, value in (call.object or {}).items())
            + ")"
        )


def _python(value: Any) -> str:
    """Return a value as LFM2.5's template writes it: containers as JSON, others as Python."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else repr(value)


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
GEMMA_CODE = CallStyle(
    "gemma",
    head='```tool_code\n{"name": "',
    middle='", "arguments": ',
    tail="}\n```",
    trigger="```tool_code",
)
"""A block of code. Gemma's own templates have no tools, so it is told so."""


QWEN3_CODER = CallStyle(
    "qwen3_coder",
    head="<tool_call>\n<function=",
    middle=">\n",
    tail="</function>\n</tool_call>",
    trigger="<tool_call>",
    control=("<tool_call>", "</tool_call>"),
    form=PARAMETERS,
)
"""Qwen3-Coder's, and that of Qwen 3.5 and later."""
SEED_OSS = replace(
    QWEN3_CODER,
    name="seed_oss",
    head="<seed:tool_call>\n<function=",
    tail="</function>\n</seed:tool_call>",
    trigger="<seed:tool_call>",
    control=("<seed:tool_call>", "</seed:tool_call>"),
    form=TIGHT_PARAMETERS,
)
GLM45 = CallStyle(
    "glm45",
    head="<tool_call>",
    middle="\n",
    tail="</tool_call>",
    trigger="<tool_call>",
    control=(
        "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
    ),
    form=ARG_KEYS,
)  # fmt: skip
GLM47 = replace(GLM45, name="glm47", middle="", between="", form=TIGHT_ARG_KEYS)
GEMMA4 = CallStyle(
    "gemma4",
    head="<|tool_call>call:",
    middle="",
    tail="<tool_call|>",
    between="",
    trigger="<|tool_call>",
    control=("<|tool_call>", "<tool_call|>", '<|"|>'),
    form=GEMMA,
)
LFM2 = CallStyle(
    "lfm2",
    opening="<|tool_call_start|>[",
    head="",
    middle="(",
    tail="",
    between=", ",
    closing="]<|tool_call_end|>",
    trigger="<|tool_call_start|>",
    control=("<|tool_call_start|>", "<|tool_call_end|>"),
    form=PYTHON,
)
HARMONY = CallStyle(
    "openai",
    head="<|channel|>commentary to=functions.",
    middle=" <|constrain|>json<|message|>",
    tail="",
    trigger="<|channel|>",
    control=("<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>", "<|call|>"),
)
"""gpt-oss', with a grammar of its own. Its replies are read in Hermes' style, see ``told``."""

_BY_MARK: tuple[tuple[str, CallStyle], ...] = (
    ("<|tool_call>call:", GEMMA4),
    ("<|tool_call_start|>", LFM2),
    ("List of tools: ", LFM2),
    ("</arg_key><arg_value>", GLM47),
    ("<arg_key>", GLM45),
    ("<seed:tool_call>", SEED_OSS),
    ("<function=", QWEN3_CODER),
    ("<tool_call>", HERMES),
)


def style_of(template: str | None) -> tuple[CallStyle, bool]:
    """Return the call style of models with this chat template, and whether the template renders tools.

    One that does so in a style that is not known here is taken for one that does not: it is told of
    Hermes' style in a message.
    """
    if template is None or not re.search(r"\btools\b", template):
        return (GEMMA_CODE if template and "<start_of_turn>" in template else HERMES), False
    if is_harmony(template):
        return HARMONY, True
    if "[TOOL_CALLS]" in template:
        return (MISTRAL if "[ARGS]" in template else MISTRAL_LIST), True
    for mark, style in _BY_MARK:
        if mark in template:
            return style, True
    if "<|eot_id|>" in template and '"parameters"' in template:
        return LLAMA, True
    return HERMES, False


def told(style: CallStyle) -> CallStyle:
    """Return the style in which a reply's text has the calls that a model writes in ``style``."""
    return HERMES if style is HARMONY else style


def is_harmony(template: str) -> bool:
    """Return whether a chat template writes gpt-oss' harmony format."""
    return "<|channel|>" in template and "<|message|>" in template
