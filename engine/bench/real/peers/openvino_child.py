"""OpenVINO GenAI as a process of the contest; run by the Python of its own virtual environment."""

from __future__ import annotations

from typing import Any

from engine.bench.real.child import serve_one


class Pipeline:
    """One pipeline: plain, with a draft, or with prompt lookup, as the command line states."""

    def __init__(self, options: dict[str, Any]) -> None:
        import openvino_genai as genai

        self.options, self.genai = options, genai
        extra: dict[str, Any] = {"INFERENCE_NUM_THREADS": options["threads"]}
        if options["draft"]:
            extra["draft_model"] = genai.draft_model(options["draft"], "CPU")
        if options["lookup"]:
            extra["prompt_lookup"] = True
        self.pipeline = genai.LLMPipeline(options["target"], "CPU", **extra)

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        if "prompt" not in request:
            return {}
        import numpy as np
        import openvino as ov

        prompt = np.array([request["prompt"]], dtype=np.int64)
        inputs = self.genai.TokenizedInputs(ov.Tensor(prompt), ov.Tensor(np.ones_like(prompt)))
        result = self.pipeline.generate(inputs, self._configured(request["limit"]))
        tokens = [int(token) for token in result.tokens[0]]
        metrics = result.perf_metrics
        first_s = metrics.get_ttft().mean / 1e3
        whole_s = metrics.get_generate_duration().mean / 1e3
        return {
            "tokens": tokens,
            "prompt_tokens": prompt.shape[1],
            "prompt_s": first_s,
            "decoded": max(len(tokens) - 1, 0),  # the clock starts when the first token is there
            "decode_s": whole_s - first_s if len(tokens) > 1 else 0.0,
        }

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
        if self.options["draft"] or self.options["lookup"]:
            settings.num_assistant_tokens = self.options["count"]
        if self.options["lookup"]:
            settings.max_ngram_size = self.options["ngram"]
        return settings


if __name__ == "__main__":
    serve_one(Pipeline)
