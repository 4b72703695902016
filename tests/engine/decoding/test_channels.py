"""Replies in channels, token by token, in the form that pages and API know."""

from __future__ import annotations

import re

import pytest

from engine.decoding.text.channels import channels_of
from engine.thoughts import split

HARMONY = (
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|end|>",
    "<|constrain|>",
    "<|call|>",
    "<|return|>",
)
GEMMA = ("<|channel>", "<channel|>")
COMMAND = ("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>")
NEXT = "<|end|><|start|>assistant"
ANALYSIS, FINAL = (f"<|channel|>{name}<|message|>" for name in ("analysis", "final"))
CALL = '<tool_call>\n{"name": "find", "arguments": {"q": 1}}\n</tool_call>'
REPLIES = [
    (
        HARMONY,
        f"{ANALYSIS}It asks.{NEXT}{FINAL}Blue.<|return|>",
        "It asks.",
        "Blue.",
    ),
    (HARMONY, f"{FINAL}Blue.<|return|>", "", "Blue."),
    (
        HARMONY,
        f"{ANALYSIS}One.{NEXT}{ANALYSIS}Two.{NEXT}{FINAL}Blue.",
        "One.\n\nTwo.",
        "Blue.",
    ),
    (
        HARMONY,
        f"{ANALYSIS}Look.{NEXT}<|channel|>commentary to=functions.find "
        '<|constrain|>json<|message|>{"q": 1}<|call|>',
        "Look.",
        CALL,
    ),
    (
        HARMONY,
        f"<|channel|>commentary<|message|>I look.{NEXT} to=functions.find<|channel|>"
        'commentary json<|message|>{"q": 1}<|call|>',
        "",
        f"I look.\n{CALL}",
    ),
    (
        HARMONY,
        f"<|channel|>commentary<|message|>I look.{NEXT}{ANALYSIS}Hm.{NEXT}{FINAL} Blue.",
        "",
        "I look. Blue.",
    ),
    (HARMONY, f"{ANALYSIS}It", "It", ""),
    (HARMONY, "Blue, analysis.", "", "Blue, analysis."),
    (HARMONY, f"<|channel|>{'x' * 300}", "", f"<|channel|>{'x' * 300}"),
    (GEMMA, "<|channel>thought\nIt asks.<channel|>Blue.", "It asks.", "Blue."),
    (GEMMA, "<|channel>thought\n<channel|>Blue.", "", "Blue."),
    (GEMMA, "Blue.<|channel>thought\nHm.<channel|> Red.", "", "Blue. Red."),
    (GEMMA, "<|channel>other<channel|>Blue.", "other", "Blue."),
    (GEMMA, "thought\nBlue.", "", "thought\nBlue."),
    (
        COMMAND,
        "<|START_THINKING|>It asks.<|END_THINKING|><|START_RESPONSE|>Blue.",
        "It asks.",
        "Blue.",
    ),
]


@pytest.mark.parametrize("size", [1, 4, 99])
@pytest.mark.parametrize(("names", "reply", "thought", "answer"), REPLIES)
def test_thought_answer_and_calls_are_told_apart(
    names: tuple[str, ...], reply: str, thought: str, answer: str, size: int
) -> None:
    """Control tokens have no text of their own; other tokens have pieces of any size."""
    channels = channels_of(lambda name: names.index(name) if name in names else None)
    assert channels is not None
    text = ""
    for part in re.split(f"({'|'.join(map(re.escape, names))})", reply):
        if part in names:
            text += "".join(channels.read(names.index(part), ""))
            continue
        for at in range(0, len(part), size):
            text += "".join(channels.read(99, part[at : at + size]))
    parts = split(text)
    assert (parts.thought, parts.answer) == (thought, answer)


def test_other_models_have_no_channels() -> None:
    assert channels_of(lambda name: None) is None
    assert channels_of({"<|start|>": 1, "<|end|>": 2}.get) is None
