"""Training a drafter beside the running app: one run at a time, in a process of its own.

The process is ``foretoken train`` on a recipe that stands in the run's folder, so that starting it again
goes on where it stopped. Everything that is known of a run is in files: pages may be reloaded and the app
restarted. A run ends with the app; one that outlives a crash of it is found again.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from app.inventory import open_inventory
from app.training import process as training_process
from app.training.options import SHIPPED, TrainingOptions, from_chats, prompts_of, recipe_for
from app.training.process import Process
from engine.api import LoadRequest, slug
from engine.errors import DiskError, ForetokenError, InvalidRequest, ModelError
from engine.files import read_json, write_private
from engine.train.output.run_directory import RunDirectory
from engine.train.progress import Phase, ProgressFile
from engine.train.recipe import RepliesStage
from engine.train.schema import read

RECIPE, LOG = "recipe.yaml", "log.txt"
MOST_MINUTES = 7 * 24 * 60
_FULL_BYTES = 16 << 20


class State(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Run:
    """A training of these options; ``process``: id and birth of what works on it, or worked last."""

    name: str
    target_name: str
    options: TrainingOptions
    process: tuple[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A drafter's acceptance after so many seconds of learning: tokens a round, share per position."""

    seconds: float
    length: float
    per_position: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of a run. ``phase`` is None while models are loaded.

    ``done`` of ``of`` replies are recorded or measured; ``share`` of the learning is over; ``curve`` has
    (seconds, nats per token). ``error`` is set when it failed; ``drafter`` (a folder) and ``pair`` (in
    the catalog) when it is done.
    """

    run: Run
    folder: Path
    state: State
    phase: Phase | None
    done: int
    of: int
    share: float
    seconds_left: float | None
    curve: tuple[tuple[float, float], ...]
    measured: tuple[Measured, ...]
    error: str
    drafter: Path | None
    pair: str


def _refusal(message: str) -> InvalidRequest:
    return InvalidRequest("training", message)


class Trainings:
    """The runs of one data folder. Safe to use from any thread."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir, self._folder = data_dir, data_dir / "training"
        self._lock = threading.RLock()
        self._own: subprocess.Popen[bytes] | None = None
        self._stopping = False

    # ---- actions

    def start(self, options: TrainingOptions) -> None:
        """Start a run. Raises ForetokenError for errors known at once; later ones are in ``status``."""
        with self._lock:
            self._need_no_run()
            if not 0 < options.minutes <= MOST_MINUTES:
                raise InvalidRequest(
                    "minutes",
                    f"The training time must be more than 0 and at most {MOST_MINUTES} minutes.",
                )
            inventory = open_inventory(self._data_dir)
            target = inventory.resolve(LoadRequest.parse(options.pair)).target
            if target.address:
                raise ModelError(
                    f"{target.name} runs on a server, and training needs the weights. Choose a "
                    "model on this machine."
                )
            if inventory.locate(target) is None:
                raise ModelError(f"{target.name} is not on this machine. Load it once, then train.")
            number, model = 1, slug(target.name)
            taken = {pair.id for pair in inventory.catalog.pairs}
            while (name := f"{model}-{options.kind}-{number}") in taken or (
                self._folder / name
            ).exists():
                number += 1
            run = Run(name, target.name, options)
            self._prepare(run, recipe_for(options, f"{options.kind} {number}"))
            self._launch(run)

    def resume(self) -> None:
        """Resume a run that stopped or failed, by the same command."""
        with self._lock:
            run = self._run()
            if run is None:
                raise _refusal("There is no training to resume. Start a new one.")
            if self._process(run) is not None:
                raise _refusal("This training is already running.")
            self._need_not_done(run)
            self._launch(run)

    def stop(self) -> None:
        """Ask the process to save its progress and to end; ``status`` tells when it has."""
        with self._lock:
            run = self._run()
            process = self._process(run) if run else None
            if process is None or self._stopping:
                return
            self._stopping = True
            threading.Thread(
                target=training_process.end, args=(process,), name="stop-training", daemon=True
            ).start()

    def discard(self) -> None:
        """Delete a run that is not running, with all it recorded."""
        with self._lock:
            run = self._ended("delete")
            self._need_not_done(run)
            shutil.rmtree(self._folder_of(run), ignore_errors=True)
            self._current.unlink(missing_ok=True)

    def put_away(self) -> None:
        """Make room for another run: keep the drafter, delete what it was learned from."""
        with self._lock:
            run = self._ended("put away")
            for name in ("recording", "state"):
                shutil.rmtree(self._folder_of(run) / name, ignore_errors=True)
            self._current.unlink(missing_ok=True)

    def recordings(self) -> list[Path]:
        """Return the folders of recorded training data, questions of chats among it."""
        return [folder for folder in self._folder.glob("*/recording") if folder.is_dir()]

    def close(self) -> None:
        """Stop the process when the app ends; the run can be resumed."""
        with self._lock:
            if self._own is not None and self._own.poll() is None:
                self._own.terminate()

    # ---- what pages show

    @property
    def running(self) -> bool:
        """True while a training's process works."""
        return bool(self.uses())

    def uses(self) -> tuple[LoadRequest, ...]:
        """Return the pair that a training's process works with; none if there is no process."""
        with self._lock:
            run = self._run()
            if run is None or self._process(run) is None:
                return ()
            return (LoadRequest.parse(run.options.pair),)

    def status(self) -> Status | None:
        """Return the run in progress or the last one; None if there is none to show."""
        with self._lock:
            run = self._run()
            if run is None:
                return None
            folder, kind = self._folder_of(run), run.options.kind
            # In this order: what a process wrote at its end is not missed.
            running = self._process(run) is not None
            progress = ProgressFile(RunDirectory(folder).progress).read()
            log = RunDirectory(folder).journal(kind).read()
            phase = Phase(progress["phase"]) if progress else None
            state, error = self._state(run, running, phase, progress)
            return Status(
                run,
                folder,
                state,
                phase,
                done=progress.get("done", 0),
                of=progress.get("of", 0),
                share=progress.get("share", log[-1]["progress"] if log else 0.0),
                seconds_left=progress.get("seconds_left"),
                curve=tuple((entry["seconds"], entry["loss"]) for entry in log if "loss" in entry),
                measured=tuple(_measured(entry) for entry in log if "acceptance" in entry),
                error=error,
                drafter=Path(progress["folder"]) if state is State.DONE else None,
                pair=progress.get("pair", ""),
            )

    def _state(
        self, run: Run, running: bool, phase: Phase | None, progress: dict[str, Any]
    ) -> tuple[State, str]:
        """Return the state, and the error of a failed run."""
        if running:
            return (State.STOPPING if self._stopping else State.RUNNING), ""
        if phase is Phase.DONE:
            return State.DONE, ""
        if phase is Phase.FAILED:
            return State.FAILED, str(progress["message"])
        status = self._own.returncode if self._own else None
        if phase is Phase.STOPPED or self._stopping or status in (None, 0, 130):
            return State.STOPPED, ""
        return State.FAILED, self._why_it_died(self._folder_of(run), status)

    @staticmethod
    def _why_it_died(folder: Path, status: int | None) -> str:
        """Return the error of a process that died without writing one."""
        if shutil.disk_usage(folder).free < _FULL_BYTES:
            return str(DiskError.at(folder, OSError(28, "No space left on device")))
        if status is not None and status < 0:
            return (
                f"The system stopped the training (signal {-status}), most likely because "
                "memory ran out. Close other programs or unload the model, then resume."
            )
        lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = lines[-1].removeprefix("foretoken: ") if lines else f"exit status {status}"
        return f"The training stopped: {last}. Its full log is in {folder / LOG}."

    # ---- files and the process

    @property
    def _current(self) -> Path:
        return self._folder / "current.json"

    def _folder_of(self, run: Run) -> Path:
        return self._folder / run.name

    def _run(self) -> Run | None:
        try:
            found = read_json(self._current)
            process = tuple(found.pop("process") or ()) or None
            options = TrainingOptions(**found.pop("order"))
            run = Run(**found, options=options, process=process)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None  # none, or a file that no version of this app wrote
        return run if self._folder_of(run).is_dir() else None

    def _need_no_run(self) -> None:
        status = self.status()
        if status is None:
            return
        if status.state in (State.RUNNING, State.STOPPING):
            raise _refusal("A training is running. Stop it first, or wait.")
        raise _refusal(
            "There is an earlier training. Resume it, delete it, or choose Train another.",
        )

    def _ended(self, verb: str) -> Run:
        run = self._run()
        if run is None:
            raise _refusal(f"There is no training to {verb}.")
        if self._process(run) is not None:
            raise _refusal(f"The training is still running. Stop it, then {verb} it.")
        return run

    def _need_not_done(self, run: Run) -> None:
        if (
            ProgressFile(RunDirectory(self._folder_of(run)).progress).read().get("phase")
            == Phase.DONE
        ):
            raise _refusal(
                "This training is done, and its drafter is in the catalog. Choose Train another instead.",
            )

    def _prepare(self, run: Run, content: dict[str, Any]) -> None:
        """Create the run's folder with its recipe; remove it again if this fails."""
        folder = self._folder_of(run)
        try:
            folder.mkdir(mode=0o700, parents=True)  # it holds the chats it learns from
            text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
            (folder / RECIPE).write_text(text, encoding="utf-8")
            if run.options.prompts not in SHIPPED:  # which never are too few
                stage = read(RepliesStage, content["replies"], "replies")
                prompts_of(stage, content["seed"], self._data_dir)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise DiskError.at(folder, error) from error
        except ForetokenError:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _launch(self, run: Run) -> None:
        folder, options = self._folder_of(run), run.options
        words = ["train", folder / RECIPE, "--target", options.pair, "--prompts", options.prompts]
        words += ["--out", folder, "--data-dir", self._data_dir]
        self._stopping, self._own = False, None
        try:
            RunDirectory(folder).progress.unlink(missing_ok=True)
            self._save(run)
            with (folder / LOG).open("ab") as log:
                self._own = training_process.start(map(str, words), log)
            born = training_process.put_behind(self._own.pid)
            self._save(replace(run, process=(self._own.pid, born)))
        except DiskError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise DiskError.at(folder, error) from error

    def _save(self, run: Run) -> None:
        values = asdict(run)
        values["order"] = values.pop("options")
        write_private(self._current, json.dumps(values))

    def _process(self, run: Run) -> Process | None:
        """Return the process of the run, also one that an earlier app started."""
        if run.process is None:
            return None
        number, born = run.process
        if self._own is not None and self._own.pid == number:
            return self._own if self._own.poll() is None else None
        return training_process.find(number, born)


def _measured(entry: dict[str, Any]) -> Measured:
    found = entry["acceptance"]
    return Measured(entry["seconds"], found["acceptance_length"], tuple(found["per_position"]))


def questions_of(data_dir: Path) -> int:
    """Return how many different questions the user's own chats hold."""
    return len(set(from_chats(data_dir)))
