"""Run llama.cpp's own converter on small checkpoints, for a test of what it writes.

    python llama_cpp_converter.py CHECKOUT JOBS

JOBS is JSON: a list of [folder, file, settings of the converter's model class]. It prints, as JSON, why
files could not be written. The package ``gguf`` of the checkout is used, so this runs by itself.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any


def main(checkout: str, jobs: list[tuple[str, str, dict[str, Any]]]) -> dict[str, str]:
    """Return the reason by file for each that was not written."""
    sys.path[:0] = [checkout, str(Path(checkout, "gguf-py"))]
    import gguf
    import transformers

    conversion: Any = importlib.import_module("conversion")
    tokenizers: Any = transformers.AutoTokenizer
    # Some model classes import it for tokenizers that no test has.
    stub = types.ModuleType("sentencepiece")
    stub.SentencePieceProcessor = None  # type: ignore[attr-defined]
    sys.modules.setdefault("sentencepiece", stub)

    def tokenizer_in(folder: Path, *_: object, **__: object) -> Any:
        return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))

    tokenizers.from_pretrained = tokenizer_in  # not the model family's own class
    failed = {}
    for folder, file, settings in jobs:
        try:
            config = conversion.ModelBase.load_hparams(Path(folder), False)
            name = conversion.get_model_architecture(config, conversion.ModelType.TEXT)
            kind = conversion.get_model_class(name)
            if hasattr(kind, "no_mtp"):
                kind.no_mtp = True  # Qwen's converter takes an MTP layer for granted
            kind.get_vocab_base_pre = lambda *_: "gpt-2"
            model = kind(
                Path(folder), gguf.LlamaFileType.ALL_F32, Path(file), eager=True, **settings
            )
            model.set_vocab = model._set_vocab_gpt2
            model.write()
        except Exception as error:  # reported for this file; the others go on
            failed[file] = f"{type(error).__name__}: {error}"
    return failed


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()))))
