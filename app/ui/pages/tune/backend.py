"""The tune page's backend: sweep the loaded pair, and store and export the result. Plain values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from app.measuring import CHATS, check_tunable, keep_winners, winner
from app.runtime import Runtime
from app.settings.defaults import Defaults
from app.storage.store import Store
from app.ui import words
from app.ui.controls.settings import whole
from app.ui.endpoints import View, endpoint
from app.ui.pages.race.backend import own_prompts
from app.ui.pages.race.opponents import methods_of
from app.ui.pages.race.run import standing
from app.ui.rounds.feed import Feed
from app.ui.rounds.measurements import Measurements, MeasuringBackend
from engine.api import Loaded
from engine.bench import prompts, sweep
from engine.bench.answering import Stop
from engine.bench.prompts import ALL, Prompt, first_of_each
from engine.bench.race import Contest, Race, Run
from engine.bench.reports.paired import PAIRS, Estimate
from engine.bench.sweep import Plan, Result, Row
from engine.errors import ForetokenError, InvalidRequest
from engine.request import PLAIN, Control, Speculation
from engine.values import MAX_DEPTH
from engine.values.method_titles import method_title
from engine.values.units import counted

SET = "set"
"""The bench's own prompts."""
DEPTHS = (2, 4, 8)
EFFORTS = {"quick": (1, 64, 1), "thorough": (3, 160, 3)}
"""Repeats, tokens a reply at most, and prompts of each kind of the bench's set."""

_SLOWER = 2
"""About how many times as long a reply of a sweep takes as one by the fastest method."""


class TuneBackend(MeasuringBackend):
    """Sweeps of one running app."""

    PAGE = "tune"

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        measurements: Measurements,
        speed: Callable[[], float | None] = lambda: None,
    ) -> None:
        """``speed`` returns the tokens/s of the loaded pair's latest replies, or None."""
        super().__init__(runtime, store, measurements)
        self.speed = speed
        self.defaults = Defaults(runtime.data_dir)
        self._tuning: Tuning | None = None

    @endpoint
    def offer(self, data: View | None = None) -> View:
        """Return what can be swept of the loaded pair, and the sweep to follow, if any. ``asked``: how
        it was started, while it runs."""
        loaded = self.runtime.engine.loaded
        kept = self.defaults.of(loaded)
        methods = methods_of(loaded.capabilities) if loaded else []
        return {
            "loaded": loaded and loaded.name,
            "methods": [one for one in methods if one["name"] != PLAIN],
            "depths": list(range(1, MAX_DEPTH + 1)),
            "chosen": list(DEPTHS),
            "sets": [{"id": one, "count": len(found)} for one, found in self._sets().items()],
            "kept": kept and str(kept),
            "number": self.measurements.last(self.PAGE),
            "asked": self.measurements.asked(self.PAGE),
        }

    @endpoint
    def start(self, data: View) -> View:
        """Start a sweep. Return the number to follow it by. Raises ForetokenError."""
        loaded = self._loaded()
        plan, asked = self._planned(data, loaded)
        tuning = Tuning(self.runtime, loaded, plan, asked, self.defaults)
        number = self.measurements.start(self.PAGE, tuning, data)
        self._tuning = tuning
        return {"number": number}

    @endpoint
    def forecast(self, data: View) -> View:
        """Estimate the seconds a sweep would take; None before any reply was measured. Raises
        ForetokenError."""
        plan, asked = self._planned(data, self._loaded())
        speed, replies = self.speed(), len(asked) + plan.replies(len(asked)) + _race_replies(asked)
        return {"seconds": _SLOWER * replies * plan.max_tokens / speed if speed else None}

    def _loaded(self) -> Loaded:
        loaded = super()._loaded()
        check_tunable(loaded)
        return loaded

    def _planned(self, data: View, loaded: Loaded) -> tuple[Plan, list[Prompt]]:
        """Return the plan and its prompts. Raises InvalidRequest."""
        effort = str(data.get("effort"))
        repeats, max_tokens, of_each = EFFORTS.get(effort, EFFORTS["quick"])
        chosen = tuple(sweep.settings(_offered(loaded, data["methods"]), _depths(data["depths"])))
        found = self._sets(of_each)
        asked = [one for name in data["sources"] for one in found.get(str(name), ())]
        if not asked:
            raise InvalidRequest("prompts", "Choose the prompts: your own, or the included set.")
        return Plan(chosen, max_tokens=max_tokens, repeats=repeats), asked

    @endpoint
    def use(self, data: View | None = None) -> View:
        """Store the confirmed winner as the measured pair's default. Raises ForetokenError."""
        tuning = self._measured()
        if not tuning.decided:
            raise InvalidRequest(
                "sweep",
                "No method was confirmed as the fastest, so there is nothing to save. Tune again.",
            )
        if self.runtime.engine.loaded is not tuning.loaded:
            raise InvalidRequest(
                "pair",
                "Another model is loaded now, and these results belong to the earlier one. Tune again.",
            )
        median = tuning.confirmed.median if tuning.confirmed else None
        kept = keep_winners(self.runtime.data_dir, tuning.loaded, tuning.result, median)
        return {"kept": str(kept)}

    @endpoint
    def forget(self, data: View | None = None) -> View:
        """Delete the loaded pair's measured default. Raises ForetokenError."""
        loaded = self.runtime.engine.loaded
        if loaded is not None:
            self.defaults.forget(loaded)
        return self.offer()

    @endpoint
    def export(self, data: View | None = None) -> View:
        """Return all measurements, as the JSON of ``foretoken bench sweep``. Raises InvalidRequest."""
        tuning = self._measured()
        return {"facts": tuning.facts, **sweep.as_json(tuning.result)}

    def _measured(self) -> Tuning:
        if self._tuning is None or not self._tuning.result.rows:
            raise InvalidRequest(
                "sweep", "No prompt was measured completely yet, so there is nothing to save."
            )
        return self._tuning

    def _sets(self, of_each: int = 1) -> dict[str, list[Prompt]]:
        """Return the prompts by the name of their source."""
        return {CHATS: own_prompts(self.store), SET: first_of_each(prompts.read(), of_each)}


class Tuning:
    """One sweep, and then a race of its winner against plain decoding: the best of many single shots is
    partly luck. Its feed tells::

    begun      settings: [[method, depth], ...], prompts of each kind
    progress   done and total answers, left_s: seconds still to go, where that is known
    result     kinds, rows: {"method depth": {kind: figures}}, winners by kind, divergences, left_out
    confirmed  how that race stands, as ``standing`` of the race page; better: whether its
               winner is also faster than the present default
    rest       stopped: whether it was ended before its time; decided: whether there is a winner
    """

    def __init__(
        self, runtime: Runtime, loaded: Loaded, plan: Plan, asked: list[Prompt], defaults: Defaults
    ) -> None:
        """``loaded`` is the pair that is measured, which must stay loaded."""
        self.feed = Feed()
        self.loaded, self.result = loaded, Result((), {})
        self._engine, self._plan, self._asked = runtime.engine, plan, asked
        self._defaults = defaults
        self.confirmed: Estimate | None = None
        self.decided = False
        self._stop = Stop()
        self._race: Race | None = None
        self._began = time.monotonic()
        self._done = self._total = 0  # replies

    @property
    def facts(self) -> View:
        """The conditions of the measurement, to be read beside the figures."""
        loaded, plan = self.loaded, self._plan
        repeats = counted(plan.repeats, "repeat")
        return {
            "pair": loaded.name,
            "target": f"{loaded.quantization} on {loaded.device}",
            "replies": f"up to {plan.max_tokens} tokens, {repeats}, seed {plan.seed}",
            "date": datetime.now(UTC).date().isoformat(),
        }

    def stop(self) -> None:
        self._stop.now()
        if self._race is not None:
            self._race.cancel()

    def run(self) -> None:
        """Measure; see ``app.ui.rounds.measurements.Measurement``."""
        self._began = time.monotonic()
        kinds = list(dict.fromkeys(prompt.kind for prompt in self._asked))
        self.feed.append({"t": "begun", "kinds": [*kinds, ALL]})
        stopped = True
        try:
            self._took(
                sweep.run(
                    self._engine,
                    self._asked,
                    self._plan,
                    on_progress=self._progressed,
                    on_result=self._took,
                    stop=self._stop,
                )
            )
            stopped = self.result.stopped or not self._confirm()
        finally:
            self.feed.append({"t": "rest", "stopped": stopped, "decided": self.decided})

    def _progressed(self, done: int, total: int) -> None:
        if self._engine.loaded is not self.loaded:
            raise ForetokenError(words.MEASURED_PAIR_GONE)
        self._done, self._total = done, total + _race_replies(self._asked)
        took = time.monotonic() - self._began
        left = took / done * (self._total - done)
        self.feed.append({"t": "progress", "done": done, "total": self._total, "left_s": left})

    def _raced(self, run: Run) -> None:
        self._progressed(self._done + 1, self._total - _race_replies(self._asked))

    def _confirm(self) -> bool:
        """Race the winner against plain decoding. Return False if that was stopped."""
        best, plan = sweep.winners(self.result)[ALL], self._plan
        if best.setting == sweep.PLAIN_SETTING:
            self.decided = True
            return True
        plain = plan.way(sweep.PLAIN_SETTING, best.temperature)
        contest = Contest(plain, plan.way(best.setting, best.temperature), self.result.prompts)
        race = self._race = Race(self._engine, contest)
        if self._stop.stopped or not race.run(contest.pairs, on_run=self._raced):
            return False
        self.confirmed = race.estimate
        shown = standing(race)
        self.decided = shown["favours"] > 0
        better = self.decided and self._defaults.beaten_by(
            self.loaded, replace(winner(best), speedup=shown["median"])
        )
        self.feed.append({**shown, "t": "confirmed", "better": better})
        return True

    def _took(self, result: Result) -> None:
        self.result = result
        self.feed.append(
            {
                "t": "result",
                "kinds": list(result.kinds),
                "rows": [_figures(row) for row in result.rows],
                "winners": {kind: _figures(row) for kind, row in sweep.winners(result).items()},
                "divergences": result.divergences,
                "left_out": sum(result.left_out.values()),
            }
        )


def _race_replies(asked: list[Prompt]) -> int:
    """Return the number of replies of the race behind a sweep: all pairs, and one per side to warm up."""
    return 2 * (max(PAIRS, len(asked)) + 1)


def _figures(row: Row) -> View:
    return {
        "method": row.proposer,
        "title": method_title(row.proposer),
        "depth": _depth(row),
        "kind": row.prompt_kind,
        "speedup": row.speedup,
        "slowest": row.slowest,
        "fastest": row.fastest,
        "tokens_per_s": row.tokens_per_s,
        "acceptance_rate": row.acceptance_rate,
        "prompts": row.prompts,
    }


def _depth(row: Row) -> str:
    if row.proposer == PLAIN:
        return ""
    return str(Control.AUTO) if row.controller == Control.AUTO else str(row.depth)


def _offered(loaded: Loaded, methods: list[Any]) -> list[str]:
    names = [name for name in map(str, methods) if name in loaded.capabilities.names]
    if not names:
        raise InvalidRequest("methods", "Choose at least one method.")
    return names


def _depths(values: list[Any]) -> tuple[int, ...]:
    """Return the chosen depths in order. Raises InvalidRequest for an impossible one."""
    depths = sorted({whole("depth", value) or 1 for value in values})
    for depth in depths:
        Speculation(depth=depth)
    return tuple(depths)
