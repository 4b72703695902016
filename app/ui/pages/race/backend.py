"""What the race page asks for: two configurations, raced in pairs. Plain values, no Gradio."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from app.measuring import CHATS, behind, last_prompts
from app.runtime import Runtime
from app.store import Store
from app.ui import view
from app.ui.feed import Feed
from app.ui.measurements import Measurements
from app.ui.settings import Settings, whole
from app.ui.view import View
from app.ui.words import Words
from engine.api import Capabilities, Loaded, keeps_words
from engine.bench import divergence, prompts, race_report
from engine.bench.answering import Configuration
from engine.bench.paired import PAIRS, Estimate
from engine.bench.prompts import Prompt, first_of_each
from engine.bench.race import Contest, Pair, Race, Run, Side
from engine.errors import ForetokenError, InvalidRequest, NotLoaded
from engine.events import Event
from engine.request import MAX_DEPTH, PLAIN, AcceptanceRule, Control
from engine.stats import Tally

PAGE = "race"
ONE, SET = "prompt", "set"
"""Sources of prompts beside ``CHATS``: what stands in the box, and the bench's own set."""
OF_EACH_KIND = 2
"""Prompts of each of its kinds that are raced on."""
MAX_TOKENS = 128


class RaceBackend:
    """Races of one running app."""

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        measurements: Measurements,
        chat_settings: Callable[[], Settings],
    ) -> None:
        """``chat_settings``: what the chat answers with just now."""
        self.runtime, self.store = runtime, store
        self.measurements, self.chat_settings = measurements, chat_settings
        self._race: Race | None = None

    def offer(self, data: View | None = None) -> View:
        """What can be raced with what is loaded, and the race to follow, if there is one."""
        loaded, own = self.runtime.engine.loaded, self.chat_settings()
        return {
            "loaded": loaded and loaded.name,
            "methods": _methods(loaded.capabilities) if loaded else [],
            "rules": _rules(loaded.capabilities) if loaded else [],
            "deepest": MAX_DEPTH,
            "own": side_of(own),
            "seed": own.seed,
            "max_tokens": min(own.max_tokens or MAX_TOKENS, MAX_TOKENS),
            "chats": len(self._own_prompts()),
            "set": len(_set()),
            "number": self.measurements.last(PAGE),
        }

    def start(self, data: View) -> View:
        """A new race; the number to follow it by. Raises ForetokenError."""
        loaded = self.runtime.engine.loaded
        if loaded is None:
            raise NotLoaded(Words.NOT_LOADED)
        race = Race(self.runtime.engine, self._contest(data))
        number = self.measurements.start(PAGE, Racing(race, loaded, race.contest.pairs))
        self._race = race
        return {"number": number}

    def more(self, data: View) -> View:
        """Five more pairs of the last race. Raises ForetokenError."""
        loaded = self.runtime.engine.loaded
        if self._race is None or loaded is None:
            raise InvalidRequest("race", Words.RACE_GONE)
        return {"number": self.measurements.start(PAGE, Racing(self._race, loaded, PAIRS))}

    def stop(self, data: View | None = None) -> bool:
        self.measurements.stop(PAGE)
        return True

    async def follow(self, data: View) -> View | None:
        """What came since the page asked last."""
        return await self.measurements.follow(PAGE, data)

    def _contest(self, data: View) -> Contest:
        own = self.chat_settings()
        seed = whole("seed", data.get("seed"))
        own = replace(
            own,
            seed=secrets.randbits(31) if seed is None else seed,
            max_tokens=whole("max_tokens", data.get("max_tokens")),
        )
        base, rival = (configuration(own, each) for each in data["sides"])
        prompts = tuple(behind(own.system, one) for one in self._prompts(data))
        loaded = self.runtime.engine.loaded
        return Contest(base, rival, prompts, keeps_words=bool(loaded and keeps_words(loaded)))

    def _prompts(self, data: View) -> list[Prompt]:
        if data["source"] == CHATS:
            return last_prompts(self.store)
        if data["source"] == SET:
            return _set()
        text = str(data.get("prompt") or "")
        if not text.strip():
            raise InvalidRequest("prompt", Words.EMPTY)
        return [Prompt(ONE, (text,))]

    def _own_prompts(self) -> list[Prompt]:
        try:
            return last_prompts(self.store)
        except InvalidRequest:
            return []


class Racing:
    """So many more pairs of a race. Its feed tells::

        begun     names, promised, prompts, pairs (as below, those before)
        run       side, pair (null: to warm up), prompt, done and total of runs
        pair      ratio, the sides' speeds, words equal or not
        standing  median, low, high, favours, and what they mean in words
        words     what is said of them; ``different``: in how many pairs they differ
        rest      complete: whether it was not cancelled

    and, with a ``side``, the events of its replies as in ``app.ui.view``.
    """

    def __init__(self, race: Race, loaded: Loaded, count: int) -> None:
        """``loaded``: what must stay loaded."""
        self.feed = Feed()
        self._race, self._loaded, self._count = race, loaded, count
        self._runs = 0
        self._tallies: dict[Side, Tally] = {}
        self._total = 2 * count + (0 if race.pairs else 2)

    def stop(self) -> None:
        self._race.cancel()

    def run(self) -> None:
        """See ``app.ui.measurements.Measurement``."""
        race, contest = self._race, self._race.contest
        asked = [prompt.turns[-1] for prompt in contest.prompts if prompt.turns]
        self.feed.append(
            {
                "t": "begun",
                "names": race_report.names(contest),
                "promised": contest.promises_words,
                "prompts": asked,
                "pairs": [race_report.pair_json(pair) for pair in race.pairs],
            }
        )
        complete = False
        try:
            complete = race.run(
                self._count, on_run=self._began, on_event=self._told, on_pair=self._measured
            )
        finally:
            self._stand()
            self.feed.append({"t": "rest", "complete": complete})
        self._words()

    def _began(self, run: Run) -> None:
        if self._race.engine.loaded is not self._loaded:
            raise ForetokenError(Words.MEASURED_PAIR_GONE)
        told = {"pair": run.pair, "prompt": run.prompt, "done": self._runs, "total": self._total}
        self._runs += 1
        self._tallies[run.side] = Tally()
        self._tell(run.side, {"t": "run", **told})

    def _told(self, run: Run, event: Event) -> None:
        self._tallies[run.side].add(event)
        self._tell(run.side, view.show(event))

    def _tell(self, side: Side, shown: View) -> None:
        totals = {str(one): view.totals(tally.statistics()) for one, tally in self._tallies.items()}
        self.feed.append({**shown, "side": side}, totals)

    def _measured(self, pair: Pair) -> None:
        self.feed.append({"t": "pair", **race_report.pair_json(pair)})
        self._stand()

    def _stand(self) -> None:
        self.feed.append(standing(self._race.estimate, self._race.contest))

    def _words(self) -> None:
        """Whether both said the same; where they did not and must, what the target says of it."""
        race = self._race
        if not race.pairs:
            return
        different = sum(not pair.same_words for pair in race.pairs)
        found = divergence.of_race(self._race.engine, race) if different else None
        self.feed.append(
            {
                "t": "words",
                "different": different,
                "promised": race.contest.promises_words,
                "told": race_report.words(race.contest, different, found),
                "divergence": found and asdict(found),
            }
        )


def standing(found: Estimate | None, contest: Contest) -> View:
    """What the pairs tell so far."""
    return {
        "t": "standing",
        "median": found and found.median,
        "low": found and found.low,
        "high": found and found.high,
        "favours": found.favours if found else 0,
        "verdict": race_report.verdict(found, contest),
        "certainty": race_report.certainty(found) if found else "",
    }


def side_of(settings: Settings) -> View:
    """How the chat answers, as one side of a race."""
    auto = settings.controller == Control.AUTO
    return {
        "method": settings.proposer,
        "depth": Control.AUTO if auto else str(settings.depth),
        "rule": settings.acceptance,
        "temperature": settings.temperature,
    }


def configuration(own: Settings, side: View) -> Configuration:
    """One side: what was chosen for it, and all else as the chat has it. Raises InvalidRequest."""
    depth = str(side["depth"])
    chosen = replace(
        own,
        proposer=str(side["method"]),
        controller=Control.AUTO if depth == Control.AUTO else Control.FIXED,
        depth=own.depth if depth == Control.AUTO else whole("depth", depth) or 0,
        acceptance=str(side["rule"]),
        temperature=_temperature(side["temperature"]),
    )
    return Configuration(chosen.speculation(), chosen.sampling(), own.max_tokens)


def _temperature(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            "temperature", f"temperature is {value!r}; it must be a number from 0 to 5."
        ) from error


def _methods(capabilities: Capabilities) -> list[View]:
    """Plain decoding first."""
    offered = sorted(capabilities.proposers, key=lambda one: one.name != PLAIN)
    return [{"name": one.name, "about": one.about, "depth": one.depth} for one in offered]


def _rules(capabilities: Capabilities) -> list[str]:
    return list(dict.fromkeys(map(str, (AcceptanceRule.AUTO, *capabilities.rules))))


def _set() -> list[Prompt]:
    return first_of_each(prompts.read(), OF_EACH_KIND)
