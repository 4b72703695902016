"""How tokens are chosen from logits, and how drafted tokens are accepted. Torch-free."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from engine.values import require

LEAST_PENALTY = 1e-3
"""Least repetition penalty: logits are divided by it, and must stay finite."""


class AcceptanceRule(StrEnum):
    """How drafted tokens are accepted; ``AUTO`` is greedy at temperature 0, else coupled."""

    AUTO = "auto"
    GREEDY = "greedy"
    COUPLED = "coupled"
    REJECTION = "rejection"
    BLOCK = "block"

    @property
    def weighs_q(self) -> bool:
        """True if acceptance compares p with the q that a token was drawn from.

        The words then depend on the draft, though their distribution does not, and drafts must be
        independent of the noise that accepts them.
        """
        return self in (AcceptanceRule.REJECTION, AcceptanceRule.BLOCK)


_RULES = ", ".join(AcceptanceRule)


def rule_named(text: str) -> AcceptanceRule:
    """Return the acceptance rule of that name. Raises InvalidRequest."""
    require(text in set(AcceptanceRule), "acceptance", f"is {text!r}; it must be one of {_RULES}.")
    return AcceptanceRule(text)


_COLD = 1e-5
"""Below this temperature float32 overflows before any but the most likely token is drawn."""


def resolve_rule(rule: AcceptanceRule, temperature: float) -> AcceptanceRule:
    """Resolve ``auto``; at temperature 0 every rule is greedy, which needs no noise."""
    if temperature < _COLD or rule is AcceptanceRule.GREEDY:
        return AcceptanceRule.GREEDY
    return AcceptanceRule.COUPLED if rule is AcceptanceRule.AUTO else rule


def check_rule(rule: AcceptanceRule, temperature: float) -> None:
    """Raise InvalidRequest for the rule ``greedy`` with a temperature, which it would ignore."""
    require(
        rule is not AcceptanceRule.GREEDY or temperature < _COLD,
        "acceptance",
        f"is 'greedy', which needs temperature 0, but the temperature is {temperature:g}. Choose another "
        "rule, or temperature 0.",
    )


def _field(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingValues:
    """The fields of ``Sampling``, unchecked. API, command line and settings take them from here."""

    temperature: float = _field(0.0, "0 = always the most likely token.")
    top_k: int = _field(0, "0 = off.")
    top_p: float = _field(1.0, "1 = off.")
    min_p: float = _field(0.0, "0 = off.")
    repetition_penalty: float = _field(1.0, "1 = off.")
    presence_penalty: float = _field(0.0, "0 = off.")
    frequency_penalty: float = _field(0.0, "0 = off.")
    seed: int | None = _field(None, "Same seed, same text.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(SamplingValues):
    """How the next token is chosen from the logits.

    ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 switch the truncations off. ``seed`` None draws one.
    """

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
            require(math.isfinite(getattr(self, name)), name, "must be a finite number.")
        require(
            0 <= self.temperature <= 5,
            "temperature",
            f"is {self.temperature}; it must be 0 (always the most likely token) to 5.",
        )
        require(self.top_k >= 0, "top_k", f"is {self.top_k}; it must be 0 (off) or more.")
        require(
            0 < self.top_p <= 1,
            "top_p",
            f"is {self.top_p}; it must be above 0 and at most 1 (off).",
        )
        require(0 <= self.min_p < 1, "min_p", f"is {self.min_p}; it must be 0 (off) to below 1.")
        require(
            LEAST_PENALTY <= self.repetition_penalty <= 10,
            "repetition_penalty",
            f"is {self.repetition_penalty}; it must be {LEAST_PENALTY} to 10 (1 is off).",
        )
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            require(
                math.isfinite(value) and -2 <= value <= 2,
                name,
                f"is {value}; it must be -2 to 2 (0 is off).",
            )
        require(
            self.seed is None or -(2**63) <= self.seed < 2**64,
            "seed",
            f"is {self.seed}; it must fit in 64 bits.",
        )

    @property
    def truncates(self) -> bool:
        """True if top-k, top-p or min-p is on."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    @property
    def penalises(self) -> bool:
        """True if a penalty is on."""
        return self.repetition_penalty != 1 or bool(self.presence_penalty or self.frequency_penalty)
