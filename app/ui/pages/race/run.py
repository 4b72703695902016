"""Some pairs of a race, as pages follow them."""

from __future__ import annotations

from dataclasses import asdict

from app.ui import words
from app.ui.endpoints import View
from app.ui.pages.race.session import LoadWatcher, RaceSession
from app.ui.rounds import view
from app.ui.rounds.feed import Feed
from engine.bench import divergence
from engine.bench.race import Pair, Race, Run, Side
from engine.bench.reports import race as race_report
from engine.errors import DownloadCancelled, ForetokenError, LoadCancelled
from engine.events import Event, Finished
from engine.reply import ReplyState


class RaceRun:
    """So many more pairs of a race. Its feed tells::

        opening   said, done: a share, or null; what the base runs on is opened
        begun     names, compared: whether words are, prompts, pairs (as below, those before),
                  notes: sentences, max_tokens and seed of both sides; before opening, too, where
                  there are pairs
        run       side, pair (null: to warm up) of how many, done and total of runs
        pair      ratio, the sides' speeds, words equal or not
        standing  median, low, high, favours, and what they mean in words
        words     what is said of them; ``different``: in how many pairs they differ
        rest      complete: whether it was not cancelled

    and, with a ``side``, the events of its replies as in ``app.ui.rounds.view``, with the place of their
    ``thought``.
    """

    def __init__(self, session: RaceSession, count: int) -> None:
        self.feed = Feed()
        self._session, self._count = session, count
        self._watcher = LoadWatcher(self.feed.append)
        self._runs = self._total = 0
        self._replies: dict[Side, ReplyState] = {}

    def stop(self) -> None:
        self._watcher.cancelled = True
        if self._session.race is not None:
            self._session.race.cancel()

    def run(self) -> None:
        """Measure the pairs; see ``app.ui.rounds.measurements.Measurement``."""
        before = self._session.race
        if before is not None and before.pairs:  # they stay in sight, whatever comes of opening
            self._introduce(before)
            self.feed.append(standing(before))
        try:
            with self._session.opened(self._watcher) as race:
                self._measure(race)
        except (LoadCancelled, DownloadCancelled):
            self.feed.append({"t": "rest", "complete": False})
        except ForetokenError:
            self._check_still_there()  # else it failed for want of what another pair lacks
            raise
        else:
            self._compare_texts(race)

    def _measure(self, race: Race) -> None:
        self._total = 2 * self._count + (0 if race.warm else 2)
        self._introduce(race)
        of, complete = len(race.pairs) + self._count, False
        try:
            complete = race.run(
                self._count,
                on_run=lambda run: self._on_run(run, of),
                on_event=self._on_event,
                on_pair=lambda pair: self._on_pair(race, pair),
            )
        finally:
            self.feed.append(standing(race))
            self.feed.append({"t": "rest", "complete": complete})

    def _introduce(self, race: Race) -> None:
        contest = race.contest
        self.feed.append(
            {
                "t": "begun",
                "names": race_report.names(contest),
                "compared": contest.compares_words,
                "prompts": [prompt.turns[-1] for prompt in contest.prompts if prompt.turns],
                "pairs": [race_report.pair_json(pair) for pair in race.pairs],
                "notes": self._session.notes,
                "max_tokens": contest.rival.max_tokens,
                "seed": contest.rival.sampling.seed,
            }
        )

    def _check_still_there(self) -> None:
        session = self._session
        if session.runtime.engine.loaded is not session.loaded:
            raise ForetokenError(words.MEASURED_PAIR_GONE)

    def _on_run(self, run: Run, of: int) -> None:
        self._check_still_there()
        done, total = self._runs, self._total
        told = {"pair": run.pair, "of": of, "done": done, "total": total}
        self._runs += 1
        self._replies[run.side] = ReplyState()
        self._tell(run.side, {"t": "run", **told})

    def _on_event(self, run: Run, event: Event) -> None:
        if isinstance(event, Finished):
            self._check_still_there()  # what replaced it may have written this
        reply = self._replies[run.side]
        reply.add(event)
        self._tell(run.side, {**view.show(event), "thought": view.thought_of(reply)})

    def _tell(self, side: Side, shown: View) -> None:
        totals = {str(one): view.totals(reply) for one, reply in self._replies.items()}
        self.feed.append({**shown, "side": side}, totals)

    def _on_pair(self, race: Race, pair: Pair) -> None:
        self.feed.append({"t": "pair", **race_report.pair_json(pair)})
        self.feed.append(standing(race))

    def _compare_texts(self, race: Race) -> None:
        """Compare the texts of both sides. If they differ and must not, find where and why."""
        if not race.pairs:
            return
        self._check_still_there()
        different = sum(not pair.same_words for pair in race.pairs)
        found = divergence.of_race(race.engine, race) if different else None
        self.feed.append(
            {
                "t": "words",
                "different": different,
                "promised": race.contest.promises_words,
                "told": race_report.words(race.contest, different, None),
                "divergence": found and asdict(found),
            }
        )


def standing(race: Race) -> View:
    """Return what the pairs measured so far show."""
    found, contest, noise = race.estimate, race.contest, race.noise
    return {
        "t": "standing",
        "median": found and found.median,
        "low": found and found.low,
        "high": found and found.high,
        "favours": race_report.favours(found, contest, noise) or 0,
        "verdict": race_report.verdict(found, contest, noise),
        "certainty": race_report.certainty(found, noise) if found else "",
    }
