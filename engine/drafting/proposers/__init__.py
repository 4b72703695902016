"""The registry of proposers: a new method is one file here and one line below.

Looking a name up imports its module only then; its ``Options`` appear in the page, the API and the
command line by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.drafting.heads import kinds
from engine.errors import InvalidRequest
from engine.request import FIXED_DEPTH, OptionValue
from engine.values import MAX_DEPTH

if TYPE_CHECKING:  # the names alone must not bring torch
    from engine.decoding.proposer import Proposer
    from engine.drafting.resources import Resources


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a proposer's class is, and what everybody says of it: see ``engine.api.ProposerInfo``.

    ``takes_all``: whether it drafts with whatever is loaded, and not only with what it needs.
    """

    place: str
    about: str
    depth: int = FIXED_DEPTH
    isolated_options: Mapping[str, OptionValue] = field(default_factory=dict)
    takes_all: bool = False


_HERE = "engine.drafting.proposers"
_NO_PAST: Mapping[str, OptionValue] = {"max_cached_requests": 0}
_REGISTRY: Mapping[str, Entry] = {
    "none": Entry(f"{_HERE}.none:NoneProposer", "plain decoding"),
    "draft": Entry(f"{_HERE}.draft:DraftModelProposer", "a small model"),
    # N-grams cost nothing to draft, so they may look further; suffixes find their length themselves.
    "ngram": Entry(f"{_HERE}.ngram:NgramProposer", "repeats from the text", depth=7),
    "suffix": Entry(
        f"{_HERE}.suffix:SuffixProposer",
        "repeats from text and past replies",
        depth=MAX_DEPTH,
        isolated_options=_NO_PAST,
    ),
    "medusa": Entry(f"{_HERE}.medusa:MedusaProposer", "heads beside the target's own"),
    "eagle3": Entry(f"{_HERE}.eagle3:Eagle3Proposer", "one layer on the target's hidden states"),
    "block": Entry(f"{_HERE}.block:BlockProposer", "several tokens in one pass"),
    "mlp": Entry(f"{_HERE}.recurrent:MlpProposer", "a small recurrence behind the target"),
    "lstm": Entry(f"{_HERE}.recurrent:LstmProposer", "a small recurrence with memory cells"),
    "hybrid": Entry(
        f"{_HERE}.hybrid:HybridProposer",
        "repeats, else a small model",
        depth=MAX_DEPTH,
        isolated_options=_NO_PAST,
    ),
    "best": Entry(
        f"{_HERE}.best:BestProposer",
        "the fastest just now",
        isolated_options=_NO_PAST,
        takes_all=True,
    ),
}


def names() -> tuple[str, ...]:
    """All proposers, in the order they are offered."""
    return tuple(_REGISTRY)


def neural() -> tuple[str, ...]:
    """Those that draft with a model of their own, which is named as they are.

    They are what ``hybrid`` and ``best`` combine with past text.
    """
    return tuple(name for name in names() if needs_of(name) == {name})


def available(loaded: Collection[str]) -> tuple[str, ...]:
    """The proposers that need no more than what is ``loaded``: ``draft``, and kinds of heads."""
    return tuple(name for name in names() if not _missing(name, loaded))


def preferred(offered: Collection[str]) -> str:
    """What drafts when nobody chose: the draft model, a head, or else n-grams, which are free."""
    return next((name for name in ("draft", *kinds()) if name in offered), "ngram")


def entry_of(name: str) -> Entry:
    """What the registry says of a proposer. Raises InvalidRequest."""
    if name not in _REGISTRY:
        raise InvalidRequest(
            "proposer", f"There is no proposer {name!r}; choose one of {', '.join(names())}."
        )
    return _REGISTRY[name]


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
    return frozenset(loaded) if entry_of(name).takes_all else needs_of(name)


def check(name: str, options: Mapping[str, Any], resources: Resources) -> Any:
    """The proposer's Options. Raises InvalidRequest for a name, option or pair that does not fit."""
    check_needs(name, resources.loaded)
    return _parse(name, options_of(name), options)


def check_needs(name: str, loaded: Collection[str]) -> None:
    """Raises InvalidRequest where one needs what is not ``loaded``: ``draft``, or a kind of head."""
    for need in _missing(name, loaded):
        others = ", ".join(other for other in names() if not _missing(other, loaded))
        raise InvalidRequest(
            "proposer",
            f"The proposer {name!r} needs {_lacking(need, loaded)}, or choose one of {others}.",
        )


def create(name: str, options: Mapping[str, Any], resources: Resources) -> Proposer:
    """Builds a proposer. Raises as ``check`` does."""
    checked = check(name, options, resources)
    proposer: Proposer = _proposer(name)(checked, resources)
    return proposer


def _proposer(name: str) -> Any:
    module, _, attribute = entry_of(name).place.partition(":")
    return getattr(import_module(module), attribute)


def _missing(name: str, loaded: Collection[str]) -> list[str]:
    return sorted(needs_of(name).difference(loaded))


def why_not(name: str, resources: Resources) -> str | None:
    """What a proposer needs and ``resources`` lack, as a sentence; None where it can draft."""
    needs = _missing(name, resources.loaded)
    return f"It needs {_lacking(needs[0], resources.loaded)}." if needs else None


def _lacking(need: str, loaded: Collection[str]) -> str:
    if need == "draft":
        return "a draft model, and none is loaded. Load a pair with a draft"
    others = ", ".join(kind for kind in kinds() if kind in loaded)
    return (
        f"a head of kind {need} for this target, and none is loaded"
        f"{f' (there is {others})' if others else ''}. Load "
        "one with it, on the Models page or by --head FOLDER"
    )


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
