"""llama.cpp has the same logits for the same file, which its own converter wrote.

FORETOKEN_LLAMA_CPP names llama.cpp's source folder, with llama-server in it or in build/bin.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from engine.backends.torch import eager
from engine.bench.real.peers.llama_cpp import SERVER, VARIABLE, find
from engine.bench.real.process import Server
from tests.support import llama_cpp_converter
from tests.support.families import MODELS, YARN, write_family
from tests.support.gguf_files import AS_THE_FILE_HAS_IT
from tests.support.loading import load_model

pytestmark = [pytest.mark.peer, pytest.mark.exhaustive, pytest.mark.timeout(1200)]

LIMIT = 1e-3
"""Of the logits' spread."""
TOKENS = torch.randint(5, 300, (150,), generator=torch.Generator().manual_seed(3)).tolist()
"""Beyond every window, and more than two chunks of a recurrence."""
PLAIN_TEXT = {"logit_bias": [[5, 1000.0]]}
"""Chooses a letter: no probabilities come with half a character, or with an end. They have no bias."""
SLIDING, FULL = "sliding_attention", "full_attention"
AS_LLAMA_CPP_COMPUTES_IT: Mapping[str, Mapping[str, Any]] = {
    **AS_THE_FILE_HAS_IT,
    "cohere2": {"num_hidden_layers": 4, "layer_types": [SLIDING] * 3 + [FULL]},
    "exaone4": {"num_hidden_layers": 64, "layer_types": ([SLIDING] * 3 + [FULL]) * 16},
    "gemma3": {
        "query_pre_attn_scalar": 8,
        "num_hidden_layers": 7,
        "layer_types": [SLIDING] * 5 + [FULL, SLIDING],
    },
    "gemma4": {
        "num_hidden_layers": 8,
        "layer_types": [SLIDING, FULL] * 4,
        "num_kv_shared_layers": 4,
    },
    # YaRN's first and last pair are rounded in any case; the published gpt-oss has them unrounded.
    "gpt-oss": {"rope_parameters": {"rope_type": "default", "rope_theta": 150_000.0}},
    "granite, hybrid": {"mamba_n_heads": 8, "mamba_expand": 2},
    "granite, hybrid, experts": {"mamba_n_heads": 8, "mamba_expand": 2},
    "hunyuan": {"max_position_embeddings": 32768},
    "lfm2-moe": {"routed_scaling_factor": 1.0},
    "mistral": {"sliding_window": None},
    "phi3": {"sliding_window": None},
    "qwen2, later layers slide": {"use_sliding_window": False},
    "qwen3, biases, a window": {"use_sliding_window": False, "attention_bias": False},
    "yarn rope": {"rope_parameters": YARN},  # its attention_factor is read there, and not used
}
"""Configurations of families of which llama.cpp, or its converter, does not compute all."""
HYBRID_TYPES = {"layer_types": ["mamba", "attention", "mamba"]}
PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "cohere2": {"rotary_pct": 1.0},
    "gemma4, keys as values": {
        "architectures": ["Gemma4ForCausalLM"],
        "moe_intermediate_size": None,
    },
    "granite, hybrid": HYBRID_TYPES,
    "granite, hybrid, experts": HYBRID_TYPES,
}
"""What config.json has where published ones differ from what transformers writes today."""


@dataclass(frozen=True)
class Case:
    """A family, changes of its config.json before and after it is written, and converter's options."""

    family: str
    config: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, bool] = field(default_factory=dict)


ROTATED_IN_PARTS = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
CASES = {name: Case(name) for name in sorted(MODELS.keys() - {"ministral"})} | {
    "joined, interleaved": Case("biases", options={"fuse_qkv": True}),
    "joined, with gates": Case("qwen3.5", options={"fuse_qkv": True}),
    "joined experts": Case("gemma4, experts", options={"fuse_gate_up_exps": True}),
    "granite, experts": Case(
        "granite, hybrid, experts",
        {"layer_types": [FULL] * 3, "position_embedding_type": "rope"},
        {"layer_types": ["attention"] * 3},
    ),
    "glm4 of a vision model": Case(
        "glm4", published={"rope_parameters": {**ROTATED_IN_PARTS, "mrope_section": [1, 1, 0]}}
    ),
}


@pytest.fixture(scope="module")
def checkout() -> Path:
    named = os.environ.get(VARIABLE)
    folder = Path(named or ".")
    if not named or find(folder, SERVER) is None or not (folder / "conversion").is_dir():
        pytest.skip(f"{VARIABLE} names no folder with llama.cpp's sources and {SERVER}")
    return folder


@pytest.fixture(scope="module")
def files(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path | str]:
    """The file of each case, or why the converter did not write it."""
    root = tmp_path_factory.mktemp("converted")
    jobs = []
    for number, case in enumerate(CASES.values()):
        folder = root / str(number)
        write_family(
            folder, case.family, **{**AS_LLAMA_CPP_COMPUTES_IT.get(case.family, {}), **case.config}
        )
        config = json.loads((folder / "config.json").read_text())
        config |= {**PUBLISHED.get(case.family, {}), **case.published}
        (folder / "config.json").write_text(json.dumps(config))
        jobs.append([str(folder), f"{folder}.gguf", dict(case.options)])
    (root / "jobs.json").write_text(json.dumps(jobs))
    words = [sys.executable, llama_cpp_converter.__file__, str(checkout), str(root / "jobs.json")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    failed = json.loads(done.stdout.splitlines()[-1])
    return {
        name: failed.get(file) or Path(file) for name, (_, file, _) in zip(CASES, jobs, strict=True)
    }


@pytest.fixture(autouse=True)
def gelu_from_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """GELU as ggml has it on a CPU: looked up by the input in float16, in a table of float16."""

    def looked_up(
        x: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        found = function(x.half().float()).half().float()
        return torch.where(x <= -10, 0.0, torch.where(x >= 10, x, found))

    for name in ("gelu", "gelu_pytorch_tanh"):
        function = partial(F.gelu, approximate="tanh")
        monkeypatch.setitem(eager._FUNCTIONS, name, partial(looked_up, function=function))


@pytest.mark.parametrize("name", CASES)
def test_llama_cpp_has_the_same_logits(
    name: str,
    files: Mapping[str, Path | str],
    checkout: Path,
    tmp_path: Path,
) -> None:
    """After prompts of several lengths, and of every token read by itself."""
    file = files[name]
    assert isinstance(file, Path), file
    model = load_model(file, quantization="fp32", native=False)
    logits = model.forward(TOKENS, model.new_state(len(TOKENS)), last=len(TOKENS)).double()
    ours, off = logits.log_softmax(1), 0.0
    spread = float(logits.max() - logits.min())
    for length, theirs in _served(checkout, file, tmp_path):
        off = max(off, float((ours[length - 1] - theirs).abs().max()) / spread)
    print(f"{name}: {off:.1e} of the spread")
    assert off < LIMIT


def _served(checkout: Path, file: Path, folder: Path) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield lengths of prompts, and the log probabilities that llama-server has after each: first of each
    token read by itself, then of some prompts read as a whole."""
    words = [str(find(checkout, SERVER)), "--model", str(file), "--port", "{port}"]
    words += ["--ctx-size", "512", "--parallel", "1", "--threads", "1", "--no-warmup"]
    words += ["--swa-full", "--flash-attn", "off", "--cache-type-k", "f32", "--cache-type-v", "f32"]
    lengths = range(1, len(TOKENS) + 1)
    server = Server("llama.cpp", words, folder / "log")
    try:
        for length, reused in [(each, each - 1) for each in lengths] + [
            (each, 0) for each in lengths[::29]
        ]:
            body = {"prompt": TOKENS[:length], "n_predict": 1, "n_probs": 1000, **PLAIN_TEXT}
            answer = server.post("/completion", body | {"cache_prompt": reused > 0})
            assert answer["timings"]["prompt_n"] == length - reused
            listed = answer["completion_probabilities"][0]["top_logprobs"]
            found = torch.full((len(listed),), torch.nan, dtype=torch.float64)
            for each in listed:
                found[each["id"]] = each["logprob"]
            yield length, found
    finally:
        server.close()
