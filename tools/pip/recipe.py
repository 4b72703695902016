"""The recipe of a pair, tokenizer to draft: frozen values read from YAML, every key checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.train.schema import Budget, Device, OptimizerStage, load, need, read


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a Llama decoder with tied embeddings."""

    layers: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int = 64
    rope_theta: float = 10000.0
    context: int = 1024


@dataclass(frozen=True, slots=True)
class TokenizerStage:
    """Byte-level BPE. `sample_characters` of the mixture and as much `text_share` of plain text."""

    vocabulary: int
    sample_characters: int = 12_000_000
    text_share: float = 0.3


@dataclass(frozen=True, slots=True)
class Phase:
    """Up to the fraction `until` of the run, `text_share` of the tokens are plain text.

    `known_share` of the documents that the model already answers right are learned from; see `hard`.
    """

    until: float
    text_share: float
    known_share: float = 1.0


@dataclass(frozen=True, slots=True)
class RowsStage:
    """How documents become batches: rows of a few fixed lengths, `micro_tokens` in each batch."""

    lengths: tuple[int, ...] = (256, 512, 1024)
    micro_tokens: int = 4096
    block_tokens: int = 131_072  # made at once, from one seed; the unit of resuming


@dataclass(frozen=True, slots=True)
class TargetStage:
    """The model that decides the words."""

    model: Shape
    budget: Budget
    phases: tuple[Phase, ...]
    rows: RowsStage = field(default_factory=RowsStage)
    optimizer: OptimizerStage = field(default_factory=OptimizerStage)
    step_tokens: int = 8192
    checkpoint_minutes: float = 5.0
    evaluate_minutes: float = 10.0

    @property
    def micro_batches(self) -> int:
        """Batches whose gradients make one step."""
        return self.step_tokens // self.rows.micro_tokens


@dataclass(frozen=True, slots=True)
class DraftStage:
    """The small model, distilled from the target on the target's own replies and on the mixture."""

    model: Shape
    budget: Budget
    replies: int = 2000  # prompts answered by the target, and stored
    reply_tokens: int = 192
    held_out: int = 64  # prompts that the draft never learns from, for measuring acceptance
    temperatures: tuple[float, ...] = (0.0, 0.8)
    reply_share: float = 0.7  # of the batches; the rest is the mixture
    hard_weight: float = 0.1  # share of plain cross-entropy in the loss; the rest is KL
    rows: RowsStage = field(default_factory=RowsStage)
    optimizer: OptimizerStage = field(default_factory=OptimizerStage)
    step_tokens: int = 8192
    checkpoint_minutes: float = 5.0
    evaluate_minutes: float = 5.0

    @property
    def micro_batches(self) -> int:
        """Batches whose gradients make one step."""
        return self.step_tokens // self.rows.micro_tokens


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what a training run makes."""

    name: str
    seed: int
    tokenizer: TokenizerStage
    target: TargetStage
    draft: DraftStage
    weights: Mapping[str, float] | None = None  # None: the mixture's own
    device: Device = "auto"
    threads: int | None = None  # None: all that the process may use
    compile: bool = True  # used where a C++ compiler or CUDA is there


def load_recipe(path: Path) -> Recipe:
    """The recipe in a YAML file. Raises RecipeError."""
    recipe = read(Recipe, load(path))
    _check(recipe)
    return recipe


def _check(recipe: Recipe) -> None:
    """What types cannot say."""
    for name, stage in (("target", recipe.target), ("draft", recipe.draft)):
        need(
            stage.budget.tokens is not None or stage.budget.minutes is not None,
            f"{name}.budget",
            "needs tokens, minutes or both",
        )
        rows, lengths = stage.rows, stage.rows.lengths
        need(bool(lengths), f"{name}.rows.lengths", "needs at least one length")
        need(list(lengths) == sorted(set(lengths)), f"{name}.rows.lengths", "must increase")
        need(
            all(rows.micro_tokens % length == 0 for length in lengths),
            f"{name}.rows.micro_tokens",
            f"must be a multiple of every length in {list(lengths)}",
        )
        need(
            stage.step_tokens % rows.micro_tokens == 0,
            f"{name}.step_tokens",
            f"must be a multiple of rows.micro_tokens, {rows.micro_tokens}",
        )
        need(
            lengths[-1] <= stage.model.context,
            f"{name}.rows.lengths",
            f"must not be over the context, {stage.model.context}",
        )
        shape = stage.model
        need(
            shape.heads % shape.kv_heads == 0,
            f"{name}.model.kv_heads",
            f"must divide heads, {shape.heads}",
        )
    ends = [phase.until for phase in recipe.target.phases]
    need(
        bool(ends) and ends == sorted(ends) and ends[-1] == 1.0,
        "target.phases",
        "must increase in `until` and end at 1.0",
    )
    need(
        all(0.0 <= phase.known_share <= 1.0 for phase in recipe.target.phases),
        "target.phases.known_share",
        "must be between 0 and 1",
    )
