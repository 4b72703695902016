"""Rounds told as events: each token knows its place, whatever its bytes and whatever is held back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decoding.loop import StoppingCriteria
from engine.decoding.text.channels import Harmony
from engine.decoding.text.output_processor import OutputProcessor
from engine.events import (
    Budget,
    Emitted,
    Event,
    Finished,
    FinishReason,
    Origin,
    Round,
    Timing,
    Tree,
)
from engine.thoughts import THINK, THOUGHT
from engine.tool_calls.styles import HERMES, LLAMA, MISTRAL_LIST, CallStyle
from engine.values.tools import ToolCall

EOS = 256


class Bytes:
    """A codec whose tokens are the bytes of UTF-8: most characters of the world take several.

    Those from ``EOS`` on are control tokens."""

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token for token in tokens if token < EOS).decode(errors="replace")

    def token_text(self, token: int) -> str:
        return self.decode([token])


def rounds(tokens: Sequence[int], sizes: Sequence[int]) -> Iterator[Round]:
    """``tokens`` in rounds that emit so many each, all but the last of a round drafted."""
    start = index = 0
    while start < len(tokens):
        emitted = list(tokens[start : start + sizes[index % len(sizes)]])
        accepted = len(emitted) - 1
        yield Round(
            index=index,
            proposer="draft",
            budget=Budget(accepted, accepted),
            tree=Tree.chain(emitted[:-1]),
            accepted_path=tuple(range(accepted)),
            next_token=emitted[-1],
            origin=Origin.BONUS,
            p=(0.5,) * accepted,
            q=(0.5,) * accepted,
            next_p=0.5,
            timing=Timing(0.0, 0.0, 0.0),
            emitted=len(emitted),
        )
        start += len(emitted)
        index += 1


def narrated(
    text: str,
    stop: tuple[str, ...],
    sizes: Sequence[int],
    calls: CallStyle | None = None,
    offered: Sequence[str] = (),
) -> list[Event]:
    codec: Any = Bytes()
    processor = OutputProcessor(
        codec, [], stop, StoppingCriteria(10**9, (EOS,)), calls=calls, tools=offered
    )
    return events_of(processor, [*text.encode(), EOS], sizes)


def events_of(
    processor: OutputProcessor, tokens: Sequence[int], sizes: Sequence[int]
) -> list[Event]:
    events: list[Event] = []
    for each in rounds(tokens, sizes):
        events.append(processor.add(each))
        if processor.stopped:
            break
    return [*events, processor.finish(cancelled=False)]


def check_places(events: list[Event]) -> Finished:
    """Places run on without gaps, and what is shown is where the tokens' texts begin."""
    *emitted, finished = events
    assert isinstance(finished, Finished)
    joined = ""
    for event in emitted:
        assert isinstance(event, Emitted) and event.tokens is not None
        for token in event.tokens:
            assert token.start == len(joined)
            joined += token.text
    shown = "".join(event.text for event in emitted if isinstance(event, Emitted)) + finished.tail
    assert shown == finished.text
    assert joined.startswith(finished.text) or (joined + "\ufffd").startswith(finished.text)
    return finished


def test_a_character_of_several_tokens_stands_where_its_last_token_completes_it() -> None:
    events = narrated("a😀漢b", (), [3])
    assert check_places(events).text == "a😀漢b"
    tokens = [t for e in events if isinstance(e, Emitted) for t in e.tokens or ()]
    assert [(t.start, t.text) for t in tokens if t.text] == [
        (0, "a"), (1, "😀"), (2, "漢"), (3, "b"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "tokens", "reason"),
    [(9, [97, EOS], FinishReason.STOP), (2, [97, 98], FinishReason.LENGTH),
     (3, [97, 98], FinishReason.CANCELLED)],
)  # fmt: skip
def test_a_reply_that_ended_by_itself_was_not_cancelled(
    limit: int, tokens: list[int], reason: FinishReason
) -> None:
    codec: Any = Bytes()
    processor = OutputProcessor(codec, [], (), StoppingCriteria(limit, (EOS,)))
    events_of(processor, tokens, [2])
    assert processor.finish(cancelled=True).reason is reason


def test_a_stop_string_ends_the_reply_and_moves_no_place() -> None:
    events = narrated("漢 STAY 😀 STOP after", ("STOP",), [2, 5, 1])
    assert check_places(events).text == "漢 STAY 😀 "


@pytest.mark.parametrize(
    ("stop", "answer"), [("\n", "b!"), ("\n\n", "b!"), ("b", ""), ("a!b", "b!")]
)
def test_a_stop_string_is_found_in_the_models_own_text_alone(stop: str, answer: str) -> None:
    """gpt-oss' replies ended at the line feed of the mark that is written around its thought."""
    ids = {name: EOS + 1 + at for at, name in enumerate(Harmony.NAMES)}
    channel, message, start, end, *_ = ids.values()
    thought = [channel, *b"analysis", message, *b"a!", end, start, *b"assistant"]
    tokens = [*thought, channel, *b"final", message, *b"b!", EOS]
    codec: Any = Bytes()
    processor = OutputProcessor(
        codec, [], (stop,), StoppingCriteria(10**9, (EOS,)), channels=Harmony(ids)
    )
    finished = check_places(events_of(processor, tokens, [3]))
    assert finished.text == f"{THINK}a!{THOUGHT}{answer}"
    assert finished.stop_string == (None if answer else stop)


@pytest.mark.parametrize("style", [HERMES, MISTRAL_LIST, LLAMA], ids=lambda style: style.name)
@pytest.mark.parametrize("sizes", [[1], [16], [3, 7, 2]], ids=str)
def test_a_reply_ends_behind_the_call_that_it_makes_again(
    style: CallStyle, sizes: list[int]
) -> None:
    """In whatever rounds its text comes; one with other arguments, or of another tool, is a new one."""
    rome, oslo = '{"city": "Rome"}', '{"city": "Oslo {1}"}'
    asked = [("wind", rome), ("wind", oslo), ("rain", rome), ("wind", oslo), ("wind", rome)]
    calls = [ToolCall("", name, arguments) for name, arguments in asked]
    finished = check_places(narrated(style.written(calls), (), sizes, style))
    assert finished.text == style.written(calls[:4]).removesuffix(style.tail + style.closing)
    assert finished.reason is FinishReason.STOP
    if not style.whole:
        bare = [f'{{"name": "{call.name}", "arguments": {call.arguments}}}\n' for call in calls]
        told = narrated("".join(bare), (), sizes, style, ("wind", "rain"))
        assert check_places(told).text == "".join(bare[:4]).removesuffix("}\n")
    whole = style.written(calls[:3])
    assert check_places(narrated(whole, (), sizes, style)).text == whole


@given(
    text=st.text(st.sampled_from("aSTOP😀漢é\n "), max_size=40),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_places_hold_for_any_text_in_any_rounds(text: str, sizes: list[int]) -> None:
    finished = check_places(narrated(text, ("STOP", "😀😀"), sizes))
    ends = [at for stop in ("STOP", "😀😀") if (at := text.find(stop)) >= 0]
    assert finished.text == text[: min(ends, default=len(text))]
