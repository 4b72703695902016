"""Gemma 4's assistants: transformers' logits, and targets whose keys and values they cannot read."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.backends.executors import executed
from engine.backends.linear_factory import LinearFactory
from engine.decoding.target import Target
from engine.drafting import heads
from engine.drafting.heads.assistant import AssistantDraft, AssistantHead
from engine.errors import IncompatiblePair, ModelError
from engine.events import Finished
from engine.kernels.native.library import Library
from engine.models.checkpoints.checkpoint import inspect
from engine.models.hidden_states import NORMED
from engine.request import Request, Speculation
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.checkpoints import open_session
from tests.support.families import write_family
from tests.support.gguf_heads import write_gguf_head
from tests.support.loading import load_model

WINDOW = 24
SIZES = {
    "hidden_size": 64,
    "head_dim": 16,
    "global_head_dim": 32,
    "hidden_size_per_layer_input": 32,
    "intermediate_size": 80,
}
TEXT = torch.randint(300, (40,), generator=torch.Generator().manual_seed(3)).tolist()
CHAIN = [7, 9, 100, 3]


def write_assistant(folder: Path, *, ordered: bool = False, **text: Any) -> Any:
    from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM

    build: Any = Gemma4AssistantConfig
    own = {
        "model_type": "gemma4_text", "vocab_size": 320, "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "global_head_dim": 32, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0,
        "sliding_window": WINDOW, "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        "initializer_range": 0.2, "max_position_embeddings": 512,
    }  # fmt: skip
    grouped = {"num_centroids": 10, "centroid_intermediate_top_k": 3}
    config = build(
        backbone_hidden_size=64, text_config=own | text, use_ordered_embeddings=ordered, **grouped
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model: Any = Gemma4AssistantForCausalLM(config).eval()
        scalars = [each for name, each in model.named_buffers() if name.endswith("scalar")]
        for weight in (*model.parameters(), *scalars):
            if weight.dim() == 1:
                weight.add_(0.2 * torch.randn(weight.shape))
        if ordered:
            model.masked_embedding.token_ordering.copy_(torch.randperm(320))
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, dict[str, Any]]:
    """A target, and its assistants with a head in one step and in two."""
    folder = tmp_path_factory.mktemp("gemma")
    target = write_family(folder / "target", "gemma4", **SIZES)
    made = {name: write_assistant(folder / name, ordered=name == "two") for name in ("one", "two")}
    write_gguf_head(folder / "two", folder / "two.gguf", 4)
    made["two.gguf"] = made["two"]
    return folder, target, made


def expected(target: Any, assistant: Any, read: int) -> Tensor:
    """Transformers' logits (4, vocabulary) behind ``read`` tokens, -inf for those that are not drafted.

    Its mask of sliding layers lets two more tokens be seen than the target's own and llama.cpp's do.
    """
    with torch.inference_mode():
        out = target(
            torch.tensor([TEXT[:read]]), output_hidden_states=True, return_shared_kv_states=True
        )
        state, kept = out.hidden_states[-1][:, -1:], dict(out.shared_kv_states)
        kept["sliding_attention"] = tuple(
            each[:, :, 1 - WINDOW :] for each in kept["sliding_attention"]
        )
        logits = []
        for token in CHAIN:
            embedded = target.get_input_embeddings()(torch.tensor([[token]]))
            made = assistant(
                inputs_embeds=torch.cat([embedded, state], -1),
                position_ids=torch.tensor([[read]]),
                shared_kv_states=kept,
            )
            state = made.last_hidden_state
            row = made.logits[0, 0]
            if assistant.masked_embedding is not None:
                row = row.masked_fill(row == row.min(), float("-inf"))
            logits.append(row)
    return torch.stack(logits)


@pytest.mark.parametrize("steps", ["one", "two", "two.gguf"])
@pytest.mark.parametrize("compiled", [False, True])
def test_logits_are_those_of_transformers(
    pair: tuple[Path, Any, dict[str, Any]], steps: str, compiled: bool, library: Library
) -> None:
    folder, reference, made = pair
    model = load_model(folder / "target", quantization="fp32", native=compiled)
    plan = heads.inspect(folder / steps, inspect(folder / "target"))
    linears = LinearFactory("fp32", torch.device("cpu"), library if compiled else None)
    head = heads.load(plan, linears)
    assert isinstance(head, AssistantHead)
    target = Target(model, head.aux_layers)
    assert target.state.aux is not None and target.state.aux.has(NORMED)
    drafts = executed(partial(AssistantDraft, head), target)
    for read in (20, 40):  # within the window, and beyond
        target.extend(TEXT[target.length : read])
        draft = drafts.begin(read, CHAIN[0])
        assert draft.draws is compiled
        for step, row in enumerate(expected(reference, made[steps], read)):
            found = draft.logits(step)[0]
            if steps == "two.gguf":  # which does not say how many groups it takes
                found = found.where(row.isfinite(), row)
            assert torch.allclose(found, row, atol=1e-3)
            draft.chain[step + 1] = CHAIN[min(step + 1, 3)]


@pytest.mark.parametrize("compiled", [False, True])
def test_words_are_those_of_plain_decoding(
    pair: tuple[Path, Any, Any], compiled: bool, library: Library
) -> None:
    folder = pair[0]
    session = open_session(folder / "target", heads=[folder / "two"], dtype="fp32", native=compiled)
    for temperature, rule in ((0.0, AcceptanceRule.GREEDY), (1.0, AcceptanceRule.COUPLED)):
        texts = []
        for proposer in ("none", "assistant", "best"):
            request = Request(
                token_ids=tuple(TEXT),
                max_tokens=20,
                ignore_eos=True,
                sampling=Sampling(temperature=temperature, seed=3),
                speculation=Speculation(proposer=proposer, depth=5, acceptance=rule),
            )
            *_, last = session.run(request, lambda: False)
            assert isinstance(last, Finished)
            texts.append(last.token_ids)
        assert texts[0] == texts[1] == texts[2] and len(texts[0]) == 20


def test_a_target_with_other_keys_and_values_is_refused(
    pair: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    write_assistant(tmp_path, global_head_dim=64)
    with pytest.raises(
        IncompatiblePair, match=r"global layers with 2 key heads of size 64.* 2 of 32"
    ):
        heads.inspect(tmp_path, inspect(pair[0] / "target"))


def test_a_window_that_shows_nothing_is_refused(
    pair: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    write_assistant(tmp_path, sliding_window=1)
    with pytest.raises(ModelError, match="sliding_window is 1"):
        heads.inspect(tmp_path, inspect(pair[0] / "target"))
