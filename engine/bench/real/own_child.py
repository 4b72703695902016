"""This engine as one of the programs: the process that loads and answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.api import Capabilities, LoadRequest
from engine.bench.compare import forgetful_options
from engine.bench.real.child import Answer, serve
from engine.bench.real.contest import Method, Setting
from engine.bench.real.own_settings import decode
from engine.bench.verify_cost import step_times
from engine.kernels.formats import AS_STORED
from engine.local.engine import LocalEngine
from engine.models.checkpoints.checkpoint import inspect
from engine.reply import ReplyState
from engine.request import PLAIN, Request, Sampling, Speculation

_DRAFT = "draft"
_METHODS = {
    PLAIN: Method.PLAIN,
    _DRAFT: Method.DRAFT,
    "ngram": Method.LOOKUP,
    "suffix": Method.LOOKUP,
}
_STEPS = 9


def settings(
    capabilities: Capabilities, depths: Sequence[int]
) -> dict[Setting, tuple[str, int | None]]:
    """Proposer and depth of every setting, plain decoding first; without a depth it is ``auto``."""
    made: dict[Setting, tuple[str, int | None]] = {Setting("plain", Method.PLAIN): (PLAIN, None)}
    for name in capabilities.names:
        method = _METHODS.get(name, Method.SEVERAL)
        if name == PLAIN:
            continue
        made[Setting(f"{name}, auto", method)] = (name, None)
        for depth in depths if name == _DRAFT else ():
            made[Setting(f"{name}, depth {depth}", method)] = (name, depth)
    return made


class _Answers:
    """A loaded engine behind one door."""

    def __init__(self, load: LoadRequest, depths: Sequence[int], ignore_eos: bool) -> None:
        self.engine = LocalEngine()
        self.loaded = self.engine.load(load)
        self.ignore_eos = ignore_eos
        self.settings = settings(self.loaded.capabilities, depths)
        self._by_name = {setting.name: asked for setting, asked in self.settings.items()}

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("steps"):
            times = self.engine.measure(lambda model: step_times(model, repeats=_STEPS))
            return {str(rows): seconds for rows, seconds in times.items()}
        proposer, depth = self._by_name[request["setting"]]
        asked = Request(
            token_ids=tuple(request["prompt"]),
            sampling=Sampling(temperature=0.0, seed=1),
            speculation=Speculation(
                proposer=proposer, depth=depth, options=forgetful_options(self.engine, proposer)
            ),
            max_tokens=request["limit"],
            reuse_cache=False,
            ignore_eos=self.ignore_eos,
        )
        said = ReplyState.of(self.engine.generate(asked))
        figures = said.statistics
        return {
            "tokens": said.token_ids or (),
            "prompt_tokens": figures.prompt_tokens,
            "prompt_s": figures.prefill_s,
            "decoded": figures.completion_tokens,
            "decode_s": figures.decode_s,
            "drafted": figures.drafted,
            "accepted": figures.accepted,
            "rounds": figures.rounds,
            "draft_s": figures.draft_s,
        }


def start() -> tuple[dict[str, Any], Answer]:
    """Loads what the command line says."""
    answers = _Answers(*decode(sys.argv[1]))
    listed = [(setting.name, setting.method) for setting in answers.settings]
    loaded = answers.loaded
    stored = loaded.quantization == AS_STORED
    weights = inspect(Path(loaded.target_id)).dtype if stored else loaded.quantization
    return {"weights": weights, "settings": listed}, answers


if __name__ == "__main__":
    serve(start)
