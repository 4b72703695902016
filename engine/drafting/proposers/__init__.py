"""The registry of proposers: a new method is one file here and one line below.

Looking a name up imports its module only then; its ``Options`` appear in the page, the API and the
command line by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.drafting.heads import kinds
from engine.errors import InvalidRequest
from engine.request import FIXED_DEPTH, MAX_DEPTH, OptionValue

if TYPE_CHECKING:  # the names alone must not bring torch
    from engine.decoding.proposer import Proposer
    from engine.drafting.resources import Resources

_REGISTRY = {
    "none": "engine.drafting.proposers.none:NoneProposer",
    "draft": "engine.drafting.proposers.draft:DraftModelProposer",
    "ngram": "engine.drafting.proposers.ngram:NgramProposer",
    "suffix": "engine.drafting.proposers.suffix:SuffixProposer",
    "medusa": "engine.drafting.proposers.medusa:MedusaProposer",
    "eagle3": "engine.drafting.proposers.eagle3:Eagle3Proposer",
    "block": "engine.drafting.proposers.block:BlockProposer",
    "mlp": "engine.drafting.proposers.recurrent:MlpProposer",
    "lstm": "engine.drafting.proposers.recurrent:LstmProposer",
    "hybrid": "engine.drafting.proposers.hybrid:HybridProposer",
    "best": "engine.drafting.proposers.best:BestProposer",
}
_FORGETFUL: Mapping[str, Mapping[str, OptionValue]] = {
    "suffix": {"max_cached_requests": 0},
    "hybrid": {"max_cached_requests": 0},
    "best": {"max_cached_requests": 0},
}
_ABOUT = {
    "none": "plain decoding",
    "draft": "a small model",
    "ngram": "repeats from the text",
    "suffix": "repeats from text and past replies",
    "medusa": "heads beside the target's own",
    "eagle3": "one layer on the target's hidden states",
    "block": "several tokens in one pass",
    "mlp": "a small recurrence behind the target",
    "lstm": "a small recurrence with memory cells",
    "hybrid": "repeats, else a small model",
    "best": "the fastest just now",
}
"""What each drafts from, for pickers."""
_SUGGESTED_DEPTH = {"ngram": 7, "suffix": MAX_DEPTH, "hybrid": MAX_DEPTH}
"""N-grams cost nothing to draft, so they may look further; suffixes find their length themselves."""


def names() -> tuple[str, ...]:
    """All proposers, in the order they are offered."""
    return tuple(_REGISTRY)


def neural() -> tuple[str, ...]:
    """Those that draft with a model of their own, which ``hybrid`` can combine with past text."""
    return tuple(name for name in names() if name != "hybrid" and needs_of(name))


def available(resources: Resources) -> tuple[str, ...]:
    """The proposers whose needs ``resources`` meets."""
    return tuple(name for name in names() if not _missing(name, resources))


def preferred(offered: Collection[str]) -> str:
    """What drafts when nobody chose: the draft model, a head, or else n-grams, which are free."""
    return next((name for name in ("draft", *kinds()) if name in offered), "ngram")


def forgetful_options(name: str) -> dict[str, OptionValue]:
    """Options with which a proposer uses nothing of earlier replies.

    For benchmarks and races, which ask the same more than once: a proposer that remembers would be
    measured on its own answer.
    """
    return dict(_FORGETFUL.get(name, {}))


def suggested_depth(name: str) -> int:
    """What suits a proposer where the depth is fixed and nobody chose one."""
    return _SUGGESTED_DEPTH.get(name, FIXED_DEPTH)


def about(name: str) -> str:
    """What a proposer drafts from, in a few words; nothing where its name says enough."""
    return _ABOUT.get(name, "")


def options_of(name: str) -> type[Any]:
    """The frozen dataclass of a proposer's own settings. Raises InvalidRequest."""
    options: type[Any] = _proposer(name).Options
    return options


def needs_of(name: str) -> frozenset[str]:
    """What must be loaded for a proposer: ``draft``, or a kind of head. Raises InvalidRequest."""
    needs: frozenset[str] = _proposer(name).needs
    return needs


def drafts_with(name: str, loaded: Collection[str]) -> frozenset[str]:
    """Of what is ``loaded`` (``draft``, kinds of heads), what a proposer runs. Raises InvalidRequest."""
    return frozenset(loaded) if name == "best" else needs_of(name)


def check(name: str, options: Mapping[str, Any], resources: Resources) -> Any:
    """The proposer's Options. Raises InvalidRequest for a name, option or pair that does not fit."""
    proposer = _proposer(name)
    for need in _missing(name, resources):
        raise InvalidRequest("proposer", _refusal(name, need, resources))
    return _parse(name, proposer.Options, options)


def create(name: str, options: Mapping[str, Any], resources: Resources) -> Proposer:
    """Builds a proposer. Raises as ``check`` does."""
    checked = check(name, options, resources)
    proposer: Proposer = _proposer(name)(checked, resources)
    return proposer


def _proposer(name: str) -> Any:
    if name not in _REGISTRY:
        raise InvalidRequest(
            "proposer", f"There is no proposer {name!r}; choose one of {', '.join(names())}."
        )
    module, _, attribute = _REGISTRY[name].partition(":")
    return getattr(import_module(module), attribute)


def _missing(name: str, resources: Resources) -> list[str]:
    return sorted(need for need in needs_of(name) if not resources.has(need))


def _refusal(name: str, need: str, resources: Resources) -> str:
    if need == "draft":
        lacking = "a draft model, and none is loaded. Load a pair with a draft"
    else:
        others = ", ".join(resources.heads)
        lacking = (
            f"a head of kind {need} for this target, and none is loaded"
            f"{f' (there is {others})' if others else ''}. Add one with --head FOLDER"
        )
    return f"The proposer {name!r} needs {lacking}, or choose 'ngram' or 'none'."


def _parse(name: str, kind: Any, given: Mapping[str, Any]) -> Any:
    """``given`` as an Options value; every key and type checked against the dataclass."""
    defaults = {field.name: field.default for field in fields(kind)}
    for key, value in given.items():
        if key not in defaults:
            known = ", ".join(defaults) or "none"
            raise InvalidRequest(
                "options", f"The proposer {name!r} has no option {key!r}; it has: {known}."
            )
        wanted = type(defaults[key])
        if type(value) is not wanted:
            raise InvalidRequest(
                "options", f"{key} is {value!r}; it must be of type {wanted.__name__}."
            )
    return kind(**given)
