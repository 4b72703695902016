"""``python -m tools.peers.openvino_export``: GGUF files as OpenVINO's models, int4 and int8.

Each file is widened to bf16 by transformers, in this environment, and converted by optimum-cli in
OpenVINO's: a second rounding of the weights, which OpenVINO has no way around. Minutes a model.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from engine.bench.real.peers.environments import FORMATS, converted, python_of
from engine.bench.real.peers.environments import OPENVINO_VARIABLE as VARIABLE
from engine.bench.real.peers.transformers_child import load
from engine.errors import PeerFailed
from engine.models.checkpoints.gguf.description import is_gguf
from tools.running import run_command

_WORDS = {"int4": ("--group-size", "64", "--ratio", "1.0"), "int8": ()}


def export(
    target: Annotated[Path, typer.Argument(help="A GGUF file, or a folder.")],
    draft: Annotated[Path | None, typer.Argument(help="The model that drafts for it.")] = None,
    *,
    openvino: Annotated[Path, typer.Option(envvar=VARIABLE, help="Its virtual environment.")],
    out: Annotated[Path, typer.Option(help="The folder for the models; not in the repository.")],
) -> None:
    """Make what ``foretoken bench real --openvino-models OUT`` reads. What is there stays."""
    for model in filter(None, (target, draft)):
        missing = [kind for kind in FORMATS if not converted(out, model, kind).is_dir()]
        if not missing:
            continue
        folder = model
        if is_gguf(model):
            folder = out / f"{model.stem}-bf16"
            if not folder.is_dir():
                widen(model, folder)
        for kind in missing:
            _convert(openvino, folder, converted(out, model, kind), kind)


def widen(file: Path, folder: Path) -> None:
    """The GGUF file in transformers' layout, in bf16, whole or not at all."""
    import torch
    from transformers import AutoTokenizer

    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    load(file, torch.bfloat16).save_pretrained(part)
    tokenizer = AutoTokenizer.from_pretrained(
        str(file.parent), gguf_file=file.name, local_files_only=True
    )
    tokenizer.save_pretrained(part)
    _as_older_versions_read(part / "config.json")
    part.replace(folder)


def _as_older_versions_read(file: Path) -> None:
    """optimum-intel may come with transformers 4, which reads the base of rotary positions from the top
    level alone, and takes another one where it is missing."""
    config = json.loads(file.read_text(encoding="utf-8"))
    rope = config.get("rope_parameters") or {}
    if "rope_theta" in rope:
        config.setdefault("rope_theta", rope["rope_theta"])
    config.setdefault("torch_dtype", config.get("dtype", "bfloat16"))
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")


def _convert(openvino: Path, folder: Path, made: Path, kind: str) -> None:
    part = made.with_name(made.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    command = [
        str(python_of(openvino).with_name("optimum-cli")), "export", "openvino",
        "--model", str(folder), "--task", "text-generation-with-past",
        "--weight-format", kind, *_WORDS[kind], str(part),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, env={**os.environ, "HF_HUB_OFFLINE": "1"}, check=False)
    except OSError as error:
        raise PeerFailed(f"{command[0]} cannot be run: {error}.") from error
    if done.returncode:
        raise PeerFailed(f"optimum-cli ended with status {done.returncode}; see above.")
    part.replace(made)
    print(made)


if __name__ == "__main__":
    run_command(export)
