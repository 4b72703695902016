"""Mixtures of experts in the kernels: each row is multiplied by the weights of its own experts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda.feed_forward import CudaExperts
from engine.backends.cuda.trial.findings import Comparison
from engine.backends.cuda.trial.linear import ExpertsCase, linear_cases
from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.local.session import Session
from tests.engine.backends.cuda.small import load, load_reference, tokens
from tests.engine.backends.cuda.test_decoder import APART, distance
from tests.engine.backends.cuda.test_rounds import DRAWN, NONE, draft, run
from tests.engine.backends.cuda.wrong_kernels import put_wrong, spoil_values
from tests.support.families import write_family

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

ONE = {"num_hidden_layers": 1, "hidden_size": 64, "head_dim": 16, "intermediate_size": 64}
MODELS = {
    "mixtral": {**ONE},
    # Sigmoid scores with a bias, and a shared expert.
    "glm4-moe": {**ONE, "first_k_dense_replace": 0},
    # A gate that is no silu, biases and clamps, and attention with sinks; its first layer slides.
    "gpt-oss": {**ONE},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mixtral")
    write_family(made, "mixtral", **MODELS["mixtral"])
    return made


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("glm4-moe", "bf16"),
        *(
            pytest.param(*each, marks=pytest.mark.exhaustive)
            for each in (("mixtral", "int8"), ("mixtral", "nf4"), ("gpt-oss", "bf16"))
        ),
    ],
)
def test_logits_are_those_of_torch_and_a_row_s_bits_its_own(
    name: str, dtype: str, tmp_path: Path
) -> None:
    write_family(tmp_path, name, **MODELS[name])
    text = tokens(20)
    model, reference = load(tmp_path, dtype), load_reference(tmp_path)
    assert isinstance(model.layers[0].feed_forward, CudaExperts)
    state, theirs = model.new_state(64), reference.new_state(64)
    prompt = model.forward(text[:17], state, last=17)  # more than a round's: expert by expert
    assert distance(prompt, reference.forward(text[:17], theirs, last=17)) < APART[dtype]
    state.rewind(4)
    together = model.forward(text[4:], state, last=16, final=False)
    assert distance(together[:13], prompt[4:]) < 0.06
    for count in (1, 5):
        state.commit(())
        found = model.forward(text[4 : 4 + count], state, last=count, final=False)
        assert torch.equal(found, together[:count]), count


def test_words_do_not_depend_on_who_drafts(folder: Path) -> None:
    """The target drafts for itself, within rounds."""
    session = Session(load(folder), TextCodec(folder), Resources(draft=load(folder)))
    asked = {"max_tokens": 4}
    alone = run(session, NONE, DRAWN, **asked)[1].token_ids
    rounds, done = run(session, draft(2), DRAWN, **asked)
    assert done.token_ids == alone
    assert any(round.accepted_path for round in rounds)


@pytest.mark.parametrize("right", [True, False])
def test_a_wrong_product_of_experts_is_found(
    right: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not right:
        put_wrong(monkeypatch, "bf16_gemm", spoil_values)
    cases = [each for each in linear_cases(load(folder)) if isinstance(each, ExpertsCase)]
    assert len(cases) == 2
    for case in cases:
        comparison = Comparison()
        case.check(comparison)
        assert bool(comparison.why) is not right
