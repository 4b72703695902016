"""The door of the engine: what pages, API, command line, race and bench use of it, and nothing deeper.

``Engine.load`` makes a ``LoadRequest`` into a ``Loaded`` with its ``Capabilities``; ``Engine.generate``
makes a ``Request`` into a ``Generation``, whose events anybody may follow. The engine of this machine is
``engine.local``'s; one that computes nothing, for tests, stands in ``tests/support/fake_engine.py``.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from engine.errors import InvalidRequest
from engine.events import Event, Failed, Finished
from engine.loading.hub import Progress
from engine.loading.request import LoadRequest
from engine.loading.watching import LoadProgress
from engine.request import (
    FIXED_DEPTH,
    AcceptanceRule,
    Control,
    OptionValue,
    Request,
    Sampling,
    Speculation,
)
from engine.tool_calls.styles import CallStyle

__all__ = [
    "NO_TEMPLATE",
    "CacheListener",
    "Candidate",
    "Capabilities",
    "Engine",
    "Generation",
    "Listener",
    "LoadRequest",
    "Loaded",
    "OptionInfo",
    "ProposerInfo",
    "Unavailable",
    "Watcher",
    "check_drafting",
    "check_offered",
    "keeps_words",
    "slug",
]

log = logging.getLogger(__name__)

NO_TEMPLATE = "This model has no chat template: it continues your text."
"""Among the notes on a base model."""

Listener = Callable[[Event], None]
"""Called with each event in order, in the engine's thread: it returns quickly, and calls neither the
engine nor the generation. One that raises there is called no more."""

CacheListener = Callable[[int, Sequence[int]], None]
"""Called with the number of a cache and the tokens, from a text's first on, that it holds for certain,
whenever that has changed; as a ``Listener`` otherwise."""


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """One of a proposer's own options. ``choices`` where there are few."""

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProposerInfo:
    """A way to draft that this pair has, and its own options.

    ``forgetful``: options with which it uses nothing of earlier replies. Whoever asks the same more than
    once, and measures, gives them, or it would be measured on its own answer. ``depth``: what suits it
    where the depth is fixed and nobody chose one. ``about``: what it drafts from, in a few words.
    """

    name: str
    options: tuple[OptionInfo, ...] = ()
    forgetful: Mapping[str, OptionValue] = field(default_factory=dict, hash=False)
    depth: int = FIXED_DEPTH
    about: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A way to draft that the engine knows and this pair lacks. ``reason`` is a sentence for people."""

    name: str
    reason: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a loaded pair can do, and what its engine can tell. What is not in here is not offered.

    ``preferred`` drafts where nobody chose. ``controllers`` may decide how far. ``sampling`` are the
    fields of ``Sampling`` that it has; ``logit_bias`` and ``alternatives``: whether it has these of
    ``Request``; ``grammars``: whether replies can be held to one; ``calls``: how they write calls of
    tools, None where they can be offered none. ``parallel``: how many requests run at once. ``rounds``:
    whether ``Emitted`` says what was drafted; ``probabilities``: whether p and q are known; ``tokens``:
    whether the ids of emitted tokens are. ``withheld``: what the pair lacks, to be shown with the reason.
    """

    proposers: tuple[ProposerInfo, ...]
    preferred: str
    rules: tuple[AcceptanceRule, ...]
    sampling: frozenset[str]
    controllers: tuple[Control, ...] = tuple(Control)
    rounds: bool = True
    probabilities: bool = True
    tokens: bool = True
    logit_bias: bool = True
    alternatives: bool = True
    grammars: bool = False
    calls: CallStyle | None = None
    parallel: int = 1
    withheld: tuple[Unavailable, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all proposers."""
        return tuple(proposer.name for proposer in self.proposers)

    def proposer(self, name: str) -> ProposerInfo | None:
        """The proposer of that name, if it is offered."""
        return next((each for each in self.proposers if each.name == name), None)


def check_offered(request: Request, capabilities: Capabilities) -> None:
    """For engines: raises InvalidRequest for a sampling field or an acceptance rule that is not offered.

    A field at its neutral default asks for nothing; nor does the rule ``auto``.
    """
    for each in fields(Sampling):
        value = getattr(request.sampling, each.name)
        if each.name not in capabilities.sampling and value != each.default:
            raise InvalidRequest(
                each.name,
                f"{each.name} is {value}, but what is loaded has no such setting. Leave it out"
                f"{'' if each.default is None else f', or at {each.default}'}.",
            )
    for name in ("logit_bias", "alternatives"):
        if getattr(request, name) and not getattr(capabilities, name):
            raise InvalidRequest(
                name,
                f"{name} cannot be had of what is loaded: it chooses tokens on its device, from logits "
                "as they are. Leave it out, or load the pair with the device 'cpu'.",
            )
    if request.grammar is not None and not capabilities.grammars:
        raise InvalidRequest(
            "grammar",
            "grammar is given, but what is loaded cannot hold its replies to one. Leave it out.",
        )
    if request.tools and capabilities.calls is None:
        raise InvalidRequest(
            "tools", "tools are given, but what is loaded can call none. Leave them out."
        )
    control = request.speculation.control
    if control is not Control.OFF and control not in capabilities.controllers:
        raise InvalidRequest(
            "controller",
            f"controller is {str(control)!r}, but what is loaded decides by itself how far it drafts. "
            "Leave controller and depth out.",
        )
    rule = request.speculation.acceptance
    rules = tuple(dict.fromkeys((AcceptanceRule.AUTO, *capabilities.rules)))
    if rule not in rules:
        raise InvalidRequest(
            "acceptance",
            f"acceptance is {str(rule)!r}, which what is loaded does not have; it must be one of "
            f"{', '.join(rules)}.",
        )


def check_drafting(speculation: Speculation, capabilities: Capabilities) -> None:
    """For engines without options of their own: raises InvalidRequest for a proposer, a controller or an
    option that is not offered."""
    name = speculation.proposer
    found = capabilities.proposer(name)
    if found is None:
        known = ", ".join(capabilities.names)
        raise InvalidRequest(
            "proposer", f"This pair has no proposer {name!r}; choose one of {known}."
        )
    kinds = {option.name: option.kind for option in found.options}
    for key, value in speculation.options.items():
        if key not in kinds:
            known = ", ".join(kinds) or "none"
            raise InvalidRequest(
                "options", f"The proposer {name!r} has no option {key!r}; it has: {known}."
            )
        if type(value) is not kinds[key]:
            raise InvalidRequest(
                "options", f"{key} is {value!r}; it must be of type {kinds[key].__name__}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What is in memory, here or on a server. ``notes`` are sentences for people about limits of this
    pair.

    ``request`` is what was asked for; ``target_id`` and ``draft_id`` name the models as pickers do: by
    their id in the catalog, or by folder. ``quantization`` and ``kv_cache_dtype`` are what they resolved
    to. ``target_name`` and ``draft_name`` are what people call the models. ``compiled``: whether the
    target's step is the one compiled for this processor. ``server``: what answers elsewhere, in a few
    words; "" on this machine. ``via``: the Foretokens that its requests go to (``engine.wire``). What a
    server does not tell is 0 or "" here.
    """

    request: LoadRequest
    name: str
    target: str
    draft: str | None
    target_id: str
    draft_id: str | None
    target_name: str
    draft_name: str | None
    heads: tuple[str, ...]
    context: int
    vocabulary: int
    parameters: int
    quantization: str
    kv_cache_dtype: str
    device: str
    capabilities: Capabilities
    notes: tuple[str, ...] = ()
    compiled: bool = False
    server: str = ""
    via: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The target's name as an id that stands unquoted in a shell, a path and JSON: what drafts for it
        changes no words, and is no part of it."""
        return slug(self.target_name)


def keeps_words(loaded: Loaded) -> bool:
    """Whether what is loaded writes a request's words again, drafts or no drafts: a server that does not
    say by which rule it judges drafts promises nothing."""
    return bool(loaded.capabilities.rules)


def one_target(one: Loaded, other: Loaded) -> bool:
    """Whether both run the same target, as far as is known: another kind of server may call it
    otherwise."""
    told = keeps_words(one) and keeps_words(other)
    return one.target_name == other.target_name or not told


def slug(name: str) -> str:
    """A name of people's as an id: see ``Loaded.id``."""
    spelt = name.lower().replace(" + ", "+").replace("'", "")
    return re.sub(r"[^a-z0-9._+]+", "-", spelt).strip("-")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that may come next. ``p``: its probability after temperature and truncation.

    ``score`` is what the choice is made by, the highest one wins: log p, and at a temperature the noise
    of the request's seed with it.
    """

    id: int
    text: str
    p: float
    score: float


class Generation:
    """One request's events, kept from the first on: for any number of readers, in any thread."""

    def __init__(self, request: Request, cancel: Callable[[Generation], None]) -> None:
        """``cancel`` is called once, for whoever cancels first."""
        self.request = request
        self._cancel = cancel
        self._cancelled = threading.Event()
        self._cancelling = threading.Lock()
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Hands ``listener`` all events: past ones in this thread, later ones in the engine's."""
        with self._lock:
            for event in self._events:
                listener(event)  # what it raises here is its caller's affair
            if not self.ended:
                self._listeners.append(listener)

    def __iter__(self) -> Iterator[Event]:
        """All events from the first on; blocks for each, and ends after Finished or Failed."""
        inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.listen(inbox.put)
        while True:
            event = inbox.get()
            yield event
            if isinstance(event, Finished | Failed):
                return

    @property
    def ended(self) -> bool:
        """Whether the last event has come."""
        return bool(self._events) and isinstance(self._events[-1], Finished | Failed)

    def cancel(self) -> None:
        """Ends the generation: at once while it waits, else before its next round.

        The stream still finishes properly. Does not wait for listeners.
        """
        with self._cancelling:
            first = not self._cancelled.is_set()
            self._cancelled.set()
        if first:
            self._cancel(self)

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def publish(self, event: Event) -> None:
        """For engines only: the next event."""
        with self._lock:
            self._events.append(event)
            for listener in tuple(self._listeners):
                try:
                    listener(event)
                except Exception:  # the engine answers others too
                    log.exception("a listener failed")
                    self._listeners.remove(listener)
            if self.ended:
                self._listeners.clear()


class Watcher(Protocol):
    """Looks on while something is loaded, and may end it."""

    @property
    def cancelled(self) -> bool: ...

    def on_progress(self, progress: Progress) -> None:
        """How far a download has come."""

    def on_loading(self, progress: LoadProgress) -> None:
        """What is done with what is on the disk, and how far it is."""


class Engine(Protocol):
    """Loads one pair at a time and answers requests in the order they come, some of them at once."""

    @property
    def loaded(self) -> Loaded | None: ...

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits, loading included."""

    def load(self, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        """Fetches what is not here and replaces what is loaded, behind the requests that wait. Blocks.

        Raises CatalogError, DownloadError, ModelError, IncompatiblePair, InvalidRequest, OutOfMemory,
        DeviceLost, and DownloadCancelled or LoadCancelled where the watcher ended it; what was loaded
        before then stays.
        """

    def unload(self) -> None:
        """Frees the models' memory, after the requests that wait."""

    def generate(self, request: Request) -> Generation:
        """Queues a request. Raises NotLoaded, InvalidRequest or ContextExceeded at once."""

    def likeliest(
        self, request: Request, reply: Sequence[int], count: int
    ) -> tuple[Candidate, ...]:
        """What the target would write behind the tokens ``reply`` of an answer, best first.

        Computed anew, without speculation, behind the requests that wait. Blocks. ``request`` has a seed
        where it has a temperature. Raises NotLoaded, InvalidRequest or ContextExceeded.
        """

    def close(self) -> None:
        """Cancels everything and frees the models' memory."""
