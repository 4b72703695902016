"""Whether a model's rows depend on the rows beside them is found out; if so, nothing drafts for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.backends import gpu_trial, row_independence
from engine.backends.torch.decoder import TorchDecoder
from engine.errors import InvalidRequest
from engine.events import Finished
from engine.local.engine import LocalEngine
from engine.models.base import Model
from engine.request import Request, Speculation
from tests.support.families import write_family
from tests.support.loading import load_model, request_for


def spoiled(model: Model) -> TorchDecoder:
    """Let the first logits depend on the number of rows, in the last bits."""
    assert isinstance(model, TorchDecoder)
    head = model.head
    model.head = lambda x: head(x) * (1 + 1e-6 * (len(x) > 4))
    return model


@pytest.mark.parametrize("family", ["one KV head", "lfm2", "gemma2"])
def test_a_model_whose_rows_differ_is_found_out(family: str, tmp_path: Path) -> None:
    """Also one with a recurrence, whose state cannot be cropped."""
    write_family(tmp_path, family)
    model = load_model(tmp_path, native=False, quantization="fp32")
    assert row_independence.first_fault(model) == ""
    found = row_independence.first_fault(spoiled(model))
    assert found == "its logits differ with 5 rows instead of 1"


def test_nothing_drafts_for_such_a_model_and_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the CPU were a GPU where torch is not exact."""
    write_family(tmp_path, "one KV head")

    def tried(model: Model, *_: object) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(row_independence, "first_fault", lambda _: "its logits differ")
            patch.setattr(model, "device", torch.device("cuda"))
            gpu_trial.try_on_gpu(model, None, "fp32", None, lambda: None, lambda share: None)

    monkeypatch.setattr("engine.local.pair.try_on_gpu", tried)
    engine = LocalEngine()
    loaded = engine.load(request_for(tmp_path, native=False, quantization="fp32"))
    note = next(note for note in loaded.notes if "not exact enough for drafting" in note)
    assert loaded.capabilities.names == ("none",) and loaded.capabilities.preferred == "none"
    assert {each.reason for each in loaded.capabilities.unavailable} == {note}
    asked = {"token_ids": (5, 6), "max_tokens": 2, "ignore_eos": True}
    with pytest.raises(InvalidRequest, match=r"not exact enough for drafting.*Choose none"):
        engine.generate(Request(**asked, speculation=Speculation(proposer="ngram")))
    plain = engine.generate(Request(**asked, speculation=Speculation(proposer="none")))
    assert isinstance(list(plain)[-1], Finished)
    engine.close()
