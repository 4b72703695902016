"""Which tokens of a draft's vocabulary are tokens of the target's: those that spell the same bytes.

Token-level intersection (TLI) of Timor et al. 2025, "Accelerating LLM inference with lossless
speculative decoding algorithms for heterogeneous vocabularies" (arXiv 2502.05202).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.drafting.cross_vocabulary.token_table import TokenTable, read_lexicon

_ENOUGH = 0.5


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

    @property
    def little(self) -> bool:
        """Whether the draft lacks most of the target's tokens.

        It then spells words in pieces; choosing among shared tokens, it proposes the pieces, which
        the target seldom chooses.
        """
        return self.of_target < _ENOUGH


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyMap:
    """Two vocabularies and which tokens they share.

    ``target_ids[i]`` and ``draft_ids[i]`` are the same token; no id comes twice in either. Control
    tokens are the same by name, the ends of a text by their role. ``target_ids`` is sorted. Both are
    empty where no text is shared. ``target_rows``: for how many ids the target has logits.
    """

    target: TokenTable
    draft: TokenTable
    target_ids: tuple[int, ...]
    draft_ids: tuple[int, ...]
    target_rows: int
    shared: Shared


def map_vocabularies(
    target: TokenTable, draft: TokenTable, *, target_rows: int, draft_rows: int
) -> VocabularyMap:
    """Matches tokens by what they spell; ``rows`` are the ids that each model has logits for."""
    pairs = {
        number: other
        for data, number in target.ids.items()
        if number < target_rows and (other := draft.ids.get(data, draft_rows)) < draft_rows
    }
    if pairs:  # control tokens alone would draft nothing
        pairs |= _controls(target, draft, target_rows, draft_rows)
    ordered = sorted(pairs.items())
    return VocabularyMap(
        target=target,
        draft=draft,
        target_ids=tuple(number for number, _ in ordered),
        draft_ids=tuple(number for _, number in ordered),
        target_rows=target_rows,
        shared=Shared(len(pairs), _tokens(target, target_rows), _tokens(draft, draft_rows)),
    )


def _controls(
    target: TokenTable, draft: TokenTable, target_rows: int, draft_rows: int
) -> dict[int, int]:
    """Control tokens of one name, and the ends of a text whatever their names."""
    named = {name: number for number, name in draft.control.items() if number < draft_rows}
    pairs = {
        number: named[name]
        for number, name in target.control.items()
        if number < target_rows and name in named
    }
    ours, theirs = target.eos, draft.eos
    if ours is not None and theirs is not None and ours not in pairs:
        inside = ours < target_rows and theirs < draft_rows
        if inside and theirs not in pairs.values():
            pairs[ours] = theirs
    return pairs


def read_map(target: Path, draft: Path, *, target_rows: int, draft_rows: int) -> VocabularyMap:
    """The map between the tokenizers of two models, each a folder or a GGUF file.

    Raises ModelError as ``read_lexicon`` does.
    """
    return map_vocabularies(
        read_lexicon(target), read_lexicon(draft), target_rows=target_rows, draft_rows=draft_rows
    )


def _tokens(table: TokenTable, rows: int) -> int:
    return sum(number < rows for number in (*table.spelled, *table.control))
