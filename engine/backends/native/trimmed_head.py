"""A part of the compiled step's output head, as decoder.h reads it."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.native import library as native
from engine.kernels.native import structures
from engine.models.trimmed_vocabulary import GROUP, TrimmedVocabulary

assert GROUP == native.LANES, "tokens are kept by whole panels"


class TrimmedHead:
    """The panels of ``among``, the tokens they stand for, and room for a row of their logits."""

    def __init__(self, among: TrimmedVocabulary, vocabulary: int) -> None:
        self.among = among
        self.ids = among.ids(vocabulary)
        self.logits = torch.empty(1, among.groups * GROUP)
        runs = [structures.Range(run.start, run.stop) for run in among.runs]
        self._runs = (structures.Range * len(runs))(*runs)
        self.panels = structures.TrimmedPanels(self._runs, len(self._runs), among.groups)

    def below(self, limit: int) -> int:
        """How many of the tokens are below ``limit``; they come first."""
        return int(torch.searchsorted(self.ids, limit))

    def widened(self, vocabulary: int) -> Tensor:
        """The row of logits for a whole vocabulary: ``(1, vocabulary)``, -inf at all other tokens."""
        row = torch.full((1, vocabulary), float("-inf"))
        row[0, self.ids] = self.logits[0, : len(self.ids)]
        return row
