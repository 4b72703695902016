"""OpenVINO GenAI from a virtual environment of its own, on models that ``openvino_export`` made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.bench.real.contest import Case, Method, Running, Setting
from engine.bench.real.worker import Worker

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
    f"Give the folder of its models with --openvino-models or {MODELS_VARIABLE}: python -m "
    "tools.peers.openvino_export TARGET [DRAFT] --openvino DIR --out MODELS makes them."
)


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    windows = folder / "Scripts" / "python.exe"
    return windows if windows.is_file() else folder / "bin" / "python"


def exported(models: Path, case: Case, which: str, weights: str) -> Path:
    """Where ``openvino_export`` puts the target or the draft of a case."""
    file = case.target if which == "target" else case.draft
    assert file is not None
    return models / f"{file.stem}-{weights}"


def programs(folder: Path | None, models: Path | None, case: Case) -> list[OpenVino]:
    """A program for every format and setting; where something is missing, one that says what."""
    if folder is None or not python_of(folder).is_file():
        where = "It is not given." if folder is None else f"{folder} is no virtual environment."
        return [OpenVino(Path(), Path(), "", _PLAIN, reason=f"{where} {_HOW}")]
    if models is None:
        return [OpenVino(folder, Path(), "", _PLAIN, reason=f"Its models are not given. {_EXPORT}")]
    made: list[OpenVino] = []
    for weights in FORMATS:
        target = exported(models, case, "target", weights)
        drafts = case.draft is not None and exported(models, case, "draft", weights).is_dir()
        if target.is_dir():
            made += [
                OpenVino(folder, models, weights, setting, count, ngram)
                for setting, count, ngram in _settings(drafts)
            ]
    missing = f"{models} holds nothing made of {case.target.name}. {_EXPORT}"
    return made or [OpenVino(folder, models, "", _PLAIN, reason=missing)]


_PLAIN = Setting("plain", Method.PLAIN)


def _settings(drafts: bool) -> Iterator[tuple[Setting, int, int]]:
    yield _PLAIN, 0, 0
    for count in DEPTHS if drafts else ():
        yield Setting(f"draft, {count}", Method.DRAFT), count, 0
    for count, ngram in LOOKUPS:
        yield Setting(f"prompt lookup, {count} after {ngram}", Method.LOOKUP), count, ngram


@dataclass(frozen=True, slots=True)
class OpenVino:
    """One pipeline in a process of its own."""

    folder: Path
    models: Path
    weights: str
    setting: Setting
    count: int = 0
    ngram: int = 0
    reason: str | None = None
    engine: str = NAME

    @property
    def name(self) -> str:
        return NAME if self.reason else f"{NAME} {self.weights} {self.setting.name}"

    def absent(self, case: Case) -> str | None:
        return self.reason

    def start(self, case: Case, log: Path) -> Running:
        drafts = self.setting.method is Method.DRAFT
        told = {
            "target": str(exported(self.models, case, "target", self.weights)),
            "draft": str(exported(self.models, case, "draft", self.weights)) if drafts else "",
            "lookup": self.setting.method is Method.LOOKUP,
            "count": self.count,
            "ngram": self.ngram,
            "weights": self.weights,
            "setting": (self.setting.name, self.setting.method),
            "eos": sorted(case.eos),
            "threads": case.threads,
        }
        python = str(python_of(self.folder))
        command = [python, "-m", "tools.peers.openvino_child", json.dumps(told)]
        return Worker(self.name, command, log, {"HF_HUB_OFFLINE": "1"})
