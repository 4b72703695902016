"""OpenVINO GenAI from a virtual environment of its own, on models that were converted for it.

Of GGUF it reads some types itself, but not the mixtures that people have (2026.4 refuses Q4_K_M of
Qwen2.5): ``python -m tools.peers.openvino_export`` in a clone converts any file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.bench.real.contest import Case, Method, NotMeasured, Running, Setting
from engine.bench.real.process import Worker

NAME = "openvino"
VARIABLE, MODELS_VARIABLE = "FORETOKEN_OPENVINO", "FORETOKEN_OPENVINO_MODELS"
FORMATS = ("int4", "int8")
DEPTHS = (2, 4)
LOOKUPS = ((3, 2), (5, 3))
"""Tokens drafted, and tokens looked up at most."""
_HOW = (
    f"Give its virtual environment with --openvino or {VARIABLE}: python3 -m venv DIR && "
    'DIR/bin/pip install openvino openvino-genai "optimum-intel[openvino]" nncf.'
)
_EXPORT = (
    f"Give the folder of its models with --openvino-models or {MODELS_VARIABLE}: in a clone, python -m "
    "tools.peers.openvino_export TARGET [DRAFT] --openvino DIR --out MODELS makes them."
)


def python_of(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    windows = folder / "Scripts" / "python.exe"
    return windows if windows.is_file() else folder / "bin" / "python"


def converted(models: Path, model: Path, weights: str) -> Path:
    """Return the folder of a model that was converted to a format."""
    return models / f"{model.stem}-{weights}"


def programs(
    folder: Path | None, models: Path | None, case: Case
) -> Sequence[OpenVino | NotMeasured]:
    """Return a program for every format and setting, or why there is none."""
    if folder is None or not python_of(folder).is_file():
        where = "It was not given." if folder is None else f"{folder} is not a virtual environment."
        return [NotMeasured(NAME, f"{where} {_HOW}")]
    if models is None:
        return [NotMeasured(NAME, f"Its models are not given. {_EXPORT}")]
    made = []
    for weights in FORMATS:
        target = converted(models, case.target, weights)
        draft = case.draft and converted(models, case.draft, weights)
        if target.is_dir():
            made += [
                OpenVino(python_of(folder), weights, target, draft, *setting)
                for setting in _settings(draft is not None and draft.is_dir())
            ]
    missing = NotMeasured(NAME, f"{models} has no conversion of {case.target.name}. {_EXPORT}")
    return made or [missing]


def _settings(drafts: bool) -> Iterator[tuple[Setting, int, int]]:
    yield Setting("plain", Method.PLAIN), 0, 0
    for count in DEPTHS if drafts else ():
        yield Setting(f"draft, {count}", Method.DRAFT), count, 0
    for count, ngram in LOOKUPS:
        yield Setting(f"prompt lookup, {count} after {ngram}", Method.LOOKUP), count, ngram


@dataclass(frozen=True, slots=True)
class OpenVino:
    """One pipeline in a process of its own. ``count`` tokens are drafted a round, as
    ``setting`` says; ``ngram``: the longest n-gram looked up."""

    python: Path
    weights: str
    target: Path
    draft: Path | None
    setting: Setting
    count: int
    ngram: int
    engine: str = NAME

    @property
    def name(self) -> str:
        return f"{NAME} {self.weights} {self.setting.name}"

    def start(self, case: Case, log: Path) -> Running:
        drafts = self.setting.method is Method.DRAFT
        options = {
            "target": str(self.target),
            "draft": str(self.draft) if drafts else "",
            "lookup": self.setting.method is Method.LOOKUP,
            "count": self.count,
            "ngram": self.ngram,
            "weights": self.weights,
            "setting": (self.setting.name, self.setting.method),
            "eos": sorted(case.eos),
            "threads": case.threads,
        }
        return Worker.of_module(self.name, "peers.openvino_child", options, log, self.python)
