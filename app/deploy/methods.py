"""Methods of drafting, by vLLM's names, their assumed acceptance, and the engines that have them.

``acceptance`` is the probability that a drafted token is accepted if those before it were, one number for
all positions (Leviathan et al. 2023, arXiv 2211.17192, section 3.1). It decides everything and depends on
the text: the table has a default with its source, and ``--acceptance`` replaces it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from engine.errors import InvalidRequest


class Needs(Enum):
    NOTHING = "nothing"
    TEXT = "text"
    MODEL = "a smaller model with the target's vocabulary"
    HEAD = "a head trained for the target"
    MODULE = "the target's own module"


@dataclass(frozen=True, slots=True)
class Method:
    """A way to draft. ``depth``: its default number of tokens a round."""

    name: str
    title: str
    needs: Needs
    depth: int
    acceptance: float
    reason: str


_MEASURED = "docs/results/real-2026-11-22.md"
_GUESSED = "an assumption of ours, between what was measured for n-grams and for EAGLE-3"

NONE = "none"

METHODS = MappingProxyType(
    {
        method.name: method
        for method in (
            Method(NONE, "plain decoding", Needs.NOTHING, 0, 0.0, "nothing is drafted"),
            Method(
                "ngram",
                "n-grams of the text so far",
                Needs.TEXT,
                4,
                0.3,
                f"1.41 tokens a round measured here over four kinds of prompts, {_MEASURED}",
            ),
            Method(
                "suffix",
                "suffix trees of this text and past ones",
                Needs.TEXT,
                8,
                0.3,
                f"1.39 tokens a round measured here without past texts, {_MEASURED}",
            ),
            Method(
                "draft_model",
                "a draft model",
                Needs.MODEL,
                4,
                0.8,
                f"0.87 gives the 3.88 tokens a round measured here at depth 4, {_MEASURED}; less for "
                "ordinary chats",
            ),
            Method("eagle", "EAGLE", Needs.HEAD, 3, 0.65, _GUESSED),
            Method(
                "eagle3",
                "EAGLE-3",
                Needs.HEAD,
                3,
                0.75,
                "gives the 373 tokens/s that SGLang documents for Llama-3.1-8B on one H100",
            ),
            Method("medusa", "Medusa heads", Needs.HEAD, 3, 0.55, _GUESSED),
            Method("mlp_speculator", "an MLP speculator", Needs.HEAD, 3, 0.55, _GUESSED),
            Method(
                "mtp",
                "the target's multi-token prediction",
                Needs.MODULE,
                1,
                0.85,
                "DeepSeek-V3's report, section 5.4.3: 85 to 90 % for the second token",
            ),
            Method("dflash", "DFlash", Needs.HEAD, 7, 0.75, "taken to be EAGLE-3's"),
        )
    }
)


def method_named(name: str) -> Method:
    """Return the method of this name. Raises InvalidRequest, which lists the names."""
    if name in METHODS:
        return METHODS[name]
    close = difflib.get_close_matches(name.replace("-", "_"), METHODS, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise InvalidRequest(
        "method", f"There is no method '{name}'.{hint} Known: {', '.join(METHODS)}."
    )


VLLM, SGLANG, TRTLLM, DYNAMO = "vllm", "sglang", "trtllm", "dynamo"

NAMES = MappingProxyType({VLLM: "vLLM", SGLANG: "SGLang", TRTLLM: "TensorRT-LLM", DYNAMO: "Dynamo"})
"""Their display names, in the order of the page's list."""

ENGINES = tuple(NAMES)
BACKENDS = (VLLM, SGLANG, TRTLLM)
"""Engines that can run behind Dynamo."""

CAN = MappingProxyType(
    {
        VLLM: frozenset(METHODS),
        SGLANG: frozenset({NONE, "ngram", "draft_model", "eagle", "eagle3", "mtp", "dflash"}),
        TRTLLM: frozenset({NONE, "ngram", "suffix", "draft_model", "eagle3", "mtp", "dflash"}),
    }
)
"""The methods of each engine that computes; ``support`` names the sources."""


def drafts_by(engine: str, method: str) -> bool:
    """Return whether ``engine`` has ``method``; for Dynamo, whether any of its backends has it."""
    if engine == DYNAMO:
        return any(method in methods for methods in CAN.values())
    return method in CAN[engine]
