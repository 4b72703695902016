"""The registry of proposers: a new method is one file here and one line below.

A module is imported when its name is first looked up. Its ``Options`` appear in the page, the API and the
command line by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import Field, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.drafting.heads import INSIDE, kinds
from engine.errors import InvalidRequest
from engine.request import FIXED_DEPTH, OptionValue
from engine.values import MAX_DEPTH, noun, shown
from engine.values.method_titles import method_title

if TYPE_CHECKING:  # importing the registry must not import torch
    from engine.decoding.proposer import Proposer
    from engine.drafting.resources import Resources


@dataclass(frozen=True, slots=True)
class Entry:
    """A proposer's import path, and its description: see ``engine.api.ProposerInfo``.

    ``takes_all``: whether it drafts with everything that is loaded, not only with what it needs.
    """

    path: str
    about: str
    depth: int = FIXED_DEPTH
    isolated_options: Mapping[str, OptionValue] = field(default_factory=dict)
    takes_all: bool = False


_HERE = "engine.drafting.proposers"
_NO_PAST: Mapping[str, OptionValue] = {"max_cached_requests": 0}
_FEW = 2
"""Models and heads among which ``best`` loses nothing; see docs/log/controllers.md."""
_REGISTRY: Mapping[str, Entry] = {
    "none": Entry(f"{_HERE}.none:NoneProposer", "the model writes alone"),
    "draft": Entry(f"{_HERE}.draft:DraftModelProposer", "a small model guesses ahead"),
    # N-grams cost nothing to draft, so they may be longer; suffixes choose their length themselves.
    "ngram": Entry(f"{_HERE}.ngram:NgramProposer", "reuses phrases from this chat", depth=7),
    "suffix": Entry(
        f"{_HERE}.suffix:SuffixProposer",
        "reuses phrases from all chats",
        depth=MAX_DEPTH,
        isolated_options=_NO_PAST,
    ),
    "medusa": Entry(f"{_HERE}.medusa:MedusaProposer", "one small head for each of the next tokens"),
    "mtp": Entry(f"{_HERE}.eagle3:MtpProposer", "a layer that comes with the model"),
    "eagle3": Entry(f"{_HERE}.eagle3:Eagle3Proposer", "one layer on the model's hidden states"),
    "assistant": Entry(
        f"{_HERE}.recurrent:AssistantProposer", "narrow layers on the model's keys and values"
    ),
    "block": Entry(f"{_HERE}.block:BlockProposer", "several tokens in one pass"),
    "mlp": Entry(f"{_HERE}.recurrent:MlpProposer", "a small network that guesses token by token"),
    "lstm": Entry(f"{_HERE}.recurrent:LstmProposer", "a small network with memory cells"),
    "hybrid": Entry(
        f"{_HERE}.best:HybridProposer",
        "reuses phrases, else a draft model or head",
        depth=MAX_DEPTH,
        isolated_options=_NO_PAST,
    ),
    "best": Entry(
        f"{_HERE}.best:BestProposer",
        "whichever is fastest, chosen while it writes",
        isolated_options=_NO_PAST,
        takes_all=True,
    ),
}


def names() -> tuple[str, ...]:
    """Return all proposers, in the order of pages and help texts."""
    return tuple(_REGISTRY)


def neural() -> tuple[str, ...]:
    """Return the proposers with a model of their own name, which ``hybrid`` and ``best`` combine."""
    return tuple(name for name in names() if needs_of(name) == {name})


def available(loaded: Collection[str]) -> tuple[str, ...]:
    """Return the proposers whose needs are ``loaded``: ``draft``, and kinds of heads."""
    return tuple(name for name in names() if not _missing(name, loaded))


def drafters(choices: Collection[str]) -> list[str]:
    """Return the proposers that draft by a model of their own: the draft model, then heads."""
    return [name for name in ("draft", *INSIDE, *kinds()) if name in choices]


def preferred(choices: Collection[str], *, in_rounds: bool = False) -> str:
    """Return the default proposer: ``best`` where a model or head drafts, else n-grams, which are free.

    ``in_rounds``: the target runs rounds on a GPU. Then it is that model or head, which drafts within
    them; ``best`` drafts on the host. So it is with many to choose from, as ``best`` tries them all.
    """
    found = drafters(choices)
    if not found:
        return "ngram"
    return found[0] if in_rounds or len(found) > _FEW else "best"


def entry_of(name: str) -> Entry:
    """Return the registry's entry of a proposer. Raises InvalidRequest."""
    if name not in _REGISTRY:
        raise InvalidRequest(
            "proposer", f"There is no proposer {name!r}; choose one of {', '.join(names())}."
        )
    return _REGISTRY[name]


def options_of(name: str) -> type[Any]:
    """Return the frozen dataclass of a proposer's own options. Raises InvalidRequest."""
    options: type[Any] = _class_of(name).Options
    return options


def needs_of(name: str) -> frozenset[str]:
    """Return what must be loaded: ``draft``, or a kind of head. Raises InvalidRequest."""
    needs: frozenset[str] = _class_of(name).needs
    return needs


def drafts_with(name: str, loaded: Collection[str]) -> frozenset[str]:
    """Return what a proposer runs of the ``loaded`` draft and heads. Raises InvalidRequest."""
    return frozenset(loaded) if entry_of(name).takes_all else needs_of(name)


def check(name: str, options: Mapping[str, Any], resources: Resources) -> Any:
    """Return the proposer's Options. Raises InvalidRequest for a wrong name, option or pair."""
    check_needs(name, resources.loaded)
    return check_options(name, options)


def check_options(name: str, options: Mapping[str, Any]) -> Any:
    """Return the proposer's Options. Raises InvalidRequest for a wrong name or option."""
    kind = options_of(name)
    declared = {field.name: field for field in fields(kind)}
    for key, value in options.items():
        if key not in declared:
            raise InvalidRequest(
                "options",
                f"The proposer {name!r} has no option {key!r}; it has: {', '.join(declared) or 'none'}.",
            )
        if fault := _fault(value, declared[key]):
            raise InvalidRequest("options", f"{key} is {shown(value)}; it must be {fault}.")
    return kind(**options)


def _fault(value: object, option: Field[Any]) -> str | None:
    """Return what an option's value must be, if it is not."""
    wanted, choices = type(option.default), option.metadata.get("choices", ())
    if type(value) is not wanted and (wanted, type(value)) != (float, int):
        return noun(wanted)
    if callable(choices):
        choices = choices()
    if choices and value not in choices:
        return f"one of {', '.join(choices)}"
    bounds = option.metadata.get("range")
    if bounds and not bounds[0] <= value <= bounds[1]:
        return f"{bounds[0]} to {bounds[1]}"
    return None


def check_needs(name: str, loaded: Collection[str], unused: str = "") -> None:
    """Raise InvalidRequest if a need of the proposer is not ``loaded``. ``unused``: why what the target's
    files bring for it is not."""
    for need in _missing(name, loaded):
        others = ", ".join(available(loaded))
        raise InvalidRequest(
            "proposer",
            f"The proposer {name!r} needs {_lacking(need, loaded)}, or choose one of {others}."
            + (f" {unused}" if unused and need in INSIDE else ""),
        )


def why_not(name: str, resources: Resources) -> str | None:
    """Return what the proposer needs and ``resources`` lack, as a sentence; None if nothing."""
    needs = _missing(name, resources.loaded)
    return f"It needs {_lacking(needs[0], resources.loaded)}." if needs else None


def create(name: str, options: Mapping[str, Any], resources: Resources) -> Proposer:
    """Return a new proposer. Raises as ``check``."""
    checked = check(name, options, resources)
    proposer: Proposer = _class_of(name)(checked, resources)
    return proposer


def _class_of(name: str) -> Any:
    module, _, attribute = entry_of(name).path.partition(":")
    return getattr(import_module(module), attribute)


def _missing(name: str, loaded: Collection[str]) -> list[str]:
    return sorted(needs_of(name).difference(loaded))


def _lacking(need: str, loaded: Collection[str]) -> str:
    if need == "draft":
        return "a draft model. Load one with the target"
    if need in INSIDE:
        return f"a model with a built-in {method_title(need)}. Load one"
    others = ", ".join(kind for kind in kinds() if kind in loaded)
    return (
        f"a head of kind {need} for this model{f' (loaded: {others})' if others else ''}. "
        "Load one with the target, or on the Models page"
    )
