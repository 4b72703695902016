"""The own decoder: transformers' logits, and the same bits however the rows are split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.events import Finished
from engine.kernels.cpu.factory import QUANTISED
from engine.models.base import Model
from engine.models.decoder import Decoder
from engine.models.families import FAMILIES
from engine.models.loader import load_model
from engine.request import Request, Speculation
from engine.session import Session
from engine.testing.checkpoints import VOCABULARY, open_session, write_random

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
SIZES = {"initializer_range": 0.1, "uneven": 0.1, "intermediate_size": 52}
SLIDING = {"sliding_window": 24}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.3, 1.6],
    "long_factor": [1.0, 2.0, 4.0, 8.0],
}
GEMMA3_ROPES = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
LLAMAS: dict[str, dict[str, Any]] = {
    "head_dim 8, groups of 2, tied": {},
    "head_dim 64, untied": {"hidden_size": 128, "head_dim": 64, "tie_word_embeddings": False},
    "one KV head": {"num_key_value_heads": 1},
    "a KV head for each head": {"num_key_value_heads": 4},
    "groups of 3, head_dim not hidden / heads": {
        "num_attention_heads": 6,
        "head_dim": 16,
        "hidden_size": 48,
        "intermediate_size": 52,
    },
    "biases": {"attention_bias": True, "mlp_bias": True},
    "llama3 rope": {"rope_parameters": LLAMA3},
    "linear rope": {"rope_parameters": {"rope_type": "linear", "factor": 4.0}},
    "dynamic rope": {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0}},
    "yarn rope": {"rope_parameters": YARN},
    "another theta and epsilon": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1234.5},
        "rms_norm_eps": 1e-3,
    },
}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mistral": ("mistral", SLIDING),
    "mistral without window": ("mistral", {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("qwen2", {}),
    "qwen2, later layers slide": (
        "qwen2",
        {**SLIDING, "use_sliding_window": True, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {"head_dim": 16, "rope_parameters": YARN}),
    "qwen3, biases, a window": (
        "qwen3",
        {**SLIDING, "attention_bias": True, "use_sliding_window": True, "max_window_layers": 0},
    ),
    "smollm3": ("smollm3", {"num_hidden_layers": 4, "pad_token_id": 0}),
    "gemma2": (
        "gemma2",
        {
            **SLIDING,
            "vocab_size": 323,
            "query_pre_attn_scalar": 16,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3": (
        "gemma3_text",
        {
            **SLIDING,
            "layer_types": ["sliding_attention", "full_attention"],
            "query_pre_attn_scalar": 16,
            "rope_parameters": GEMMA3_ROPES,
        },
    ),
    "phi3": ("phi3", {**SLIDING, "pad_token_id": 0, "tie_word_embeddings": False}),
    "phi3, half turned": (
        "phi3",
        {
            "pad_token_id": 0,
            "num_key_value_heads": 4,
            "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5},
        },
    ),
    "phi3, longrope": (
        "phi3",
        {"pad_token_id": 0, "original_max_position_embeddings": 64, "rope_parameters": LONGROPE},
    ),
}
"""Every other family: transformers' kind, and what makes its features show in 300 tokens."""
MODELS = {name: ("llama", config) for name, config in LLAMAS.items()} | OTHERS
WIDE: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 688,
    "head_dim": 64,
    "num_attention_heads": 4,
}


PIP = Path(__file__).resolve().parents[3] / "assets" / "pip" / "target"


DTYPES = ("fp32", "bf16", *QUANTISED)
PIP = Path(__file__).resolve().parents[3] / "assets" / "pip" / "target"


def tokens(count: int, seed: int = 3) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (count,), generator=generator).tolist()


def logits(model: Model, text: list[int]) -> torch.Tensor:
    return model.forward(text, model.new_cache(512), last=len(text))


def reference_logits(model: Any, text: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        result: torch.Tensor = model(torch.tensor([text])).logits[0].float()
    return result


def write(folder: Path, name: str, **config: Any) -> Any:
    """One of ``MODELS``; returns transformers' model.

    Larger weights would amplify the last bits, in which even two correct decoders differ.
    """
    kind, own = MODELS[name]
    return write_random(folder, kind, **{**SIZES, **own, **config})


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """A whole prompt; then, from where layers have forgotten its begin, one token a step and 1 to 8."""
    reference = write(tmp_path, name)
    model = load_model(tmp_path, dtype="fp32")
    assert isinstance(model, Decoder)
    text = tokens(300)  # across a block of the KV cache
    expected = reference_logits(reference, text)
    cache = model.new_cache(512)
    assert_close(model.forward(text, cache, last=300), expected)
    cache.crop(270)
    for index in range(270, 300):
        assert_close(model.forward([text[index]], cache, last=1), expected[index : index + 1])
    for start in (278, 250, 100):
        for rows in range(1, 9):
            cache.crop(start)
            verified = model.forward(text[start : start + rows], cache, last=rows)
            assert_close(verified, expected[start : start + rows])


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert float((ours - theirs).abs().max()) < 1e-4


def test_every_family_is_compared_with_transformers() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

    compared = {NAMES[kind] for kind, _ in MODELS.values()}
    assert compared == FAMILIES.keys() - {"Gemma3ForConditionalGeneration"}  # see test_families


def test_a_sharded_checkpoint_is_the_same_model(tmp_path: Path) -> None:
    reference = write_random(tmp_path, shard="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    text = tokens(40)
    ours = logits(load_model(tmp_path, dtype="fp32"), text)
    assert torch.allclose(ours, reference_logits(reference, text), atol=1e-4)


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "llama3"])
def test_a_config_of_earlier_transformers_is_read_the_same(scaled: bool, tmp_path: Path) -> None:
    """Before version 5: rope_theta at the top, and rope_scaling (null where there is none)."""
    rope = LLAMA3 if scaled else {"rope_type": "default", "rope_theta": 500000.0}
    reference = write_random(tmp_path, rope_parameters=rope)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    settings = config.pop("rope_parameters")
    config["rope_theta"] = settings.pop("rope_theta")
    config["rope_scaling"] = settings if scaled else None
    file.write_text(json.dumps(config))
    text = tokens(200)
    ours = logits(load_model(tmp_path, dtype="fp32"), text)
    assert torch.allclose(ours, reference_logits(reference, text), atol=1e-4)


def greedy(reference: Any, prompt: list[int], count: int) -> list[int]:
    """What transformers writes after ``prompt``."""
    with torch.inference_mode():
        written: list[int] = reference.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=count,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )[0, len(prompt) :].tolist()
    return written


def finished(session: Session, prompt: list[int], count: int, proposer: str) -> Finished:
    request = Request(
        token_ids=tuple(prompt),
        max_tokens=count,
        ignore_eos=True,
        speculation=Speculation(proposer=proposer, depth=5),
    )
    *_, last = session.run(request, lambda: False)
    assert isinstance(last, Finished)
    return last


def test_greedy_text_is_that_of_transformers(pair: tuple[Path, Path]) -> None:
    from transformers import AutoModelForCausalLM

    reference: Any = AutoModelForCausalLM.from_pretrained(pair[0], dtype=torch.float32)
    prompt = tokens(20, seed=9)
    drafted = finished(open_session(*pair), prompt, 60, "draft")
    assert list(drafted.token_ids) == greedy(reference, prompt, 60)


@pytest.mark.parametrize("name", OTHERS)
def test_greedy_text_of_every_family_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    """Repeated text, so that n-gram drafts stand; longer than the windows."""
    reference = write(tmp_path, name, initializer_range=0.25)
    prompt = tokens(40) * 2
    assert list(finished(open_session(tmp_path), prompt, 40, "ngram").token_ids) == greedy(
        reference, prompt, 40
    )


def test_bf16_is_the_same_model_within_its_precision(tmp_path: Path) -> None:
    reference = write_random(tmp_path, **WIDE)
    text = tokens(300)
    ours = logits(load_model(tmp_path, dtype="bf16"), text)
    exact = reference_logits(reference, text)
    theirs = reference_logits(reference.to(torch.bfloat16), text)
    assert (ours - exact).norm() < 1.5 * (theirs - exact).norm()


@pytest.mark.parametrize("kind", QUANTISED)
@pytest.mark.parametrize("name", OTHERS)
def test_every_family_quantised_is_near_the_original(name: str, kind: str, tmp_path: Path) -> None:
    """Biases, norms, caps and scales are not quantised, and none is left out."""
    sizes = {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 16}
    write(tmp_path, name, **sizes, initializer_range=0.04)
    text = tokens(100)
    ours = logits(load_model(tmp_path, dtype=kind), text)
    exact = logits(load_model(tmp_path, dtype="fp32"), text)
    assert (ours - exact).norm() < {"int8": 0.06, "nf4": 0.5}[kind] * exact.norm()


SUBJECTS = [
    *(f"{dtype} {width} llama" for dtype in DTYPES for width in ("narrow", "wide")),
    *(f"{dtype} narrow {name}" for name in OTHERS for dtype in DTYPES),
    *(f"{dtype} wide {name}" for name in ("qwen2", "gemma3") for dtype in QUANTISED),
    *(f"{dtype} narrow pip" for dtype in QUANTISED),
]


@pytest.fixture(scope="module", params=SUBJECTS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Random shapes and the embedded model: whatever its products are, the bits must hold."""
    dtype, width, name = request.param.split(maxsplit=2)
    if name == "pip":
        return load_model(PIP, dtype=dtype)
    folder = tmp_path_factory.mktemp("model")
    sizes = WIDE if width == "wide" else {}
    if name == "llama":
        write_random(folder, **sizes)
    else:
        write(folder, name, **sizes)
    return load_model(folder, dtype=dtype)


@pytest.mark.parametrize("start", [5, 250, 272])
def test_1_to_16_rows_give_the_bits_of_single_rows(model: Model, start: int) -> None:
    """In the middle of a KV block, across the border of one, and of what a window leaves in sight."""
    text = tokens(start + 16)
    cache = model.new_cache(512)
    model.forward(text[:start], cache, last=0)
    alone = torch.cat([model.forward([token], cache, last=1) for token in text[start:]])
    for rows in range(1, 17):
        cache.crop(start)
        together = model.forward(text[start : start + rows], cache, last=rows)
        assert torch.equal(together, alone[:rows]), rows


def test_after_a_rollback_the_bits_are_those_of_a_fresh_cache(model: Model) -> None:
    text = tokens(270)
    used, fresh = model.new_cache(512), model.new_cache(512)
    model.forward(text[:250], used, last=0)
    for seed in range(3):  # rounds that are rejected from their second token on
        start = used.length
        model.forward([text[start], *tokens(15, seed)], used, last=16)
        used.crop(start + 1)
    model.forward(text[:253], fresh, last=0)
    assert torch.equal(
        model.forward(text[253:], used, last=17), model.forward(text[253:], fresh, last=17)
    )


def test_a_prompt_prefilled_in_any_parts_gives_the_same_bits(model: Model) -> None:
    """A follow-up finds tokens in the cache that were decoded, not prefilled."""
    text = tokens(300)
    expected = None
    for size in (1, 7, 16, 100, 128, 300):
        cache = model.new_cache(512)
        for at in range(0, 290, size):
            model.forward(text[at : min(at + size, 290)], cache, last=0)
        last = model.forward(text[290:], cache, last=10)
        expected = last if expected is None else expected
        assert torch.equal(last, expected), size


def test_only_the_asked_logits_are_returned(model: Model) -> None:
    cache = model.new_cache(512)
    text = tokens(140)
    assert model.forward(text, cache, last=0).shape == (0, model.info.vocabulary)
    assert cache.length == 140
    cache.crop(0)
    whole = model.forward(text, cache, last=140)
    cache.crop(0)
    assert torch.equal(model.forward(text, cache, last=130), whole[10:])


def test_stories_speak_the_same_in_both_decoders(stories: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = load_model(stories, dtype="fp32")
    assert isinstance(model, Decoder)
    reference: Any = AutoModelForCausalLM.from_pretrained(stories, dtype=torch.float32)
    text = [1, *tokens(300)]
    difference = (logits(model, text) - reference_logits(reference, text)).abs().max()
    assert float(difference) < 1e-4
