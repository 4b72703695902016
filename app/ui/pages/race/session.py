"""A race of the page: its sides run on the loaded pair, or the base on another pair or a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from app.loading import DOWNLOADING, STAGES
from app.runtime import Runtime
from app.settings.defaults import Defaults
from app.ui.controls.resolver import Pair, resolve
from app.ui.controls.settings import Settings
from app.ui.endpoints import View
from app.ui.words.names import titles
from engine.api import (
    DownloadProgress,
    Engine,
    Loaded,
    LoadProgress,
    LoadRequest,
    keeps_words,
    one_target,
)
from engine.bench.answering import Configuration
from engine.bench.prompts import Prompt
from engine.bench.race import Contest, Race
from engine.bench.reports import race as race_report
from engine.errors import LoadCancelled
from engine.request import PLAIN

USUAL = ""
"""The method of a base elsewhere that drafts by its default."""


@dataclass(slots=True)
class RaceSession:
    """One race, which may be continued. ``loaded`` is the pair it began with; ``opponent`` is another
    pair or server for the base, which is open only while pairs of replies are measured.

    ``notes``: sentences on what was changed for the base, and on what is not known of a server. Creating
    one raises InvalidRequest for settings that no engine accepts.
    """

    runtime: Runtime
    loaded: Loaded
    base: Settings
    rival: Settings
    prompts: tuple[Prompt, ...]
    opponent: LoadRequest | None = None
    race: Race | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        configuration(self.rival)
        configuration(replace(self.base, proposer=self.base.proposer or PLAIN))

    @contextmanager
    def opened(self, watcher: LoadWatcher) -> Iterator[Race]:
        """Yield the race with both sides loaded. Raises as ``Engine.load``."""
        if self.opponent is None:
            if self.race is None:
                self.notes = race_report.unknown(self.loaded)
                contest = self._contest(configuration(self.base), keeps_words(self.loaded))
                self.race = Race(self.runtime.engine, contest)
            yield self.race
            return
        with closing(self.runtime.another_engine()) as engine:
            elsewhere = engine.load(self.opponent, watcher)
            if self.race is None:
                self.race = self._race_with(engine, elsewhere)
            else:
                self.race.base_on(engine)
            if watcher.cancelled:  # just now
                raise LoadCancelled("The race was stopped.")
            yield self.race

    def _race_with(self, engine: Engine, elsewhere: Loaded) -> Race:
        usual = Defaults(self.runtime.data_dir).speculation(elsewhere)
        pair = Pair("", elsewhere.name, elsewhere.capabilities, usual)
        base = resolve(self.base, pair)
        names = titles(elsewhere.name, self.loaded.name)
        self.notes = (
            *(f"{names[0]}: {change}" for change in base.changes),
            *elsewhere.notes,
            *race_report.unknown(elsewhere, self.loaded),
        )
        kept = keeps_words(self.loaded) and keeps_words(elsewhere)
        contest = replace(
            self._contest(configuration(base.settings), kept),
            target_names=(names[0], names[1]),
            one_target=one_target(elsewhere, self.loaded),
        )
        return Race(self.runtime.engine, contest, engine)

    def _contest(self, base: Configuration, keeps_words: bool) -> Contest:
        return Contest(base, configuration(self.rival), self.prompts, keeps_words=keeps_words)


class LoadWatcher:
    """Looks on while the opponent is loaded, and may end it; see ``engine.api.Watcher``."""

    def __init__(self, tell: Callable[[View], None]) -> None:
        self.cancelled = False
        self._tell = tell

    def on_progress(self, progress: DownloadProgress) -> None:
        done = progress.bytes / progress.total if progress.total else None
        self._tell({"t": "opening", "said": DOWNLOADING, "done": done})

    def on_loading(self, progress: LoadProgress) -> None:
        self._tell({"t": "opening", "said": STAGES[progress.stage], "done": progress.fraction})


def configuration(settings: Settings) -> Configuration:
    """Return a side's configuration. Raises InvalidRequest."""
    return Configuration(settings.speculation(), settings.sampling(), settings.max_tokens)
