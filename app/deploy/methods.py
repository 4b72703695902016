"""Methods of drafting and the engines that have them (tables/methods.yaml).

``acceptance`` is the probability that the first drafted token is accepted, ``fades`` what it is
multiplied with at each further position (Leviathan et al. 2023, arXiv 2211.17192, section 3.1, have one
number for all). Both depend on the text: the table has defaults with their source, and ``--acceptance``
replaces them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from app.deploy.tables import refusal, table
from engine.values.units import closest


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
    fades: float = 1.0


NONE = "none"
_TABLE = table("methods")

METHODS = MappingProxyType(
    {
        row["name"]: Method(**{**row, "needs": Needs[row["needs"].upper()]})
        for row in _TABLE["methods"]
    }
)
REFUSED: Mapping[str, str] = MappingProxyType(_TABLE["refused"])
DEPTHS: Mapping[str, int] = MappingProxyType(_TABLE["depths"])


def method_named(name: str) -> Method:
    """Return the method of this name. Raises InvalidRequest, which lists the names."""
    if name in REFUSED:
        raise refusal("method", "refused-method", name=name, why=REFUSED[name])
    if name not in METHODS:
        close = closest(name.replace("-", "_"), METHODS)
        hint = f" Did you mean {close}?" if close else ""
        raise refusal("method", "unknown-method", name=name, hint=hint, known=", ".join(METHODS))
    return METHODS[name]


VLLM, SGLANG, TRTLLM, DYNAMO = "vllm", "sglang", "trtllm", "dynamo"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine as ``title`` and ``version`` of its ``image``; ``methods``: its names
    of those that it computes."""

    title: str
    version: str
    image: str
    methods: Mapping[str, str] = field(default_factory=dict)
    first_token: float = 1.0

    @property
    def checked(self) -> str:
        return f"{self.title} {self.version}"


ENGINE_TABLE = MappingProxyType({name: Engine(**row) for name, row in _TABLE["engines"].items()})

NAMES = MappingProxyType({name: engine.title for name, engine in ENGINE_TABLE.items()})
"""Their display names, in the order of the page's list."""

ENGINES = tuple(NAMES)
BACKENDS = (VLLM, SGLANG, TRTLLM)
"""Engines that can run behind Dynamo."""

CAN = MappingProxyType({name: ENGINE_TABLE[name].methods for name in BACKENDS})


def drafts_by(engine: str, method: str) -> bool:
    """Return whether ``engine`` has ``method``; for Dynamo, whether any of its backends has it."""
    if engine == DYNAMO:
        return any(method in methods for methods in CAN.values())
    return method in CAN[engine]


def acceptance_of(method: Method, model_type: str) -> tuple[float, float, str]:
    """Return the acceptance at the first position, what it fades by, and the source, for a target."""
    for row in _TABLE["families"]:
        if row["method"] == method.name and model_type.startswith(row["family"]):
            return row["acceptance"], row["fades"], row["reason"]
    return method.acceptance, method.fades, method.reason
