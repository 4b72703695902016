"""Two vocabularies, and how many tokens of the target are tokens of the draft: those with equal bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.drafting.cross_vocabulary.token_table import TokenTable, read_token_table


@dataclass(frozen=True, slots=True)
class Shared:
    """How much two vocabularies share, in tokens."""

    tokens: int
    target: int
    draft: int

    @property
    def of_target(self) -> float:
        """The share of the target's tokens that the draft has too."""
        return self.tokens / max(self.target, 1)


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyMap:
    """The tokens of a target and of its draft."""

    target: TokenTable
    draft: TokenTable
    shared: Shared


def map_vocabularies(
    target: TokenTable, draft: TokenTable, *, target_rows: int, draft_rows: int
) -> VocabularyMap:
    """Compare two vocabularies; ``rows`` are the ids for which each model has logits."""
    ours = {data for data, token in target.ids.items() if token < target_rows}
    theirs = {data for data, token in draft.ids.items() if token < draft_rows}
    shared = Shared(len(ours & theirs), _tokens(target, target_rows), _tokens(draft, draft_rows))
    return VocabularyMap(target, draft, shared)


def read_map(target: Path, draft: Path, *, target_rows: int, draft_rows: int) -> VocabularyMap:
    """Compare the tokenizers of two models, each a folder or a GGUF file.

    Raises ModelError as ``read_token_table`` does.
    """
    return map_vocabularies(
        read_token_table(target),
        read_token_table(draft),
        target_rows=target_rows,
        draft_rows=draft_rows,
    )


def _tokens(table: TokenTable, rows: int) -> int:
    return sum(token < rows for token in (*table.spelled, *table.control))
