"""The options of a training, its recipe, and the training itself, which adds the drafter to the user's
own catalog.

What training needs is imported where it is used: the pages import this module when the app starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from app import paths
from app.inventory import open_inventory, own_catalog
from app.storage.store import Store
from engine.api import SEPARATOR, LoadRequest, slug
from engine.drafting import heads
from engine.errors import DiskError, ForetokenError, InvalidRequest
from engine.files import expanded
from engine.loading.inventory import Inventory, Pairing
from engine.train.heads import kinds
from engine.train.output.run_directory import RunDirectory
from engine.train.progress import Phase, ProgressFile, report
from engine.train.schema import load

if TYPE_CHECKING:
    from engine.train.data.prompts import Prompt, Prompts
    from engine.train.recipe import Recipe, RepliesStage


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The options of a training.

    ``target``: a model or pair of the catalog, a folder or a GGUF file; ``prompts``: general, pip, chats
    or a file; ``minutes`` of learning, before which the target's replies are recorded for at most as
    long. ``device``, ``native`` and ``threads`` as in ``LoadRequest``. ``draft``: a model that drafts
    while replies are recorded, "" for the one that the catalog pairs with the target.
    """

    target: str
    kind: str
    prompts: str
    minutes: float
    device: str = "auto"
    native: bool = True
    threads: int | None = None
    draft: str = ""

    @property
    def pair(self) -> str:
        """Return target and draft, as ``LoadRequest.parse`` reads them."""
        return SEPARATOR.join(filter(None, (self.target, self.draft)))


PIP = "pip"
"""The model that comes with the app, and the name of the prompts that it knows."""
_MEASURED_A_MINUTE, _MEASURED_LEAST = 4, 8
"""Held-out prompts for each minute of learning, so that a short one is not measured for longer."""
OF_ITS_TARGET = frozenset({"target_layer_ids", "mask_token_id"})
"""Keys of a shape that name layers or tokens of the recipe's own target. Their defaults suit any."""


def shipped_recipe(kind: str, target: str = PIP) -> Path | None:
    """Return the recipe with a kind's defaults for ``target``; None if it has none.

    Pip's own is for a model of some millions of parameters; where there is another, all others get that.
    """
    folder = paths.recipes()
    files = (folder / f"{kind}.yaml", folder / f"pip-{kind}.yaml")
    found = [file for file in (reversed(files) if target == PIP else files) if file.is_file()]
    return found[0] if found else None


def trainable_kinds() -> tuple[str, ...]:
    """Return the kinds that can be trained without a custom recipe."""
    return tuple(kind for kind in kinds.names() if shipped_recipe(kind))


def recipe_for(options: TrainingOptions, name: str) -> dict[str, Any]:
    """Return the kind's own recipe, adapted to these options.

    Left out are the hidden states that only other kinds would read (``replies.layers``), since nothing
    else learns in this run's folder, and what is ``OF_ITS_TARGET``. Raises InvalidRequest.
    """
    file = shipped_recipe(options.kind, options.target)
    if file is None:
        known = ", ".join(trainable_kinds())
        raise InvalidRequest(
            "kind", f"There is no drafter type {options.kind!r}; choose one of {known}."
        )
    content: Any = load(file)
    replies = {key: value for key, value in content["replies"].items() if key != "layers"}
    measured = max(_MEASURED_LEAST, round(_MEASURED_A_MINUTE * options.minutes))
    replies["held_out"] = min(replies["held_out"], measured)
    other = options.target != content["target"]
    shape = {
        key: value
        for key, value in content["shape"].items()
        if not (other and key in OF_ITS_TARGET)
    }
    return {
        **content,
        "name": name,
        "target": options.target,
        "budget": {"minutes": options.minutes},
        "shape": shape,
        "replies": {**replies, "prompts": options.prompts, "minutes": options.minutes},
        "device": options.device,
        "native": options.native,
        "threads": options.threads,
    }


CHATS, GENERAL = "chats", "general"
SHIPPED = frozenset({PIP, GENERAL})
Entry = tuple[str, dict[str, object]]
"""A section of the catalog, and what stands there."""


def train_drafter(recipe: Recipe, target: str, out: Path, data_dir: Path, *, resume: bool) -> Path:
    """Train a drafter for the pair ``target``, add it to the catalog and return its folder.

    The progress file of the run's folder ``out`` records how it ended. Raises CatalogError, PromptsError,
    ModelError, RecordingError, DiskError.
    """
    from engine.train.run import distil

    progress = ProgressFile(RunDirectory(out).progress)
    with _end_written(progress, out):
        inventory = open_inventory(data_dir)
        pair = inventory.resolve(LoadRequest.parse(target))
        prompts = prompts_of(recipe.replies, recipe.seed, data_dir)
        place = inventory.download(pair.target)
        # A draft only makes recording faster, so none is downloaded.
        draft = None if pair.draft is None else inventory.locate(pair.draft)
        recipe = replace(recipe, target=pair.target.name)  # as people call it, for the card
        folder = distil(recipe, place, prompts, out, resume=resume, draft=draft).resolve()
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
    file = paths.pip_prompts() if stage.prompts == PIP else expanded(stage.prompts)
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
