"""mistral.rs as a process of the contest; run by the Python of its own virtual environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.bench.real.child import serve_one


class Pipeline:
    """One loaded model. The package takes and returns text; its own tokenizer converts tokens."""

    def __init__(self, options: dict[str, Any]) -> None:
        import mistralrs

        self.options, self.package = options, mistralrs
        file = Path(options["target"])
        self.runner = mistralrs.Runner(
            which=mistralrs.Which.GGUF(
                tok_model_id=None,
                quantized_model_id=str(file.parent),
                quantized_filename=file.name,
            ),
            prefix_cache_n=0,
        )

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        if "prompt" not in request:
            return {}
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
        return {
            "tokens": tokens,
            "prompt_tokens": usage.prompt_tokens,
            "prompt_s": usage.total_prompt_time_sec,
            "decoded": max(usage.completion_tokens - 1, 0),  # the clock starts with the first
            "decode_s": usage.total_completion_time_sec if usage.completion_tokens > 1 else 0.0,
        }


if __name__ == "__main__":
    serve_one(Pipeline)
