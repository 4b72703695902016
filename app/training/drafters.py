"""Train a drafter for a model of the catalog, and add it to the user's own catalog.

What training needs is imported where it is used: the pages import this module when the app starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from app import paths
from app.inventory import open_inventory, own_catalog
from app.storage.store import Store
from engine.api import LoadRequest, slug
from engine.drafting import heads
from engine.errors import DiskError, ForetokenError
from engine.loading.inventory import Inventory, Pairing
from engine.train.output.run_directory import RunDirectory
from engine.train.progress import Phase, ProgressFile, report

if TYPE_CHECKING:
    from engine.train.data.prompts import Prompt, Prompts
    from engine.train.recipe import Recipe, RepliesStage

CHATS, PIP, GENERAL = "chats", "pip", "general"
SHIPPED = frozenset({PIP, GENERAL})
Entry = tuple[str, dict[str, object]]
"""A section of the catalog, and what stands there."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A recipe, replacements for its ``target`` and ``prompts`` (None: its own), and the run's folder."""

    recipe: Recipe
    target: str | None
    prompts: str | None
    out: Path
    resume: bool


def train_drafter(job: TrainingJob, data_dir: Path) -> Path:
    """Train a drafter, add it to the catalog and return its folder.

    The run's progress file records how it ended. Raises CatalogError, PromptsError, ModelError,
    RecordingError, DiskError.
    """
    from engine.train.run import distil

    recipe, progress = job.recipe, ProgressFile(RunDirectory(job.out).progress)
    with _end_written(progress, job.out):
        inventory = open_inventory(data_dir)
        pair = inventory.resolve(LoadRequest.parse(job.target or recipe.target))
        stage = replace(recipe.replies, prompts=job.prompts or recipe.replies.prompts)
        prompts = prompts_of(stage, recipe.seed, data_dir)
        target = inventory.download(pair.target)
        # A draft only makes recording faster, so none is downloaded.
        draft = None if pair.draft is None else inventory.locate(pair.draft)
        recipe = replace(recipe, target=pair.target.name)  # as people call it, for the card
        folder = distil(recipe, target, prompts, job.out, resume=job.resume, draft=draft).resolve()
        identity = _enter(pair, recipe, folder, inventory, data_dir)
        progress.write(Phase.DONE, folder=str(folder), pair=identity)
    return folder


@contextmanager
def _end_written(progress: ProgressFile, out: Path) -> Iterator[None]:
    """Write why the run ended early, for programs that watch it.

    Write nothing if this run ended before it wrote any progress: the file is an earlier run's.
    """
    before = progress.read()

    def write(phase: Phase, **details: object) -> None:
        if not before or progress.read() != before:
            progress.write(phase, **details)

    try:
        yield
    except KeyboardInterrupt:
        details = {name: value for name, value in progress.read().items() if name != "phase"}
        write(Phase.STOPPED, **details)
        raise
    except ForetokenError as error:
        write(Phase.FAILED, message=str(error))
        raise
    except (OSError, SafetensorError) as error:
        full = DiskError.at(out, error)
        write(Phase.FAILED, message=str(full))
        raise full from error
    except Exception as error:
        again = "Resume it; if it fails again, please report this."
        write(Phase.FAILED, message=f"Training failed: {error!r}. {again}")
        raise


def prompts_of(stage: RepliesStage, seed: int, data_dir: Path) -> Prompts:
    """Return the prompts for the target. Raises PromptsError if there are too few."""
    from engine.train.data.general_prompts import general
    from engine.train.data.prompts import from_file, split

    if stage.prompts == GENERAL:
        return split(general(seed), stage.count, stage.held_out, seed, "general prompts")
    if stage.prompts == CHATS:
        return split(from_chats(data_dir), stage.count, stage.held_out, seed, "your chats")
    file = paths.pip_prompts() if stage.prompts == PIP else Path(stage.prompts).expanduser()
    return from_file(file, stage.count, stage.held_out, seed)


def from_chats(data_dir: Path) -> list[Prompt]:
    """Return every question of the user's own chats, with the conversation before it."""
    with closing(Store(data_dir, alone=False)) as store:
        return [prompt for chat in store.chats() for prompt in store.questions(chat.id)]


def _enter(
    pair: Pairing, recipe: Recipe, folder: Path, inventory: Inventory, data_dir: Path
) -> str:
    """Add the drafter to the user's catalog, as a pair of its own, and return the pair's id.

    Where another drafter has that id, as of a run in another folder, the id is numbered.
    """
    file, shipped = paths.own_catalog(data_dir), paths.catalog_file()
    first = slug(f"{pair.target.name}-{recipe.name}")
    for number in count(1):
        identity = first if number == 1 else f"{first}-{number}"
        entries = _entries(identity, pair, recipe, folder, inventory)
        if all(own_catalog.is_free(file, shipped, *entry) for entry in entries):
            break
    for entry in entries:
        own_catalog.add(file, shipped, *entry)
    report(
        f"Listed in your catalog, {file}, as {identity}. Use it with: foretoken chat "
        f"--pair {identity}"
    )
    return identity


def _entries(
    identity: str, pair: Pairing, recipe: Recipe, folder: Path, inventory: Inventory
) -> list[Entry]:
    """Return the catalog's entries for a drafter in ``folder``: the models it lacks, then the
    pair."""
    name = f"{pair.target.name} + {recipe.name}"
    entry: dict[str, object] = {"id": identity, "name": name}
    parts = [("target", pair.target)]
    if recipe.kind in heads.kinds():
        entry["heads"] = [str(folder)]
        if pair.draft is not None and (
            inventory.judge_draft(pair.target, pair.draft).cross_vocabulary is None
        ):
            parts.append(("draft", pair.draft))
    # A catalog takes two models for a pair only where it says that they share a tokenizer.
    tokenizer = next((spec.tokenizer for _, spec in parts if spec.tokenizer), identity)
    models = []
    for part, spec in parts:
        entry[part] = spec.id
        if spec.path is not None and Path(spec.id).is_absolute():  # outside the catalog
            entry[part] = f"{identity}-{part}"
            made = _model(f"{identity}-{part}", spec.name, spec.id, "unknown")
            models.append({**made, "tokenizer": tokenizer})
    if recipe.kind not in heads.kinds():
        entry["draft"] = identity + "-draft"
        models.append(_model(identity + "-draft", recipe.name, str(folder), "apache-2.0"))
    return [*(("models", model) for model in models), ("pairs", entry)]


def _model(identity: str, name: str, path: str, licence: str) -> dict[str, object]:
    return {"id": identity, "name": name, "path": path, "licence": licence}
