"""The own decoder: transformers' logits, and the same bits however the rows are split."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.backends.native import build
from engine.backends.torch.decoder import TorchDecoder
from engine.events import Finished
from engine.kernels.formats import QUANTISED
from engine.local.session import Session
from engine.models.base import Model
from engine.models.checkpoints.checkpoint import inspect
from engine.models.families import FAMILIES
from engine.models.sizes.weight_counts import count_weights
from engine.request import Request, Speculation
from tests.support.checkpoints import VOCABULARY, open_session, write_random
from tests.support.families import LLAMA3, MODELS, OTHERS, write_family
from tests.support.loading import load_model
from tests.support.places import ROOT
from tests.support.sameness import check_parts, check_rollback, check_rows, go_back

WIDE: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 688,
    "head_dim": 64,
    "num_attention_heads": 4,
}


DTYPES = ("fp32", "bf16", *QUANTISED)


@pytest.fixture(scope="module", autouse=True)
def without_compiled_step() -> Iterator[None]:
    """Nothing here is about the compiled step; see test_native.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "ready", lambda *_: None)
        yield


PIP = ROOT / "assets" / "pip" / "target"


def tokens(count: int, seed: int = 3) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (count,), generator=generator).tolist()


def logits(model: Model, text: list[int]) -> torch.Tensor:
    return model.forward(text, model.new_state(512), last=len(text))


def reference_logits(model: Any, text: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        result: torch.Tensor = model(torch.tensor([text])).logits[0].float()
    return result


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """A whole prompt; then, from where layers have forgotten its begin, one token a step and some."""
    reference = write_family(tmp_path, name)
    model = load_model(tmp_path, quantization="fp32")
    assert isinstance(model, TorchDecoder)
    assert count_weights(model.architecture).total == inspect(tmp_path).parameters
    text = tokens(300)  # across a block of the KV cache
    expected = reference_logits(reference, text)
    cache = model.new_state(512)
    assert_close(model.forward(text, cache, last=300), expected)
    go_back(model, cache, text, 270)
    for index in range(270, 280):
        assert_close(model.forward([text[index]], cache, last=1), expected[index : index + 1])
    for start, rows in ((278, 2), (250, 8), (100, 5)):
        go_back(model, cache, text, start)
        verified = model.forward(text[start : start + rows], cache, last=rows)
        assert_close(verified, expected[start : start + rows])


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert float((ours - theirs).abs().max()) < 1e-4


def test_every_family_is_compared_with_transformers() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

    compared = {NAMES[kind] for kind, _ in MODELS.values()}
    assert compared == FAMILIES.keys() - {
        "Ernie4_5_ForCausalLM",  # an earlier name
        "Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration", "MiniCPMForCausalLM", "MiMoForCausalLM",
        "Mistral3ForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
    }  # fmt: skip  # see test_families


def test_a_sharded_checkpoint_is_the_same_model(tmp_path: Path) -> None:
    reference = write_random(tmp_path, shard="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    text = tokens(40)
    ours = logits(load_model(tmp_path, quantization="fp32"), text)
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
    ours = logits(load_model(tmp_path, quantization="fp32"), text)
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


@pytest.mark.parametrize(
    "name",
    [
        *(
            "qwen2, later layers slide",
            "gemma3",
            "smollm3",
            "phi3, half turned",
            "olmo3",
            "cohere2",
        ),
        *("gpt-oss", "qwen3-moe"),
    ],
)
def test_greedy_text_of_a_family_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    """Repeated text, so that n-gram drafts stand; longer than the windows. All families have the
    logits above, and the bits below."""
    reference = write_family(tmp_path, name, initializer_range=0.25)
    prompt = tokens(40) * 2
    assert list(finished(open_session(tmp_path), prompt, 40, "ngram").token_ids) == greedy(
        reference, prompt, 40
    )


def test_bf16_is_the_same_model_within_its_precision(tmp_path: Path) -> None:
    reference = write_random(tmp_path, **WIDE)
    text = tokens(300)
    ours = logits(load_model(tmp_path, quantization="bf16"), text)
    exact = reference_logits(reference, text)
    theirs = reference_logits(reference.to(torch.bfloat16), text)
    assert (ours - exact).norm() < 1.5 * (theirs - exact).norm()


@pytest.mark.parametrize("name", ["qwen2", "gemma2", "qwen3, biases, a window", "phi3"])
def test_a_family_quantised_is_near_the_original(name: str, tmp_path: Path) -> None:
    """Biases, norms, caps and scales are not quantised, and none is left out; all families are in
    ``test_native.py``."""
    sizes = {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 16}
    write_family(tmp_path, name, **sizes, initializer_range=0.04)
    text = tokens(100)
    exact = logits(load_model(tmp_path, quantization="fp32"), text)
    for kind, most in {"int8": 0.06, "nf4": 0.5}.items():
        ours = logits(load_model(tmp_path, quantization=kind), text)
        assert (ours - exact).norm() < most * exact.norm(), kind


ALIKE = (
    "mistral without window", "qwen2", "qwen3", "ministral", "ministral3", "olmo2", "exaone4, global",
    "seed_oss", "ernie4_5", "glm4", "hunyuan", "granite", "phi3, longrope", "smollm3",
    "granite, hybrid, experts", "qwen3-next", "qwen3.5-moe",
)  # fmt: skip
"""Families that are computed by the operations of others among ``OTHERS``."""
APART = [name for name in OTHERS if name not in ALIKE]

SUBJECTS = [
    *(f"{dtype} wide llama" for dtype in DTYPES),
    # Fewer bits are another product, and every family has the same ones.
    *(f"{dtype} narrow {name}" for dtype, name in zip(cycle(DTYPES), APART, strict=False)),
    *("int8 wide qwen2", "nf4 wide gemma3", "nf4 narrow pip"),
]


@pytest.fixture(scope="module", params=SUBJECTS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Random shapes and the embedded model: whatever its products are, the bits must hold."""
    dtype, width, name = request.param.split(maxsplit=2)
    if name == "pip":
        return load_model(PIP, quantization=dtype)
    folder = tmp_path_factory.mktemp("model")
    sizes = WIDE if width == "wide" else {}
    if name == "llama":
        write_random(folder, **sizes)
    else:
        write_family(folder, name, **sizes)
    return load_model(folder, quantization=dtype)


def test_1_to_16_rows_give_the_bits_of_single_rows(model: Model) -> None:
    """Across the border of a KV block, and of what a window leaves in sight."""
    assert isinstance(model, TorchDecoder)
    windows = [getattr(spec.mixer, "window", None) for spec in model.architecture.layers]
    for start in (250, 272) if any(windows) else (250,):
        check_rows(model, tokens(start + 16), start)


def test_after_a_rollback_the_bits_are_those_of_a_fresh_cache(model: Model) -> None:
    check_rollback(model, tokens(270), [tokens(15, seed) for seed in range(3)])


def test_threads_share_out_what_rows_compute_and_leave_their_bits(tmp_path: Path) -> None:
    """Tests run on one thread each; where there are two, the last numbers of a thread's share are
    computed by other code than the rest, and a share ends wherever the number of rows has it."""
    write_family(tmp_path, "qwen2", **WIDE)
    model = load_model(tmp_path, quantization="nf4", native=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        check_rollback(model, tokens(270), [tokens(15, seed) for seed in range(3)])
    finally:
        torch.set_num_threads(before)


def test_a_prompt_prefilled_in_any_parts_gives_the_same_bits(model: Model) -> None:
    check_parts(model, tokens(270), (1, 7, 16, 100, 128, 300))


def test_only_the_asked_logits_are_returned(model: Model) -> None:
    cache = model.new_state(512)
    text = tokens(140)
    assert model.forward(text, cache, last=0).shape == (0, model.info.vocabulary)
    assert cache.length == 140
    cache.rewind(0)
    whole = model.forward(text, cache, last=140)
    cache.rewind(0)
    assert torch.equal(model.forward(text, cache, last=130), whole[10:])


def test_stories_speak_the_same_in_both_decoders(stories: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = load_model(stories, quantization="fp32")
    assert isinstance(model, TorchDecoder)
    reference: Any = AutoModelForCausalLM.from_pretrained(stories, dtype=torch.float32)
    text = [1, *tokens(300)]
    difference = (logits(model, text) - reference_logits(reference, text)).abs().max()
    assert float(difference) < 1e-4
