"""Two vocabularies, and the number of tokens with equal bytes in both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.drafting.cross_vocabulary.token_table import TokenTable, read_token_table


@dataclass(frozen=True, slots=True)
class Shared:
    """Sizes of two vocabularies, and of their intersection ``tokens``."""

    tokens: int
    target: int
    draft: int

    @property
    def of_target(self) -> float:
        """The fraction of the target's tokens that the draft has too."""
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
    """Compare two vocabularies; ``rows``: the number of ids for which each model has logits."""
    ours = {data for data, token in target.ids.items() if token < target_rows}
    theirs = {data for data, token in draft.ids.items() if token < draft_rows}
    shared = Shared(len(ours & theirs), _tokens(target, target_rows), _tokens(draft, draft_rows))
    return VocabularyMap(target, draft, shared)


def read_map(target: Path, draft: Path, *, target_rows: int, draft_rows: int) -> VocabularyMap:
    """Compare the tokenizers of two models, each a folder or a GGUF file.

    Raises ModelError as ``read_token_table``.
    """
    tables = read_token_table(target), read_token_table(draft)
    return map_vocabularies(*tables, target_rows=target_rows, draft_rows=draft_rows)


def _tokens(table: TokenTable, rows: int) -> int:
    return sum(token < rows for token in (*table.token_bytes, *table.control))
