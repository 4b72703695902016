"""What a proposer's own probabilities are worth."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

_PRIOR_SAID, _PRIOR_TOKENS, _REMEMBERED = 0.8, 20.0, 200.0
"""A proposer is believed at first, as if so many tokens had been said to stand so often, and had. So many
are remembered."""
_SURE, _BENT = 0.995, 4.0
"""Nobody is believed to be surer, or corrected by a higher power."""


class Calibration:
    """A token that is said to stand with p does with ``p ** power``.

    A drafter distilled from its target says nearly what comes true (docs/log); others are too sure of
    themselves, or not sure enough.
    """

    def __init__(self) -> None:
        self._said = self._stood = _PRIOR_SAID * _PRIOR_TOKENS
        self._judged = _PRIOR_TOKENS
        self.known = False

    def learn(self, said: Sequence[float], stood: int) -> None:
        """Takes the probabilities of judged tokens, of which the first ``stood`` ones stand."""
        keep = min(1.0, _REMEMBERED / self._judged)
        self._said = keep * self._said + sum(said)
        self._stood = keep * self._stood + stood
        self._judged = keep * self._judged + len(said)
        self.known = True

    @property
    def power(self) -> float:
        """1 where what is said comes true, less where more comes true."""
        said = min(self._said / self._judged, _SURE)
        stood = min(max(self._stood / self._judged, 1 - _SURE), _SURE)
        return min(max(log(stood) / log(said), 1 / _BENT), _BENT)

    def said_of(self, chance: float) -> float:
        """What is said of tokens that stand with ``chance``."""
        return float(chance ** (1 / self.power))
