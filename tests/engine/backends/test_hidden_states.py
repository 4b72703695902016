"""Hidden states beside the cache: the right ones, with bits as independent as the logits', at no cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.native import build
from engine.decoding.target import Target
from engine.events import Tree
from engine.models.base import HiddenStateModel
from engine.models.hidden_states import NORMED, AuxHiddenStates, AuxLayer, distinct, entering
from tests.support.checkpoints import VOCABULARY, write_random
from tests.support.families import write_family
from tests.support.loading import load_model
from tests.support.places import PIP

LAYERS = 2
TAPS = (*entering(*range(LAYERS + 1)), NORMED)
SIZES: dict[str, Any] = {"hidden_size": 64, "head_dim": 16, "intermediate_size": 128}
RUNS = ("interpreted", "compiled", "adapter")


def tokens(count: int, seed: int = 3) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (count,), generator=generator).tolist()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """A folder and its transformers model: one that the own decoder runs, and one that it does not."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("own", "adapter")}
    return {
        "own": (folders["own"], write_family(folders["own"], "gemma2", **SIZES)),
        "adapter": (folders["adapter"], write_random(folders["adapter"], "olmo")),
    }


def load(run: str, folder: Path, dtype: str, request: pytest.FixtureRequest) -> HiddenStateModel:
    library = request.getfixturevalue("library") if run == "compiled" else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "ready", lambda *_: library)
        model = load_model(folder, quantization=dtype)
    assert isinstance(model, HiddenStateModel)
    return model


@pytest.fixture(scope="module", params=RUNS)
def known(
    request: pytest.FixtureRequest, made: dict[str, tuple[Path, Any]]
) -> tuple[HiddenStateModel, Any]:
    """A loaded model and the transformers model that it should equal."""
    folder, reference = made["adapter" if request.param == "adapter" else "own"]
    return load(request.param, folder, "fp32", request), reference


@pytest.fixture(
    scope="module",
    params=[
        *(f"{run} {kind}" for run in RUNS[:2] for kind in ("fp32", "bf16", "int8", "nf4")),
        "adapter fp32",
        "compiled pip",
    ],
)
def model(request: pytest.FixtureRequest, made: dict[str, tuple[Path, Any]]) -> HiddenStateModel:
    run, kind = request.param.split()
    if kind == "pip":
        return load(run, PIP / "target", "int8", request)
    return load(run, made["adapter" if run == "adapter" else "own"][0], kind, request)


def rows(model: HiddenStateModel, cache: Any, start: int = 0) -> torch.Tensor:
    """All aux (aux layers, tokens, hidden), copied."""
    return cache.aux.rows[:, start : cache.length].clone()


def test_features_are_the_hidden_states_of_transformers(
    known: tuple[HiddenStateModel, Any],
) -> None:
    """Its last hidden state is normed; what leaves the last layer before that comes from a hook."""
    model, reference = known
    text = tokens(200)
    left = []
    hook = reference.model.layers[-1].register_forward_hook(lambda _, __, made: left.append(made))
    with torch.inference_mode():
        *entered, normed = reference(torch.tensor([text]), output_hidden_states=True).hidden_states
    hook.remove()
    last = left[0][0] if isinstance(left[0], tuple) else left[0]
    cache = model.new_state(256, TAPS)
    model.forward(text, cache, last=0)
    assert cache.aux is not None
    for aux_layer, expected in zip(TAPS, [*entered, last, normed], strict=True):
        found = cache.aux.at(aux_layer)[:200]
        assert float((found - expected.reshape(200, -1)).abs().max()) < 1e-3, aux_layer


def test_embedding_and_output_head_are_the_models_own(known: tuple[HiddenStateModel, Any]) -> None:
    model, reference = known
    text = tokens(40)
    table = reference.get_input_embeddings().weight
    assert torch.allclose(model.embed(text), table[text], atol=1e-6)
    cache = model.new_state(64, [NORMED])
    expected = model.forward(text, cache, last=40)
    assert cache.aux is not None
    logits = model.logits(cache.aux.at(NORMED)[:40])
    assert torch.allclose(logits, expected, atol=1e-3)


def test_1_to_16_rows_have_the_features_of_single_rows(model: HiddenStateModel) -> None:
    text, start = tokens(266), 250
    cache = model.new_state(512, TAPS)
    model.forward(text[:start], cache, last=0)
    for token in text[start:]:
        model.forward([token], cache, last=1)
    alone = rows(model, cache)
    for count in range(1, 17):
        cache.rewind(start)
        model.forward(text[start : start + count], cache, last=count)
        assert torch.equal(rows(model, cache), alone[:, : start + count]), count


def test_no_logit_changes_because_hidden_states_are_kept(model: HiddenStateModel) -> None:
    text = tokens(150)
    plain, aux_states = model.new_state(256), model.new_state(256, TAPS)
    for part in (text[:130], text[130:131], text[131:]):
        expected = model.forward(part, plain, last=len(part))
        assert torch.equal(model.forward(part, aux_states, last=len(part)), expected)
    assert plain.aux is None


patterns = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=1, max_size=4)


@settings(max_examples=5, deadline=None)
@given(rounds=patterns)
def test_after_any_rounds_features_are_those_of_a_fresh_run(
    model: HiddenStateModel, rounds: list[tuple[int, int]]
) -> None:
    """Row i is token i's, whatever was drafted, rejected and committed."""
    target = Target(model, TAPS)
    target.extend(tokens(20))
    for seed, (depth, stand) in enumerate(rounds):
        pending, *drafted = tokens(depth + 1, seed)
        target.verify(pending, Tree.chain(drafted))
        target.commit(range(min(stand, depth)))
    target.reuse(target.keys[:-1])  # a follow-up computes the last token again
    target.extend(tokens(3, 9))
    fresh = Target(model, TAPS)
    fresh.extend(target.keys)
    for aux_layer in TAPS:
        found, expected = (
            each.aux_hidden_states(aux_layer, 0, each.length) for each in (target, fresh)
        )
        assert found.dtype is torch.float32
        assert torch.equal(found, expected)


def test_features_beyond_the_cached_tokens_are_refused(model: HiddenStateModel) -> None:
    target = Target(model, [NORMED])
    target.extend(tokens(5))
    with pytest.raises(ValueError, match="tokens 0 to 6 of 5 have no hidden states"):
        target.aux_hidden_states(NORMED, 0, 6)
    with pytest.raises(KeyError):
        target.aux_hidden_states(AuxLayer(0), 0, 5)
    with pytest.raises(KeyError):
        Target(model).aux_hidden_states(NORMED, 0, 0)


def test_the_hidden_states_of_a_layer_that_is_not_there_cannot_be_read(
    model: HiddenStateModel,
) -> None:
    beyond: Callable[[int], object] = lambda layer: model.new_state(16, entering(layer))  # noqa: E731
    beyond(model.info.layers)
    with pytest.raises(ValueError, match="there is no layer"):
        beyond(model.info.layers + 1)


def test_aux_layers_are_joined_in_the_order_of_their_heads() -> None:
    assert distinct([NORMED, *entering(2, 1), NORMED, AuxLayer(2)]) == (
        NORMED,
        AuxLayer(2),
        AuxLayer(1),
    )


def test_what_nobody_reads_is_not_kept() -> None:
    aux = AuxHiddenStates(
        [NORMED],
        layers=2,
        hidden=4,
        context=8,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    aux.write(AuxLayer(1), torch.arange(2), torch.ones(2, 4))
    assert not aux.rows.any()
