"""The recipe of a drafter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.train.heads import kinds
from engine.train.schema import Budget, Device, OptimizerStage, load, need, read


@dataclass(frozen=True, slots=True)
class RepliesStage:
    """The prompts for the target, and the sampling of its replies.

    ``prompts`` is ``general`` (code, chat, JSON, rewriting), ``pip`` (shipped prompts of the kinds that
    Pip knows), ``chats`` (the user's own), or a file of JSON lines, each with ``messages`` or ``prompt``.
    """

    prompts: str = "pip"
    count: int = 1500
    held_out: int = 24  # prompts that nothing is learned from, for measuring acceptance
    tokens: int = 192  # most in one reply
    temperatures: tuple[float, ...] = (0.0, 0.8)
    gigabytes: float = 4.0  # most on disk, hidden states included; recording stops there
    minutes: float | None = None  # recording stops then, over resumes
    layers: tuple[int, ...] = ()  # hidden states entering these, for other kinds in the same --out


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what a run makes. ``shape`` is read by the kind's own class."""

    kind: str
    name: str
    target: str  # a model of the catalog, or a folder
    seed: int
    budget: Budget
    shape: Mapping[str, Any]
    replies: RepliesStage = field(default_factory=RepliesStage)
    optimizer: OptimizerStage = field(default_factory=OptimizerStage)
    hard_weight: float = 0.1  # share of plain cross-entropy in the loss; the rest is KL
    learn_prompts: bool = False  # learn from the prompts too, beside the replies
    window: int = 320  # most tokens of one reply, prompt included, in a batch
    batch_tokens: int = 4096
    micro_batches: int = 1  # batches whose gradients make one step
    checkpoint_minutes: float = 5.0
    evaluate_minutes: float = 5.0
    device: Device = "auto"
    native: bool = True  # the target may run in the step compiled for this processor
    threads: int | None = None


def load_recipe(path: Path) -> Recipe:
    """Read the recipe in a YAML file. Raises RecipeError."""
    recipe = read(Recipe, load(path))
    # What types cannot express.
    need(recipe.kind in kinds.names(), "kind", f"must be one of {', '.join(kinds.names())}")
    read(kinds.trainer(recipe.kind).Shape, recipe.shape, "shape")
    replies, budget = recipe.replies, recipe.budget
    need(
        budget.tokens is not None or budget.minutes is not None,
        "budget",
        "needs tokens, minutes or both",
    )
    need(
        replies.count > 0, "replies.count", "must be 1 or more: nothing is learned from no replies"
    )
    need(replies.held_out > 0, "replies.held_out", "must be 1 or more, to measure acceptance")
    need(replies.minutes != 0, "replies.minutes", "must be more than 0")
    need(bool(replies.temperatures), "replies.temperatures", "needs at least one temperature")
    need(16 <= recipe.window <= recipe.batch_tokens, "window", "must be 16 to batch_tokens")
    need(recipe.micro_batches > 0, "micro_batches", "must be 1 or more")
    return recipe
