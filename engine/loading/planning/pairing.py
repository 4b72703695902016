"""Whether one model on disk can draft for another, and how or why not.

A draft with another tokenizer drafts across vocabularies, if both can be read and share tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.drafting.cross_vocabulary.token_table import Shared, VocabularyMap, read_map
from engine.errors import ModelError
from engine.loading.specs import ModelSpec
from engine.models.architecture import Architecture
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.tokenizer import version_of
from engine.models.checkpoints.tokenizer_files import listed_alike, tokenizer_signature
from engine.models.families import described
from engine.models.sizes.weight_counts import share_read
from engine.stats import percent

SHORTEST_DRAFT_CONTEXT = 128
"""A draft that sees less than this would stop drafting before the first reply is done."""

FEWEST_SHARED = 0.05
"""Least share of a target's tokens that a draft of another vocabulary must have: with fewer it was
made for other text, and spells nearly every word in pieces."""


@dataclass(frozen=True, slots=True)
class Compatibility:
    """``reason`` says why a draft does not fit, or is None. ``shared``: what the vocabularies have in
    common if the tokenizers differ, else None.
    """

    reason: str | None = None
    shared: Shared | None = None

    @property
    def cross_vocabulary(self) -> str | None:
        """How a pair with two vocabularies drafts, as the end of a sentence; None with one."""
        shared = self.shared
        if shared is None:
            return None
        return (
            f"different vocabulary ({percent(shared.of_target)} of the target's "
            f"{shared.target:,} tokens are among the draft's {shared.draft:,}); its text is "
            "split into the target's tokens"
        )

    @property
    def hopeless(self) -> str | None:
        """Why a usable draft is not worth proposing, or None."""
        shared = self.shared
        return None if shared is None else hopeless(shared.tokens, shared.target, shared.draft)


def hopeless(shared: int, target: int, draft: int) -> str | None:
    """Return why drafting across two vocabularies is useless, by their numbers of tokens, or None.
    ``shared`` may be an upper bound."""
    if shared >= FEWEST_SHARED * target:
        return None
    return (
        f"At most {percent(shared / target)} of the target's {target:,} tokens are "
        f"among the draft's {draft:,}, so it would spell nearly every word in pieces. "
        "Choose a draft of the target's own family."
    )


def compare(target: Checkpoint, draft: Checkpoint) -> Compatibility:
    """Compare two models on disk; the reason names the sizes that differ.

    Embedding rows may differ by padding when the tokenizers are the same, as in Qwen and Gemma.
    Raises ModelError if a tokenizer cannot be read.
    """
    reason = why_not_size(target, draft) or _why_not_context(target, draft)
    if reason is not None:
        return Compatibility(reason)
    difference = _difference(target, draft)
    if difference is None:
        return Compatibility()
    try:
        shared = _shared(_named(target), _named(draft))
    except ModelError as error:
        return Compatibility(f"{difference} It cannot draft across vocabularies either: {error}")
    if not shared.tokens:
        return Compatibility(
            f"{difference} It cannot draft across vocabularies either: no token has the "
            "same text in both. Choose a draft of the target's own family."
        )
    return Compatibility(shared=shared)


def vocabularies(target: Checkpoint, draft: Checkpoint) -> VocabularyMap | None:
    """Return the map between the vocabularies of a fitting draft and its target; None if they are one.

    Raises ModelError if a tokenizer cannot be used after all.
    """
    if _difference(target, draft) is None:
        return None
    found = read_map(
        target.path, draft.path, target_rows=target.vocabulary, draft_rows=draft.vocabulary
    )
    for table in (found.target, found.draft):
        table.encode("a")  # fail here if the tokenizer cannot be parsed, not at the first request
    return found


def caution(target: Checkpoint, draft: Checkpoint) -> str | None:
    """Return a warning on a fitting pair, as a sentence for people, or None."""
    if draft.context >= target.context:
        return None
    return (
        f"The draft's context is {draft.context:,} tokens, the target's "
        f"{target.context:,}; drafting stops after {draft.context:,}."
    )


_Named = tuple[Path, int, tuple[int, int] | None]
"""Where a tokenizer lies, its model's rows, and the tokenizer's version."""


def _named(checkpoint: Checkpoint) -> _Named:
    return checkpoint.path, checkpoint.vocabulary, version_of(checkpoint.path)


@lru_cache(maxsize=1024)
def _shared(target: _Named, draft: _Named) -> Shared:
    """Return how the tokenizers overlap; cached, as lists of models compare pairs repeatedly."""
    found = read_map(target[0], draft[0], target_rows=target[1], draft_rows=draft[1])
    return found.shared


def _difference(target: Checkpoint, draft: Checkpoint) -> str | None:
    if listed_alike(target.path, draft.path):
        return None
    ours, theirs = tokenizer_signature(target.path), tokenizer_signature(draft.path)
    rows = min(target.vocabulary, draft.vocabulary)
    vital = frozenset(target.eos_ids) | frozenset(draft.eos_ids)
    difference = ours.difference(theirs, below=rows, vital=vital)
    if difference is None:
        return None
    return (
        f"Different vocabularies: the target has {target.vocabulary:,} tokens, the "
        f"draft {draft.vocabulary:,}; {difference}."
    )


def why_not_size(target: ModelSpec | Checkpoint, draft: ModelSpec | Checkpoint) -> str | None:
    """Return why drafting would cost too much, by the models' sizes and what a token reads, or None."""
    if draft.parameters >= target.parameters:
        return (
            f"The draft is not smaller than the target ({draft.parameters:,} against "
            f"{target.parameters:,} parameters), so drafting would cost more than it saves. "
            "Choose a smaller draft."
        )
    read = [round(one.parameters * share_read(_architecture(one))) for one in (target, draft)]
    if read[1] >= read[0]:
        return (
            f"Per token the draft reads {read[1]:,} parameters, and the target, a mixture "
            f"of experts, only {read[0]:,}. Drafting would cost more than it saves. Choose "
            "a smaller draft."
        )
    return None


def _architecture(model: ModelSpec | Checkpoint) -> Architecture | None:
    return model.architecture if isinstance(model, ModelSpec) else described(model)


def _why_not_context(target: Checkpoint, draft: Checkpoint) -> str | None:
    if draft.context >= min(SHORTEST_DRAFT_CONTEXT, target.context):
        return None
    return (
        f"The draft's context is {draft.context:,} tokens, the target's "
        f"{target.context:,}; a useful draft needs at least {SHORTEST_DRAFT_CONTEXT}."
    )
