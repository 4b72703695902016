"""Runs a recipe: tokenizer, target, draft. Stages that are finished are not run again on resume."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.train.device import choose_device
from engine.train.progress import report
from engine.train.schema import subseed
from tools.pip.data import DataError, Material
from tools.pip.draft import train_draft
from tools.pip.export import export_model, write_card
from tools.pip.folder import PairDirectory
from tools.pip.recipe import Recipe, load_recipe
from tools.pip.start import take_over
from tools.pip.target import train_target
from tools.pip.tokenizer import save_tokenizer, train_tokenizer

STAGES = ("tokenizer", "target", "draft")
_ABOUT = {
    "target": "The guide built into Foretoken: a small chat model that explains the app and "
    "speculative decoding, tells short tales, writes records and lists, and rewrites text. "
    "It knows nothing else.",
    "draft": "The draft model of Pip, distilled from it, for speculative decoding. "
    "Not for use alone.",
}


def run(
    recipe_path: Path,
    *,
    out: Path,
    data: Path,
    resume: bool = True,
    stages: Sequence[str] = STAGES,
    start: Path | None = None,
) -> None:
    """Trains what `recipe_path` describes into `out`, from `data` (laid out as ../shared/data).

    `start`: a folder with a trained `target`, and its `draft` if there is one, to go on from. The
    target's budget counts what it had already; the draft's begins again, since its target has changed.
    """
    recipe = load_recipe(recipe_path)
    if not data.is_dir():
        raise DataError(
            f"{data}: no such folder; --data names the folder with tales, dialogues, gsm8k."
        )
    paths = PairDirectory(out)
    if start is not None:
        take_over(start / "target", paths)
    device = choose_device(recipe.device, recipe.threads)

    def wanted(stage: str, result: Path) -> bool:
        return stage in stages and not (resume and _is_done(stage, result))

    if wanted("tokenizer", paths.tokenizer / "tokenizer.json"):
        make_tokenizer(recipe, paths, data)
    if wanted("target", paths.target / "model.safetensors"):
        model = train_target(recipe, paths, data, device, resume, start and start / "target")
        export_model(model, paths.tokenizer, paths.target)
        _card(paths, "target", recipe)
    if wanted("draft", paths.draft / "model.safetensors"):
        draft = train_draft(recipe, paths, data, device, resume, start and start / "draft")
        export_model(draft, paths.tokenizer, paths.draft)
        _card(paths, "draft", recipe)


def _is_done(stage: str, result: Path) -> bool:
    """Whether a stage left its result; says so, since the stage is passed over then."""
    done = result.exists()
    if done:
        report(
            f"{stage}: already trained, in {result.parent}; --stage {stage} --fresh trains it again"
        )
    return done


def make_tokenizer(recipe: Recipe, paths: PairDirectory, data: Path) -> None:
    """Trains and saves the tokenizer on a sample of the mixture and the plain texts."""
    stage = recipe.tokenizer
    material = Material(data, recipe.weights)
    tokenizer = train_tokenizer(tokenizer_sample(material, recipe), stage.vocabulary)
    save_tokenizer(tokenizer, paths.tokenizer, recipe.target.model.context)
    report(f"tokenizer: {tokenizer.get_vocab_size()} entries in {paths.tokenizer}")


def tokenizer_sample(material: Material, recipe: Recipe) -> Iterator[str]:
    """Chats, then plain texts, `sample_characters` in all; what is only markup is left out."""
    stage, seed = recipe.tokenizer, subseed(recipe.seed, "tokenizer")
    share = stage.text_share if material.texts else 0.0
    left = int(stage.sample_characters * (1 - share))
    for example in material.examples(seed):
        if left <= 0:
            break
        for message in example.messages:
            left -= len(message.content)
            yield message.content
    left = int(stage.sample_characters * share)
    texts = random.Random(seed).sample(material.texts, len(material.texts))
    for text in texts:
        if left <= 0:
            return
        left -= len(text)
        yield text


def _card(paths: PairDirectory, stage: str, recipe: Recipe) -> None:
    about = _ABOUT[stage]
    title = recipe.name if stage == "target" else f"{recipe.name} (draft)"
    evaluation = paths.out / f"{stage}-evaluation.json"
    folder = paths.target if stage == "target" else paths.draft
    write_card(folder, title, about, paths.journal(stage).read(), evaluation)
