"""A reply as chunks: its tokens, its text, its probabilities, its figures."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from app.worker.model_card import write_model_card
from app.worker.request_conversion import Chunk, ConvertedRequest, OutputChunks, convert_request
from engine.api import LoadRequest
from engine.decoding.text.codec import TextCodec
from engine.errors import ForetokenError
from engine.events import Failed, Finished, FinishReason, Started
from engine.local.engine import LocalEngine
from engine.remote.reading import Reading
from engine.remote.statistics import counted
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.values.messages import Message
from tests.support.places import PIP

PROMPT = "The pair that you see is called"


def answered(asked: ConvertedRequest) -> tuple[list[Chunk], ReplyState]:
    with contextlib.closing(LocalEngine()) as engine:
        engine.load(LoadRequest(target=str(PIP / "target"), draft=str(PIP / "draft"), native=False))
        events = list(engine.generate(asked.request))
    chunks = OutputChunks(asked)
    told = [chunk for event in events if (chunk := chunks.add(event)) is not None]
    return told, ReplyState.of(events)


def test_chunks_joined_are_the_reply() -> None:
    prompt = TextCodec(PIP / "target").encode(PROMPT, special=True)
    given = {
        "token_ids": prompt,
        "stop_conditions": {"max_tokens": 24, "ignore_eos": True},
        "output_options": {"logprobs": 2},
    }
    drafting = Speculation(proposer="draft", depth=4)
    told, reply = answered(convert_request(given, drafting, (), tuple(prompt[-2:])))
    assert [token for chunk in told for token in chunk["token_ids"]] == list(reply.token_ids or ())
    assert "".join(chunk["text"] for chunk in told) == reply.text
    assert all("finish_reason" not in chunk for chunk in told[:-1])
    last = told[-1]
    assert last["finish_reason"] == "length"
    assert last["completion_usage"]["completion_tokens"] == 24
    assert last["completion_usage"]["prompt_tokens"] == len(prompt)
    assert last["engine_data"]["timings"]["draft_n"] == reply.statistics.drafted > 0
    read = Reading()
    read.add({"choices": [], "nvext": {"engine_data": last["engine_data"]}})
    through = counted(read)
    assert through.rounds == reply.statistics.rounds > 0
    assert through.accepted_at == reply.statistics.accepted_at
    for chunk in told[:-1]:
        assert len(chunk["log_probs"]) == len(chunk["top_logprobs"]) == len(chunk["token_ids"])
        for p, likely, token in zip(
            chunk["log_probs"], chunk["top_logprobs"], chunk["token_ids"], strict=True
        ):
            # At temperature 0 every token is the likeliest one in its place.
            assert (likely[0]["token_id"], likely[0]["rank"]) == (token, 1)
            assert p == pytest.approx(likely[0]["logprob"])
            assert likely[1]["logprob"] <= p < 0
    assert json.loads(json.dumps(told)) == told


def test_of_a_prompt_that_may_hold_what_another_worker_wrote_no_usage_is_told() -> None:
    """The tokens that were handed over counted as prompt: 34 for 4. The frontend counts them right."""
    prompt = (1, 2, 3, 4)
    for handed, counts in (((), True), ((7, 8, 9), False), ((3, 4, 7), False)):
        asked = convert_request({"token_ids": [*prompt, *handed]}, Speculation(), (), prompt[-2:])
        chunks = OutputChunks(asked)
        chunks.add(Started("pip", "none", "greedy", None, 0))
        last = chunks.add(Finished(FinishReason.STOP, "", "", ()))
        assert last is not None and ("completion_usage" in last) == counts
    assert not convert_request({"token_ids": [1]}, Speculation(), ()).starts_reply


def test_a_reply_that_failed_raises_its_words() -> None:
    chunks = OutputChunks(ConvertedRequest(Request(prompt="x"), None, True))
    with pytest.raises(ForetokenError, match="out of memory"):
        chunks.add(Failed("out of memory"))


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_card_tokenizes_as_the_engine_does(
    kind: str, gguf_pair: tuple[Path, Path], tmp_path: Path
) -> None:
    model = PIP / "target" if kind == "folder" else gguf_pair[0]
    card = write_model_card(model, tmp_path / "card")
    codec = TextCodec(model)
    text = "Hello, <|user|> 12 wörlds!\n\n  def f(): pass"
    theirs = Tokenizer.from_file(str(card.folder / "tokenizer.json"))
    assert theirs.encode(text, add_special_tokens=False).ids == codec.encode(text, special=False)
    said = json.loads((card.folder / "tokenizer_config.json").read_text())
    assert card.has_template == codec.has_template == ("chat_template" in said)
    asked = Request(
        messages=(Message("user", text), Message("assistant", "Hi"), Message("user", "?"))
    )
    assert card.generation_prompt and codec.encode_request(asked)[
        -len(card.generation_prompt) :
    ] == list(card.generation_prompt)
    assert json.loads((card.folder / "generation_config.json").read_text()) == {
        "eos_token_id": list(card.eos)
    }
    assert json.loads((card.folder / "config.json").read_text())["vocab_size"] > 0
    assert {file.name for file in card.folder.iterdir()} == {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
