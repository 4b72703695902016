"""The tokens among which a draft chooses, so that it computes no logits of tokens it never proposes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrimmedVocabulary:
    """``runs``: groups of ``operands.GROUP`` tokens, ascending and not adjacent.

    FR-Spec's ranked subset (Zhao et al. 2025, arXiv 2502.14856); SGLang's ``hot_token_id``.
    """

    runs: tuple[range, ...]

    @classmethod
    def of(cls, first: int, others: set[int]) -> TrimmedVocabulary:
        """Return the first ``first`` groups, and ``others``."""
        runs = [range(first)]
        for group in sorted(group for group in others if group >= first):
            if group == runs[-1].stop:
                runs[-1] = range(runs[-1].start, group + 1)
            else:
                runs.append(range(group, group + 1))
        return cls(tuple(runs))
