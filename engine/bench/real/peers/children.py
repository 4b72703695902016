"""mistral.rs and OpenVINO GenAI as processes of the contest, run by the Python of their own virtual
environments."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from engine.bench.real.child import Answer, serve


class MistralRs:
    """One loaded model. The package takes and returns text; its own tokenizer converts tokens."""

    def __init__(self, options: dict[str, Any]) -> None:
        import mistralrs

        self.options, self.package = options, mistralrs
        file = Path(options["target"])
        self.runner = mistralrs.Runner(
            which=mistralrs.Which.GGUF(
                tok_model_id=None, quantized_model_id=str(file.parent), quantized_filename=file.name
            ),
            prefix_cache_n=0,
        )

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        text = self.runner.detokenize_text(request["prompt"], False)
        done = self.runner.send_completion_request(
            self.package.CompletionRequest(
                prompt=text,
                model="default",
                max_tokens=request["limit"],
                temperature=0.0,
                top_k=1,
                ignore_eos=self.options["ignore_eos"],
            )
        )
        usage = done.usage
        tokens = self.runner.tokenize_text(done.choices[0].text, False, None)
        seconds = usage.total_prompt_time_sec, usage.total_completion_time_sec
        return _reply(tokens, usage.prompt_tokens, usage.completion_tokens, *seconds)


class OpenVino:
    """One pipeline: plain, with a draft, or with prompt lookup, as the options state."""

    def __init__(self, options: dict[str, Any]) -> None:
        import openvino_genai as genai

        self.options, self.genai = options, genai
        extra: dict[str, Any] = {"INFERENCE_NUM_THREADS": options["threads"]}
        if "draft" in options:
            extra["draft_model"] = genai.draft_model(options["draft"], "CPU")
        if "ngram" in options:
            extra["prompt_lookup"] = True
        self.pipeline = genai.LLMPipeline(options["target"], "CPU", **extra)

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        import numpy as np
        import openvino as ov

        prompt = np.array([request["prompt"]], dtype=np.int64)
        inputs = self.genai.TokenizedInputs(ov.Tensor(prompt), ov.Tensor(np.ones_like(prompt)))
        result = self.pipeline.generate(inputs, self._configured(request["limit"]))
        tokens = [int(token) for token in result.tokens[0]]
        metrics = result.perf_metrics
        first_s = metrics.get_ttft().mean / 1e3
        whole_s = metrics.get_generate_duration().mean / 1e3
        return _reply(tokens, prompt.shape[1], len(tokens), first_s, whole_s - first_s)

    def _configured(self, limit: int) -> Any:
        settings = self.genai.GenerationConfig()
        settings.max_new_tokens = limit
        settings.do_sample = False
        settings.apply_chat_template = False
        if self.options["eos"]:
            settings.stop_token_ids = set(self.options["eos"])
            settings.eos_token_id = self.options["eos"][0]
        else:
            settings.ignore_eos = True
        if "count" in self.options:
            settings.num_assistant_tokens = self.options["count"]
        if "ngram" in self.options:
            settings.max_ngram_size = self.options["ngram"]
        return settings


def _reply(
    tokens: list[int], prompt_tokens: int, written: int, prompt_s: float, decode_s: float
) -> dict[str, Any]:
    """Return the fields of a ``Reply``. The clock of decoding starts when the first token is there."""
    return {
        "tokens": tokens,
        "prompt_tokens": prompt_tokens,
        "prompt_s": prompt_s,
        "decoded": max(written - 1, 0),
        "decode_s": decode_s if written > 1 else 0.0,
    }


def _start() -> tuple[dict[str, Any], Answer]:
    """Load what the command line states, which is one setting of one of the two."""
    options = json.loads(sys.argv[1])
    ready = {"weights": options["weights"], "settings": [options["setting"]]}
    return ready, (OpenVino if options["engine"] == "openvino" else MistralRs)(options)


if __name__ == "__main__":
    serve(_start, prompts_alone=True)
