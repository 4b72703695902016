"""Images in prompts: transformers' logits, the same words under every proposer, and no shared state."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from torch import Tensor

from engine.api import Generation
from engine.errors import InvalidRequest
from engine.events import Event, Finished, Prefilled
from engine.kernels.native.library import Library
from engine.local.engine import LocalEngine
from engine.models.checkpoints.checkpoint import inspect
from engine.models.prompt_content import PromptContent
from engine.request import Request, Speculation
from engine.values.messages import Image, Message
from engine.values.prompt import OpaquePart, Prompt
from engine.vision.pictures import decode
from engine.vision.plan import VisionPlan, vision_of
from engine.vision.towers import Pixels, Tower
from tests.support.checkpoints import write_random, write_tokenizer
from tests.support.gguf_files import write_gguf
from tests.support.gguf_towers import write_mmproj
from tests.support.heads import write_mtp
from tests.support.loading import request_for
from tests.support.seeing import PAD, SPECIAL, TEMPLATE, picture, write_seeing

TEXT = "Once upon a time there was a little key that opened every second door. " * 3
WORDS = 24


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("seeing")
    model = write_seeing(folder)
    write_mtp(folder)
    return folder, model


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("draft")
    write_random(folder)
    write_tokenizer(folder, template=TEMPLATE, special=SPECIAL)
    return folder


@pytest.fixture(scope="module")
def engine(seeing: tuple[Path, Any], draft: Path, library: Library) -> Iterator[LocalEngine]:
    yield from _engine(seeing[0], draft, native=True)


@pytest.fixture(scope="module")
def in_torch(seeing: tuple[Path, Any]) -> Iterator[LocalEngine]:
    yield from _engine(seeing[0], None, native=False)


def _engine(target: Path, draft: Path | None, *, native: bool) -> Iterator[LocalEngine]:
    made = LocalEngine()
    wanted = request_for(target, draft, native=native, quantization="fp32", parallel=2)
    loaded = made.load(wanted)
    assert loaded.capabilities.images and loaded.compiled is native
    yield made
    made.close()


def told(*parts: str | bytes) -> Message:
    """A message of the user's with text and images in this order."""
    text, images = "", []
    for part in parts:
        if isinstance(part, str):
            text += part
        else:
            images.append(Image(part, len(text)))
    return Message("user", text, images=tuple(images))


def asked(*messages: Message, proposer: str = "none", **others: Any) -> Request:
    others = {"max_tokens": WORDS, "ignore_eos": True, **others}
    return Request(messages=messages, speculation=Speculation(proposer=proposer), **others)


def answered(engine: LocalEngine, request: Request) -> tuple[list[Event], Finished]:
    events = list(engine.generate(request))
    last = events[-1]
    assert isinstance(last, Finished), last
    return events, last


def reused(events: Sequence[Event]) -> int:
    return next(event.reused for event in events if isinstance(event, Prefilled))


def prompt_of(engine: LocalEngine, request: Request) -> Prompt:
    return engine._need_pair().session.prepare(request).prompt


def content_of(engine: LocalEngine, prompt: Prompt) -> PromptContent:
    images = engine._need_pair().session._images
    assert images is not None
    computing = images.content(prompt, 0, lambda: False, 0.01)
    while True:
        try:
            next(computing)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def by_transformers(seeing: tuple[Path, Any], prompt: Prompt, files: Sequence[bytes]) -> Tensor:
    """The logits at every position, of transformers' model and image processor."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    folder, model = seeing
    processor = Qwen2VLImageProcessorPil.from_pretrained(folder)
    opened = [Pillow.open(io.BytesIO(file)) for file in files]
    pixels = processor(images=opened, return_tensors="pt")
    ids = torch.tensor([prompt.tokens])
    with torch.inference_mode():
        logits: Tensor = model(input_ids=ids, mm_token_type_ids=(ids == PAD).int(), **pixels).logits
    return logits[0]


def computed(engine: LocalEngine, prompt: Prompt, cuts: Sequence[int]) -> Tensor:
    """The logits of all rows, computed in parts of so many."""
    model = engine._need_pair().session.target.model
    state = model.new_state(400)
    state.content = content_of(engine, prompt)
    logits, left = [], list(prompt.tokens)
    while left:
        for cut in cuts:
            part, left = left[:cut], left[cut:]
            if part:
                logits.append(model.forward(part, state, last=len(part)))
    return torch.cat(logits)


@pytest.mark.parametrize("executor", ["engine", "in_torch"])
def test_logits_are_transformers_at_every_position(
    executor: str, seeing: tuple[Path, Any], request: pytest.FixtureRequest
) -> None:
    """Two images of different shapes between texts, at once and in parts that cut them: same bits."""
    engine: LocalEngine = request.getfixturevalue(executor)
    files = picture(), picture(40, 130, seed=2)
    said = told(TEXT, files[0], "and", files[1]), Message("assistant", TEXT), told("Hm?")
    prompt = prompt_of(engine, asked(*said))
    assert len(prompt.tokens) > 150
    images = [part.content for part in prompt.parts if isinstance(part, OpaquePart)]
    assert [image.grid for image in images if isinstance(image, Pixels)] == [(3, 4), (8, 2)]
    expected = by_transformers(seeing, prompt, files)
    rows = computed(engine, prompt, [16])
    assert (rows - expected).abs().max() < 1e-3 * expected.std()
    for cuts in ([1, 16, 7], [len(prompt.tokens)]):
        assert torch.equal(computed(engine, prompt, cuts), rows)


def test_every_proposer_says_what_plain_decoding_says(engine: LocalEngine) -> None:
    """In a chat of three turns whose first has the image; drafts see placeholders."""
    messages: list[Message] = [told("Look: ", picture(), "what is it?")]
    for turn in range(3):
        words = {}
        for proposer in engine.loaded.capabilities.names:  # type: ignore[union-attr]
            _, last = answered(engine, asked(*messages, proposer=proposer))
            words[proposer] = last.token_ids
        assert set(words.values()) == {words["none"]}
        assert {"draft", "mtp", "ngram", "best"} <= words.keys()
        messages += [Message("assistant", f"A key, {turn}."), told("And then? " * 8)]
    fresh, first = answered(engine, asked(*messages[:-2], reuse_cache=False))
    assert reused(fresh) == 0 and first.token_ids == words["none"]


def test_a_follow_up_computes_no_image_again(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = told("Look: ", picture(seed=5), "what is it?" * 4)
    _, said = answered(engine, asked(first))
    monkeypatch.setattr(Tower, "embeddings", None)
    follow_up = asked(first, Message("assistant", said.text), told("Really?"))
    events, _ = answered(engine, follow_up)
    assert reused(events) > len(prompt_of(engine, asked(first)).tokens) - 8


def test_two_images_never_share_a_state(engine: LocalEngine) -> None:
    """Their placeholders are the same tokens; neither slot nor copy may be taken for the other's."""
    one, other = (asked(told("Look: ", picture(seed=seed), "say it")) for seed in (7, 8))
    assert prompt_of(engine, one).tokens == prompt_of(engine, other).tokens
    before = prompt_of(engine, one).tokens.index(PAD)
    words = []
    for request in (one, other, one):
        events, last = answered(engine, request)
        assert reused(events) <= before or request is one
        words.append(last.token_ids)
    assert words[0] == words[2] != words[1]
    together = [engine.generate(request) for request in (other, one)]
    assert [list(each)[-1].token_ids for each in together] == [words[1], words[0]]  # type: ignore[union-attr]


def test_a_request_is_cancelled_while_its_image_is_computed(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: SimpleQueue[Generation] = SimpleQueue()
    compute = Tower.compute

    def cancelling(tower: Any, module: Any, pixels: Any) -> Tensor:
        asked_for.get(timeout=60).cancel()
        return compute(tower, module, pixels)

    request = asked(told(picture(seed=11), "what?"))
    _, expected = answered(engine, asked(told(picture(seed=12), "what?")))
    monkeypatch.setattr(Tower, "compute", cancelling)
    generation = engine.generate(request)
    asked_for.put(generation)
    last = list(generation)[-1]
    assert isinstance(last, Finished) and last.token_ids == ()
    monkeypatch.undo()
    assert (
        answered(engine, asked(told(picture(seed=12), "what?")))[1].token_ids == expected.token_ids
    )


def test_top_tokens_see_the_image_of_their_own_request_alone(engine: LocalEngine) -> None:
    """They saw that of the request before, and left what they computed with it for the next."""
    requests = [asked(told(TEXT)), asked(told("Look: ", picture(seed=3)))]
    afresh = [
        replace(request, reuse_cache=False) for request in requests
    ]  # in the slot of top tokens
    replies = [answered(engine, request)[1].token_ids for request in afresh]
    for request, said in zip(requests, replies, strict=True):
        best = engine.top_tokens(request, said[:4], 1)
        assert best[0].id == said[4]
        assert answered(engine, request)[1].token_ids == said


def test_a_model_without_a_tower_says_why(draft: Path) -> None:
    engine = LocalEngine()
    loaded = engine.load(request_for(draft))
    assert loaded.capabilities.why_no_images == (
        f"{draft.name} cannot see images: it was made for text alone."
    )
    with pytest.raises(InvalidRequest, match=r"An image was sent\. .* made for text alone"):
        engine.generate(asked(told(picture())))
    engine.close()


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0"])
def test_a_gguf_file_sees_by_the_mmproj_file_beside_it(tmp_path: Path, kind: str) -> None:
    """It says what the folder says that both were made of; in fewer bits, nearly so."""
    folder, files = tmp_path / "folder", tmp_path / "files"
    files.mkdir()
    write_seeing(folder, sizes={"shortest_edge": 65_536, "longest_edge": 16_777_216})
    model = write_gguf(folder, files / "Tiny-F32.gguf")
    tower = write_mmproj(folder, files / f"mmproj-Tiny-{kind}.gguf", kind)
    plans = [vision_of(inspect(path)) for path in (folder, model)]
    assert all(isinstance(plan, VisionPlan) for plan in plans)
    towers = [Tower(plan, torch.device("cpu")) for plan in plans]  # type: ignore[arg-type]
    pixels = towers[0].scaled(decode(picture(400, 260)))
    assert np.array_equal(pixels.pixels, towers[1].scaled(decode(picture(400, 260))).pixels)
    one, other = (each.embeddings(pixels, lambda: False) for each in towers)
    assert (one - other).abs().max() <= (0 if kind == "F32" else 0.1) * one.std()
    if kind == "F32":
        words = [said_by(path) for path in (folder, model)]
        assert words[0] == words[1]
        tower.rename(files / "mmproj-Other-F32.gguf")
        (files / "mmproj-Else-F32.gguf").write_bytes(b"GGUF")
        assert "put its mmproj-*.gguf file beside it" in str(vision_of(inspect(model)))
        (folder / "preprocessor_config.json").write_text('{"size": 5}')
        assert vision_of(inspect(folder)) == (
            "folder cannot see images: its vision tower cannot be read: it has an invalid value."
        )


def said_by(model: Path) -> tuple[int, ...]:
    engine = LocalEngine()
    try:
        engine.load(request_for(model, quantization="fp32"))
        return tuple(
            answered(engine, asked(told("Look: ", picture(400, 260), "and?")))[1].token_ids
        )  # type: ignore[arg-type]
    finally:
        engine.close()
