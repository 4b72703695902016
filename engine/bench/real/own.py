"""This engine as a program of the contest: the parent's side and the child process."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import prod
from pathlib import Path
from typing import Any

from engine.api import Capabilities, LoadRequest
from engine.bench.answering import isolated_options
from engine.bench.real.child import Answer, serve
from engine.bench.real.contest import Case, Method, Program, Setting
from engine.bench.real.process import Worker
from engine.bench.verify_cost import step_times
from engine.kernels.formats import AS_STORED
from engine.local.engine import LocalEngine
from engine.machine import threads
from engine.machine.read_bandwidth import read_bandwidth
from engine.models.checkpoints.checkpoint import inspect
from engine.models.tensor_shapes import Names
from engine.reply import ReplyState
from engine.request import PLAIN, Request, Speculation
from engine.values.sampling import Sampling

NAME = "foretoken"
_DRAFT = "draft"
_METHODS = {_DRAFT: Method.DRAFT, "ngram": Method.LOOKUP, "suffix": Method.LOOKUP}
_STEPS = 9
"""Timed steps for each number of rows."""


def program(load: LoadRequest, depths: Sequence[int]) -> Program:
    """Return this engine: plain decoding, and every proposer of the pair; always available.

    ``load`` names the pair by its files. ``depths``: those of the draft model, beside auto.
    """

    def start(case: Case, log: Path) -> Worker:
        ours = asdict(replace(load, context=case.context, threads=case.threads))
        del ours["remembered"]  # everything is asked for
        options = {"load": ours, "depths": list(depths), "ignore_eos": not case.eos}
        return Worker(NAME, "own", options, log)

    return Program(NAME, NAME, start)


def settings(
    capabilities: Capabilities, depths: Sequence[int]
) -> dict[Setting, tuple[str, int | None]]:
    """Return proposer and depth of every setting, plain decoding first; no depth is ``auto``."""
    made: dict[Setting, tuple[str, int | None]] = {Setting("plain", Method.PLAIN): (PLAIN, None)}
    for name in capabilities.names:
        method = _METHODS.get(name, Method.SEVERAL)
        if name != PLAIN:
            made[Setting(f"{name}, auto", method)] = (name, None)
        for depth in depths if name == _DRAFT else ():
            made[Setting(f"{name}, depth {depth}", method)] = (name, depth)
    return made


class _Answers:
    """Answers the contest's questions with a loaded engine."""

    def __init__(self, load: LoadRequest, depths: Sequence[int], ignore_eos: bool) -> None:
        self.engine = LocalEngine()
        self.threads = load.threads or threads.default()
        self.loaded = self.engine.load(load)
        self.ignore_eos = ignore_eos
        self.settings = settings(self.loaded.capabilities, depths)
        self._by_name = {setting.name: method for setting, method in self.settings.items()}

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("steps"):
            times = self.engine.measure(lambda model: step_times(model, repeats=_STEPS))
            return {str(rows): seconds for rows, seconds in times.items()}
        if request.get("reading"):
            return self._reading()
        proposer, depth = self._by_name[request["setting"]]
        isolated = isolated_options(self.engine, proposer)
        own_request = Request(
            token_ids=tuple(request["prompt"]),
            sampling=Sampling(temperature=0.0, seed=1),
            speculation=Speculation(proposer=proposer, depth=depth, options=isolated),
            max_tokens=request["limit"],
            reuse_cache=False,
            ignore_eos=self.ignore_eos,
        )
        reply = ReplyState.of(self.engine.generate(own_request))
        statistics = reply.statistics
        same = ("prompt_tokens", "decode_s", "drafted", "accepted", "rounds", "draft_s")
        return {
            "tokens": reply.token_ids or (),
            "prompt_s": statistics.prefill_s,
            "decoded": statistics.completion_tokens,
            **{name: getattr(statistics, name) for name in same},
        }

    def _reading(self) -> dict[str, Any]:
        """Return the fields of ``contest.Reading``; none for weights that are converted."""
        if self.loaded.quantization != AS_STORED:
            return {}
        checkpoint = inspect(Path(self.loaded.target_id))
        share = 1.0
        if not checkpoint.repeats_embedding:  # of which a step reads a row
            table = checkpoint.tensors[Names.among(checkpoint.tensors).embedding]
            share -= prod(table.shape) / checkpoint.parameters
        step_bytes = round(checkpoint.bytes * share)
        return {"step_bytes": step_bytes, "gb_s": read_bandwidth(self.threads)}


def _start() -> tuple[dict[str, Any], Answer]:
    """Load what the command line states."""
    options = json.loads(sys.argv[1])
    load = LoadRequest(**{**options["load"], "heads": tuple(options["load"]["heads"])})
    answers = _Answers(load, options["depths"], options["ignore_eos"])
    loaded = answers.loaded
    stored = loaded.quantization == AS_STORED
    weights = inspect(Path(loaded.target_id)).dtype if stored else loaded.quantization
    listed = [(setting.name, setting.method) for setting in answers.settings]
    return {"weights": weights, "settings": listed}, answers


if __name__ == "__main__":
    serve(_start)
