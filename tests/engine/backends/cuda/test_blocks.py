"""A GGUF file whose matrices have different formats, multiplied as they are stored."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.kernels.cuda.linear.dispatch import JoinedLinear
from engine.local.session import Session
from engine.request import Speculation
from tests.engine.backends.cuda.small import SIZES, load, load_reference, tokens, write_pair
from tests.engine.backends.cuda.test_decoder import distance
from tests.engine.backends.cuda.test_rounds import NONE, PENALISED, draft, words
from tests.support.gguf_files import write_gguf

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

WIDE = {**SIZES, "hidden_size": 256, "intermediate_size": 256, "tie_word_embeddings": False}
"""A row is a whole block of the K formats."""
MIXED = {
    "attn_k": "Q5_0", "attn_v": "Q6_K", "attn_output": "MXFP4", "ffn_up": "Q8_0", "ffn_down": "Q6_K",
    "output.": "Q8_0",
}  # fmt: skip
"""As files mix them within what is one product here; the others are Q4_K."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the files of a target and of its draft."""
    root = tmp_path_factory.mktemp("blocks")
    folders = root / "target", root / "draft"
    write_pair(*folders, **WIDE)
    target, own = (write_gguf(each, root / f"{each.name}.gguf", stored_in) for each in folders)
    return target, own


def stored_in(name: str, weight: object) -> str:
    if "norm" in name:
        return "F32"
    return next((kind for part, kind in MIXED.items() if part in name), "Q4_K")


def test_logits_are_those_of_the_dequantised_weights(files: tuple[Path, Path]) -> None:
    """A prompt, then rows after it: embedding, head and every product, alone and joined."""
    text = tokens(9)
    model, reference = load(files[0], "auto"), load_reference(files[0])
    assert model.info.quantization == "stored"
    assert isinstance(model.layers[0].inputs.streamed, JoinedLinear)  # type: ignore[attr-defined]
    ours, theirs = model.new_state(64), reference.new_state(64)
    for part in (text[:5], text[5:6], text[6:]):
        found = model.forward(part, ours, last=len(part))
        assert distance(found, reference.forward(part, theirs, last=len(part))) < 0.06


def test_a_row_has_the_same_bits_beside_any_others(files: tuple[Path, Path]) -> None:
    model, text = load(files[0], "stored"), tokens(19)
    state = model.new_state(64)
    model.forward(text[:3], state, last=0)
    together = model.forward(text[3:], state, last=16)
    for first, count in ((15, 1), (6, 1), (0, 7), (0, 1)):
        state.rewind(3 + first)
        alone = model.forward(text[3 + first : 3 + first + count], state, last=count)
        assert torch.equal(alone, together[first : first + count]), first


def test_a_long_prompt_is_dequantised_for_cublas(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tokens(14)
    model = load(files[0], "stored")
    expected = model.forward(text, model.new_state(64), last=4).cpu()
    monkeypatch.setattr("engine.kernels.cuda.linear.bulk.STREAMED_ROWS", 4)
    found = model.forward(text, model.new_state(64), last=4)
    assert distance(found, expected) < 0.06


@pytest.mark.exhaustive
def test_words_do_not_depend_on_who_drafts(files: tuple[Path, Path]) -> None:
    target, own = files
    session = Session(
        load(target, "stored"), TextCodec(target), Resources(draft=load(own, "stored"))
    )
    alone = words(session, NONE, PENALISED, max_tokens=3)
    for asked in (draft(2), Speculation(proposer="ngram", depth=3)):
        assert words(session, asked, PENALISED, max_tokens=3) == alone
