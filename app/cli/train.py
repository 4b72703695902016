"""``foretoken train``: a drafter for a model that is there; ``foretoken learn``: what drafters learn from
replies, its switch, and back to the published ones."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option

from app import paths
from app.cli import options
from engine.errors import InvalidRequest
from engine.files import expanded
from engine.values.units import counted


def train(
    recipe: str = Argument(
        ..., help="A recipe file, or the name of an included one: eagle3, pip-medusa, ..."
    ),
    target: str | None = Option(
        None,
        help="Model to train for, instead of the recipe's: an id, a folder or a GGUF file. "
        "TARGET::DRAFT uses that draft to speed up recording.",
    ),
    prompts: str | None = Option(
        None,
        help="Training prompts: general (code, chat, JSON, rewriting), pip (what Pip "
        "knows), chats (your own; they stay here) or a file of JSON lines.",
    ),
    out: Path | None = Option(
        None, help="Folder for recordings, checkpoints and models. Default: runs/NAME, here."
    ),
    fresh: bool = Option(False, "--fresh", help="Start over instead of resuming."),
    device: str | None = Option(None, help="auto, cpu or cuda, instead of the recipe's."),
    native: bool | None = Option(
        None,
        "--native/--no-native",
        help="Use the compiled kernels for the model, instead of the recipe's choice.",
    ),
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Train a drafter for a model. After a stop, the same command continues from the last checkpoint."""
    file = find_recipe(recipe)
    out = out or Path.cwd() / "runs" / file.stem
    # The heavy imports come after the quick mistakes.
    from app.training.options import train_drafter
    from engine.train.recipe import load_recipe

    options.check_gpu("device", device, needs=device == "cuda")
    own = {"device": device, "native": native, "threads": threads}
    chosen: Any = {name: value for name, value in own.items() if value is not None}
    made = replace(load_recipe(file), **chosen)
    if prompts:
        made = replace(made, replies=replace(made.replies, prompts=prompts))
    try:
        with stoppable():
            folder = paths.data_folder(data_dir)
            train_drafter(made, target or made.target, out, folder, resume=not fresh)
    except KeyboardInterrupt:
        print(
            "Stopped. Run the same command to continue from the last checkpoint.", file=sys.stderr
        )
        raise typer.Exit(130) from None


def learn(
    on: bool = Option(False, "--on", help="Let the loaded drafter learn from replies while idle."),
    off: bool = Option(False, "--off", help="Store and learn nothing more."),
    learned: bool = Option(False, "--learned", help="Draft with the learned versions."),
    published: bool = Option(False, "--published", help="Draft with the original versions."),
    forget: bool = Option(
        False, "--forget", help="Delete all stored replies and learned versions."
    ),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Show or change what drafters learn from replies. A running app notices, at the latest with its next
    request."""
    from app import learning
    from app.settings.preferences import PreferencesFile

    if (on and off) or (learned and published) or (forget and (on or learned or published)):
        raise InvalidRequest(
            "learn",
            "These options contradict each other. State one of each pair; --forget goes with --off "
            "alone.",
        )
    data = paths.data_folder(data_dir)
    file, root = PreferencesFile(data), paths.learned(data)
    preferences = file.keep(learn=on) if on or off else file.read()
    heads = learning.learned_heads(data)
    if forget:
        replies = sum(head.replies for head in heads)
        names = [head.state().name for head in heads if head.version.is_dir()]
        learning.forget(root)
        heads = []
        versions = f" and the learned version of {'; '.join(names)}" if names else ""
        print(f"Deleted {counted(replies, 'reply', 'replies')}{versions}.")
    elif (learned or published) and heads:
        for head in heads:
            head.keep(replace(head.state(), used=learned and head.version.is_dir()))
        learning.new_generation(root)
    print(f"Drafters learn from replies while idle: {'on' if preferences.learn else 'off'}.")
    for head in heads:
        state = head.state()
        version = "learned" if state.used else "original"
        print(
            f"{state.name}: the {version} version drafts; "
            f"{counted(head.replies, 'stored reply', 'stored replies')}, "
            f"{counted(len(state.trials), 'update')} tried."
        )
        for trial in state.trials[-1:]:
            print(
                f"  {trial.at}: from {counted(trial.replies, 'reply', 'replies')}, "
                f"{trial.before:.2f} -> {trial.after:.2f} tokens per round on the newest ones, "
                f"{trial.others_before:.2f} -> {trial.others_after:.2f} on general prompts, "
                f"{'taken' if trial.taken else 'not taken'}."
            )
        for day, (_, rounds, accepted) in sorted(state.days.items()):
            print(f"  {day}: {1 + accepted / max(1, rounds):.2f} tokens per round")
    if not heads and not forget:
        print("Nothing was learned yet.")
    if as_json:
        print(
            json.dumps(
                {"on": preferences.learn, "heads": [learning.as_json(head) for head in heads]}
            )
        )


@contextmanager
def stoppable() -> Iterator[None]:
    """Make SIGTERM stop as Ctrl-C does, so that what was learned is kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def find_recipe(text: str) -> Path:
    """Return the recipe at that path, or the shipped one of that name: ``pip-mlp``."""
    path = expanded(text)
    if path.is_file():
        return path
    folder = paths.recipes()
    shipped = (folder / path.name).with_suffix(".yaml")
    if shipped.is_file():
        return shipped
    known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none"
    raise InvalidRequest("recipe", f"There is no recipe {text}. Included recipes: {known}.")
