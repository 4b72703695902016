"""Any other causal LM: the plain forward's logits, and the same bits for calls of any size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.backends.transformers_adapter import NAME, WINDOW, TransformersModel
from engine.errors import ModelError
from engine.request import Request, Speculation
from engine.values.sampling import Sampling
from tests.support.checkpoints import open_session, write_random
from tests.support.loading import load_model

LATENT: dict[str, Any] = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "head_dim": 4,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
}
"""Latent attention in front of a dense layer, then one of experts."""
KINDS: dict[str, dict[str, Any]] = {
    "olmo": {},
    "cwm": {"sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"]},
    "gpt_neox": {},
    "phimoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "ernie4_5_moe": {
        "moe_num_experts": 6,
        "moe_k": 2,
        "moe_intermediate_size": 24,
        "moe_layer_start_index": 1,
    },
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
}
"""Architectures that the own decoder does not run."""


@pytest.fixture(scope="module", params=[*KINDS, "gptneo, trained"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param not in KINDS:
        trained: Path = request.getfixturevalue("gptneo")
        return trained
    made = tmp_path_factory.mktemp(request.param)
    write_random(made, request.param, **KINDS[request.param])
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> TransformersModel:
    loaded = load_model(folder, quantization="fp32")
    assert isinstance(loaded, TransformersModel)
    return loaded


def tokens(count: int, seed: int = 3) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(300, (count,), generator=generator).tolist()


def test_logits_are_those_of_the_plain_forward(model: TransformersModel) -> None:
    """Beyond a sliding window too."""
    text = tokens(150)
    ours = model.forward(text, model.new_state(256), last=150)
    with torch.inference_mode():
        expected = model.model(torch.tensor([text])).logits[0].float()
    assert float((ours - expected).abs().max()) < 1e-4 * max(1.0, float(expected.abs().max()) / 10)


def test_experts_are_those_of_transformers(model: TransformersModel) -> None:
    """The plain forward above runs through our own mixture of experts as well."""
    text = tokens(40)
    ours = model.forward(text, model.new_state(256), last=40)
    model.model.set_experts_implementation("eager")
    try:
        with torch.inference_mode():
            expected = model.model(torch.tensor([text])).logits[0].float()
    finally:
        model.model.set_experts_implementation(NAME)
    assert float((ours - expected).abs().max()) < 1e-4 * max(1.0, float(expected.abs().max()) / 10)


def test_1_to_16_rows_give_the_bits_of_single_rows(model: TransformersModel) -> None:
    text = tokens(75)
    cache = model.new_state(256)
    model.forward(text[:59], cache, last=0)
    alone = torch.cat([model.forward([token], cache, last=1) for token in text[59:]])
    for rows in (1, 2, 3, 5, 6, 8, 15, 16):
        cache.rewind(59)
        together = model.forward(text[59 : 59 + rows], cache, last=rows)
        assert torch.equal(together, alone[:rows]), rows


def test_rejected_tokens_leave_no_trace(model: TransformersModel) -> None:
    text = tokens(90)
    used, fresh = model.new_state(256), model.new_state(256)
    model.forward(text[:40], used, last=0)
    for seed in range(3):
        start = used.length
        model.forward([text[start], *tokens(15, seed)], used, last=16)
        used.rewind(start + 1)
    used.rewind(30)
    model.forward(text[30:70], used, last=0)
    model.forward(text[:70], fresh, last=0)
    assert torch.equal(
        model.forward(text[70:], used, last=20), model.forward(text[70:], fresh, last=20)
    )


def test_a_prompt_prefilled_in_any_parts_gives_the_same_bits(model: TransformersModel) -> None:
    """A follow-up finds tokens in the cache that were decoded, not prefilled."""
    text = tokens(120)
    expected = None
    for size in (7, WINDOW, 50, 110):
        cache = model.new_state(256)
        for at in range(0, 110, size):
            model.forward(text[at : min(at + size, 110)], cache, last=0)
        last = model.forward(text[110:], cache, last=10)
        expected = last if expected is None else expected
        assert torch.equal(last, expected), size


def test_a_call_that_fails_inside_leaves_a_cache_that_can_be_rewound(
    model: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some layers had taken the new positions up, others not."""
    text = tokens(60)
    cache = model.new_state(256)
    expected = model.forward(text, cache, last=60)
    cache.rewind(0)
    model.forward(text[:40], cache, last=0)
    layers = [module for module in model.model.modules() if isinstance(module, torch.nn.Linear)]
    handle = layers[-2].register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.forward(text[40:], cache, last=20)
    handle.remove()
    cache.rewind(40)
    assert torch.equal(model.forward(text[40:], cache, last=20), expected[40:])


def test_a_weight_that_is_no_number_is_named(tmp_path: Path) -> None:
    write_random(tmp_path, "olmo")
    tensors = load_file(tmp_path / "model.safetensors")
    name = "model.layers.1.self_attn.v_proj.weight"
    tensors[name][3, 2] = float("nan")
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=f"{name} contains NaN"):
        load_model(tmp_path)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_ngram_speculation_gives_the_tokens_of_none(folder: Path, temperature: float) -> None:
    session = open_session(folder)
    replies = {}
    for name in ("none", "ngram"):
        request = Request(
            token_ids=tuple(tokens(20) * 2),
            max_tokens=24,
            ignore_eos=True,
            sampling=Sampling(temperature=temperature, seed=4, top_k=3),
            speculation=Speculation(
                proposer=name, depth=6, options={"prompt_lookup_min": 1} if name == "ngram" else {}
            ),
        )
        events = list(session.run(request, lambda: False))
        replies[name] = events[-1].token_ids  # type: ignore[union-attr]
        drafted = sum(len(event.drafted) for event in events if hasattr(event, "drafted"))
        assert (drafted > 0) == (name == "ngram")
    assert replies["ngram"] == replies["none"]


def test_a_model_that_transformers_cannot_compute_is_refused_by_name_as_it_is_loaded(
    tmp_path: Path,
) -> None:
    """It loaded, and the first reply ended in "The engine failed inside: RuntimeError"."""
    write_random(tmp_path, "deepseek_v3", **{**LATENT, "head_dim": 8})
    with pytest.raises(ModelError) as refused:
        load_model(tmp_path, quantization="fp32")
    assert "head_dim 8 and qk_rope_head_dim 4, which must be equal for deepseek_v3" in str(
        refused.value
    )
    write_random(tmp_path, "deepseek_v3", **{**LATENT, "num_key_value_heads": 2})
    with pytest.raises(ModelError, match=r"DeepseekV3ForCausalLM\) but cannot run it"):
        load_model(tmp_path, quantization="fp32")


def test_of_gemma_3n_the_text_part_runs(tmp_path: Path) -> None:
    """Its other parts need timm, which is not installed."""
    sizes = {
        "hidden_size_per_layer_input": 8, "intermediate_size": 48, "laurel_rank": 8,
        "altup_num_inputs": 2, "num_kv_shared_layers": 1, "num_hidden_layers": 3,
        "sliding_window": 24, "activation_sparsity_pattern": [0.5, 0.0, 0.0],
        "vocab_size_per_layer_input": 320,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    }  # fmt: skip
    write_random(tmp_path, "gemma3n_text", **sizes)
    plain = load_model(tmp_path, quantization="fp32")
    expected = plain.forward(tokens(30), plain.new_state(64), last=3)
    tensors = load_file(tmp_path / "model.safetensors")
    moved = {name.replace("model.", "model.language_model.", 1): x for name, x in tensors.items()}
    save_file(moved, tmp_path / "model.safetensors", metadata={"format": "pt"})
    text = json.loads((tmp_path / "config.json").read_text())
    whole = {"model_type": "gemma3n", "text_config": text, "vision_config": {}, "audio_config": {}}
    whole["architectures"] = ["Gemma3nForConditionalGeneration"]
    (tmp_path / "config.json").write_text(json.dumps(whole))
    model = load_model(tmp_path, quantization="fp32")
    assert torch.equal(model.forward(tokens(30), model.new_state(64), last=3), expected)


def test_a_model_that_does_not_continue_a_text_is_refused(tmp_path: Path) -> None:
    """Transformers' ``AutoModelForCausalLM`` takes a BERT, which looks at later tokens too."""
    write_random(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}))
    with pytest.raises(ModelError, match="BertForMaskedLM, which cannot continue text"):
        load_model(tmp_path, quantization="fp32")
