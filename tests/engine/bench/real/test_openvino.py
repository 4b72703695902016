"""OpenVINO GenAI as a program of the contest, played by a module that speaks as it is documented to."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bench.real.contest import Case, EncodedPrompt, Method, NotMeasured, run
from engine.bench.real.peers import environments
from tests.support.stand_ins import stand_in

GENAI = '''
"""Speaks as openvino_genai and openvino are documented to."""
from types import SimpleNamespace
import sys
sys.modules["openvino"] = SimpleNamespace(Tensor=lambda values: values)
class GenerationConfig: ...
class TokenizedInputs:
    def __init__(self, input_ids, attention_mask):
        assert input_ids.shape == attention_mask.shape
        self.input_ids = input_ids
def draft_model(folder, device):
    return folder
class LLMPipeline:
    def __init__(self, folder, device, **extra):
        self.extra = extra
    def generate(self, asked, config):
        drafts = "draft_model" in self.extra or "prompt_lookup" in self.extra
        assert drafts == hasattr(config, "num_assistant_tokens") and not config.do_sample
        metrics = SimpleNamespace(
            get_ttft=lambda: SimpleNamespace(mean=50.0),
            get_generate_duration=lambda: SimpleNamespace(mean=250.0),
        )
        return SimpleNamespace(tokens=[[5, 6, 7][: config.max_new_tokens]], perf_metrics=metrics)
'''


def test_every_format_that_was_made_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "openvino_genai.py").write_text(GENAI)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    models, case = (
        tmp_path / "models",
        Case(Path("t.gguf"), Path("d.gguf"), frozenset({1}), (3,), 64, 3, 1),
    )
    for name in ("t-int4", "d-int4", "t-int8"):
        (models / name).mkdir(parents=True)
    programs = environments.openvino(stand_in(tmp_path / "venv", "python", python=""), models, case)
    result = run(programs, [EncodedPrompt("chat", (3, 4))], case, 1, tmp_path)
    assert not result.absent
    assert {turn.weights for turn in result.turns} == {"int4", "int8"}
    drafting = [turn for turn in result.turns if turn.settings[0].method is Method.DRAFT]
    assert {turn.weights for turn in drafting} == {"int4"}  # of int8 there is no draft
    reply = result.turns[0].answers[0].reply
    assert (reply.tokens, reply.decoded) == ((5, 6, 7), 2)
    assert (reply.prompt_s, reply.decode_s) == (pytest.approx(0.05), pytest.approx(0.2))


def test_what_it_misses_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    case = Case(Path("t.gguf"), None, frozenset(), (3,), 64, 3, 1)
    venv = stand_in(tmp_path / "venv", "python", python="")
    for given, reason in (
        ((None, None), "pip install openvino"),
        ((tmp_path, None), "not a virtual environment"),
        ((venv, None), "openvino_export"),
        ((venv, tmp_path), "no conversion of t.gguf"),
    ):
        (absence,) = environments.openvino(*given, case)
        assert isinstance(absence, NotMeasured) and reason in absence.reason
