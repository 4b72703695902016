"""mistral.rs from a virtual environment of its own: plain decoding of GGUF files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.bench.real.contest import Case, Method, NotMeasured, Running, Setting
from engine.bench.real.peers.openvino import python_of
from engine.bench.real.process import Worker
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.description import is_gguf

NAME = "mistral.rs"
VARIABLE = "FORETOKEN_MISTRALRS"
PLAIN = Setting("plain", Method.PLAIN)
_HOW = (
    f"Give its virtual environment with --mistralrs or {VARIABLE}: python3 -m venv DIR && "
    "DIR/bin/pip install mistralrs."
)


def programs(folder: Path | None, case: Case) -> Sequence[MistralRs | NotMeasured]:
    """Return its one program, or why it cannot run. ``folder`` is a virtual environment."""
    if folder is None or not python_of(folder).is_file():
        where = "It was not given." if folder is None else f"{folder} is not a virtual environment."
        return [NotMeasured(NAME, f"{where} {_HOW}")]
    if not is_gguf(case.target):
        return [NotMeasured(NAME, f"It is measured with GGUF files, and {case.target} is none.")]
    return [MistralRs(python_of(folder))]


@dataclass(frozen=True, slots=True)
class MistralRs:
    """One process of its Python package."""

    python: Path
    engine: str = NAME
    name: str = NAME

    def start(self, case: Case, log: Path) -> Running:
        options = {
            "target": str(case.target),
            "weights": inspect(case.target).dtype,
            "setting": (PLAIN.name, PLAIN.method),
            "ignore_eos": not case.eos,
        }
        environment = {"RAYON_NUM_THREADS": str(case.threads)}
        module = "peers.mistral_rs_child"
        return Worker.of_module(self.name, module, options, log, self.python, environment)
