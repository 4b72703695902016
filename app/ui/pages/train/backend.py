"""The Train page's backend: what can be trained, a run's progress, and its buttons. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from app.learning import learned_heads, summary
from app.runtime import Runtime
from app.training import runs as training
from app.training.options import CHATS, SHIPPED, TrainingOptions, trainable_kinds
from app.training.runs import State, Status, Trainings
from app.ui import words
from app.ui.controls.pickers import Pickers
from app.ui.endpoints import View, chosen, endpoint
from app.ui.rounds.speeds import DRAFT
from app.ui.words.names import titles
from engine.api import LoadRequest
from engine.errors import ForetokenError, InvalidRequest
from engine.files import expanded, size_on_disk
from engine.request import PLAIN
from engine.values.method_titles import method_title
from engine.values.units import format_bytes

POINTS = 240
"""Points of the curve, at most: it has no more pixels, and a long run logs more."""


class TrainBackend:
    """Trainings of one running app."""

    def __init__(
        self,
        runtime: Runtime,
        trainings: Trainings,
        pickers: Pickers,
        speed: Callable[[], float | None] = lambda: None,
        draft_with: Callable[[str], None] = lambda proposer: None,
    ) -> None:
        """``speed`` returns the loaded pair's measured tokens/s, or None. ``draft_with`` chooses a
        proposer for it."""
        self._runtime, self._trainings, self._pickers = runtime, trainings, pickers
        self._speed, self._draft_with = speed, draft_with
        runtime.uses.append(trainings.uses)

    @endpoint
    def training_choices(self, data: View | None = None) -> View:
        """Return what the form offers; ``target`` is the loaded one."""
        here = [spec for spec in self._pickers.models() if self._runtime.locate(spec)]
        names = titles(*(spec.name for spec in here))
        return {
            "targets": [
                {"id": spec.id, "name": name} for spec, name in zip(here, names, strict=True)
            ],
            "target": self._pickers.shown()[0],
            "speed": self._speed(),
            "kinds": [_kind(kind) for kind in trainable_kinds()],
            "questions": training.questions_of(self._runtime.data_dir),
        }

    @endpoint
    def training(self, data: View | None = None) -> View:
        """Return the ``run`` to show, if any."""
        status = self._trainings.status()
        if status is None:
            return {"run": None}
        done = status.state is State.DONE
        pair, race = (self._name_of(status.pair), self._race(status)) if done else (None, None)
        return {"run": {**show(status), "pair": pair, "race": race}}

    def _race(self, status: Status) -> View:
        """Return the race of a finished run: the trained proposer against what drafted before, the
        target's draft model or plain decoding. ``place``: see ``race/opponents.py``."""
        options, place, was = status.run.options, None, PLAIN
        try:
            before = self._runtime.inventory.named(LoadRequest.parse(options.pair))
            pair = self._runtime.catalog.pair(status.pair)
        except ForetokenError:  # it is gone; loading it says so
            return {"rival": options.kind, "base": was, "place": place}
        if pair.heads and pair.draft is not None:
            was = DRAFT
        elif before.draft is not None:
            place, was = options.pair, DRAFT
        return {"rival": options.kind, "base": was, "place": place}

    @endpoint
    def train(self, data: View) -> View:
        """Start the training that the form describes. Raises ForetokenError."""
        self._trainings.start(self._options(data))
        return self.training()

    def _options(self, data: View) -> TrainingOptions:
        """Return the form's options, with the device, step and threads that the app was started with."""
        how, options = self._runtime.first, _options(data)
        target, draft = self._pickers.shown()
        draft = draft if target == options.target else ""
        return replace(
            options, device=how.device, native=how.native, threads=how.threads, draft=draft
        )

    @endpoint
    def change_training(self, data: View) -> View:
        """Stop, resume, discard or put away the run, as ``act`` says. Raises ForetokenError."""
        runs = self._trainings
        acts = {
            "stop": runs.stop,
            "resume": runs.resume,
            "discard": runs.discard,
            "put_away": runs.put_away,
        }
        chosen(acts, data)()
        return self.training()

    @endpoint
    def open_trained(self, data: View | None = None) -> View:
        """Load the pair of the finished run and draft with the trained drafter; by default a draft model
        of the pair would be used."""
        status = self._trainings.status()
        if status is not None:
            use = partial(self._draft_with, status.run.options.kind)
            self._runtime.loader.start(self._runtime.request(status.pair), then=use)
        return self.training()

    # ---- learning from chats

    @endpoint
    def learning(self, data: View | None = None) -> View:
        """Return the switch, and what each head has learned."""
        learning = self._runtime.learning
        found = learned_heads(self._runtime.data_dir)
        return {
            "on": learning.on,
            "doing": learning.doing,
            "size": format_bytes(size_on_disk(learning.root)),
            "heads": [summary(head) for head in found],
        }

    @endpoint
    def switch_learning(self, data: View) -> View:
        self._runtime.learning.on = bool(data["on"])
        return self.learning()

    @endpoint
    def use_learned(self, data: View) -> View:
        """Let the ``learned`` version of a head draft, or the published one."""
        for head in learned_heads(self._runtime.data_dir):
            if head.name == data["head"]:
                self._runtime.learning.use(head, bool(data["learned"]))
        return self.learning()

    @endpoint
    def forget_learned(self, data: View | None = None) -> View:
        """Delete all lessons and learned versions. Raises DiskError."""
        self._runtime.learning.forget()
        return self.learning()

    def _name_of(self, pair: str) -> str:
        """Return the pair's name. Another process wrote it into the catalog, so read that again."""
        known = {entry.id: entry.name for entry in self._runtime.catalog.pairs}
        if pair not in known:
            self._runtime.read_catalog_again()
            known = {entry.id: entry.name for entry in self._runtime.catalog.pairs}
        return known.get(pair, pair)


def show(status: Status) -> View:
    """Return a run as the page reads it; times in minutes of learning."""
    options, last = status.run.options, status.measured[-1] if status.measured else None
    shipped = options.prompts in (*SHIPPED, CHATS)
    return {
        "name": status.run.name,
        "target": status.run.target_name,
        "kind": _kind(options.kind)["name"],
        "prompts": options.prompts if shipped else Path(options.prompts).name,
        "minutes": options.minutes,
        "state": status.state,
        "phase": status.phase,
        "done": status.done,
        "of": status.of,
        "share": status.share,
        "recorded": _recorded(status),
        "left": None if status.seconds_left is None else words.duration(status.seconds_left),
        "loss": [[at / 60, loss] for at, loss in thinned(status.curve)],
        "length": [[entry.seconds / 60, entry.length] for entry in status.measured],
        "positions": list(last.per_position) if last else [],
        "error": status.error or None,
        "drafter": str(status.drafter) if status.drafter else None,
    }


def _recorded(status: Status) -> float:
    """Return the share of the recording that is over. It ends with its prompts or its time."""
    by_time = 0.0
    if status.seconds_left is not None:
        by_time = 1 - status.seconds_left / (60 * status.run.options.minutes)
    return min(1.0, max(status.done / max(1, status.of), by_time))


def thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Return at most ``POINTS`` points, evenly chosen, the last one always."""
    if len(points) <= POINTS:
        return points
    step = (len(points) - 1) / (POINTS - 1)
    return [points[round(step * number)] for number in range(POINTS)]


def _kind(kind: str) -> View:
    return {"id": kind, "name": method_title(kind), "sentence": words.KINDS.get(kind, "")}


def _options(data: View) -> TrainingOptions:
    try:
        minutes = float(data["minutes"])
    except ValueError as error:
        raise InvalidRequest("minutes", "Enter a number of minutes.") from error
    prompts = str(data["prompts"])
    if prompts not in (*SHIPPED, CHATS):
        prompts = prompts.strip().strip("\"'")
        if not prompts:
            raise InvalidRequest("prompts", "Enter the path of a prompt file.")
        prompts = str(expanded(prompts).absolute())
    return TrainingOptions(str(data["target"]), str(data["kind"]), prompts, minutes)
