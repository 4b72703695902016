"""The engine's interface, the only part that pages, API, command line, race and bench use.

``Engine.load`` makes a ``LoadRequest`` into a ``Loaded`` with its ``Capabilities``; ``Engine.generate``
makes a ``Request`` into a ``Generation``, whose events any thread may follow. The engine of this machine
is in ``engine.local``; one that computes nothing, for tests, is in ``tests/support/fake_engine.py``.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar

from engine.errors import InvalidRequest, NotLoaded
from engine.events import Event, Failed, Finished
from engine.kernels.formats import AS_STORED, AUTO, FP8, QUANTIZATIONS
from engine.loading.progress import DownloadProgress, LoadProgress, Stage
from engine.loading.request import SEPARATOR, LoadRequest
from engine.request import FIXED_DEPTH, Control, OptionValue, Request, Speculation
from engine.tool_calls.styles import CallStyle
from engine.values import noun, require, shown
from engine.values.sampling import AcceptanceRule, Sampling

__all__ = [
    "AS_STORED", "AUTO", "FP8", "NO_TEMPLATE", "QUANTIZATIONS", "SEPARATOR", "CacheListener",
    "Capabilities", "DownloadProgress", "Engine", "Generation", "Listener", "LoadProgress",
    "LoadRequest", "Loaded", "OptionInfo", "ProposerInfo", "Stage", "Tokenizer", "TopToken",
    "Unavailable", "Watcher",
    "check_drafting", "check_supported", "has", "having", "keeps_words", "slug",
]  # fmt: skip

log = logging.getLogger(__name__)

NO_TEMPLATE = "Base model: it continues text rather than answering."
"""Among the notes on a base model."""

NO_IMAGES = "The loaded model does not support images."
"""Why, if an engine does not say more."""

Listener = Callable[[Event], None]
"""Called with each event in order, in the engine's thread. It must return quickly, and must call neither
the engine nor the generation. If it raises, it is not called again."""

CacheListener = Callable[[int, Sequence[int]], None]
"""Called with a slot's number and the content keys of the tokens that it holds (ids, see ``Prompt``),
whenever these have changed. The rules of a ``Listener`` apply."""


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
    """A proposer that this pair has, with its options.

    ``isolated_options``: options with which it uses nothing of earlier replies. Measurements that repeat
    a request set them, or it would draft from its own answer. ``depth``: the default fixed depth.
    ``about``: what it drafts from, in a few words.
    """

    name: str
    options: tuple[OptionInfo, ...] = ()
    isolated_options: Mapping[str, OptionValue] = field(default_factory=dict, hash=False)
    depth: int = FIXED_DEPTH
    about: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A proposer that the engine knows and this pair lacks. ``reason`` is a sentence for people."""

    name: str
    reason: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The features of a loaded pair, and the data its engine reports. Pages and API offer nothing else.

    ``preferred``: the default proposer. ``sampling``: the supported fields of ``Sampling``.
    ``logit_bias``, ``top_logprobs``, ``grammars``: whether these fields of ``Request`` are supported.
    ``calls``: the style of tool calls; None: tools are not supported. ``template_tools``: whether the
    chat template has tools; without, models are told of them in words. ``thinking``: the choices of how
    much to think; ``thinking_budget``: whether a thought can be limited. ``parallel``: how many requests
    run at once. ``rounds``: whether ``Emitted`` has them; ``probabilities``: whether p and q are known;
    ``tokens``: whether ids of emitted tokens are. ``unavailable``: proposers that the pair lacks.
    ``images``: whether messages may have them; ``why_no_images``: a sentence if not.
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
    top_logprobs: bool = True
    grammars: bool = False
    calls: CallStyle | None = None
    template_tools: bool = True
    thinking: tuple[str, ...] = ()
    thinking_budget: bool = False
    parallel: int = 1
    unavailable: tuple[Unavailable, ...] = ()
    images: bool = False
    why_no_images: str = NO_IMAGES

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all proposers."""
        return tuple(proposer.name for proposer in self.proposers)

    def proposer(self, name: str) -> ProposerInfo | None:
        """Return the proposer of that name, if it is offered."""
        return next((each for each in self.proposers if each.name == name), None)


def check_supported(request: Request, capabilities: Capabilities) -> None:
    """Raise InvalidRequest for a sampling field or an acceptance rule that the engine does not support.

    A field at its neutral default asks for nothing; nor does the rule ``auto``.
    """
    for each in fields(Sampling):
        value = getattr(request.sampling, each.name)
        require(
            each.name in capabilities.sampling or value == each.default,
            each.name,
            f"is {value}, but the loaded model does not support it. Leave it "
            f"out{'' if each.default is None else f', or send {each.default}'}.",
        )
    supported = {
        **{name: getattr(capabilities, name) for name in ("logit_bias", "top_logprobs")},
        **{"grammar": capabilities.grammars, "tools": capabilities.calls is not None},
    }
    for name, is_supported in supported.items():
        require(
            bool(is_supported) or not getattr(request, name),
            name,
            "cannot be used: the loaded model runs on a server that does not take it. Leave it out, or "
            "load a model on this machine.",
        )
    if any(message.images for message in request.messages) and not capabilities.images:
        raise InvalidRequest("messages", f"An image was sent. {capabilities.why_no_images}")
    control = request.speculation.control
    require(
        control is Control.OFF or control in capabilities.controllers,
        "controller",
        f"is {str(control)!r}, but the loaded model's server decides how far it drafts. Leave "
        "controller and depth out.",
    )
    rule = request.speculation.acceptance
    rules = tuple(dict.fromkeys((AcceptanceRule.AUTO, *capabilities.rules)))
    require(
        rule in rules,
        "acceptance",
        f"is {str(rule)!r}, which the loaded model does not support; it must be one of "
        f"{', '.join(rules)}.",
    )


def check_drafting(speculation: Speculation, capabilities: Capabilities) -> None:
    """Raise InvalidRequest for a proposer, a controller or an option that an engine without
    options of its own does not support."""
    name = speculation.proposer
    found = capabilities.proposer(name)
    if found is None:
        known = ", ".join(capabilities.names)
        raise InvalidRequest(
            "proposer", f"The loaded model has no proposer {name!r}; choose one of {known}."
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
                "options", f"{key} is {shown(value)}; it must be {noun(kinds[key])}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The models in memory, here or on a server. ``notes``: sentences for people on limits of this pair.

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
        """Return the target's name as an id that needs no quotes in a shell, a path or JSON.
        The draft is left out because it changes no words."""
        return slug(self.target_name)


def keeps_words(loaded: Loaded) -> bool:
    """Return whether a request gives the same words again, with and without drafts. A server that does
    not tell its acceptance rule promises nothing."""
    return bool(loaded.capabilities.rules)


def one_target(one: Loaded, other: Loaded) -> bool:
    """Return whether both run the same target, as far as their names tell."""
    lossless = keeps_words(one) and keeps_words(other)
    return one.target_name == other.target_name or not lossless


def has(engine: Engine, pair: Loaded) -> bool:
    """Return whether ``pair`` is the loaded one, which may have been loaded again, compiled."""
    loaded = engine.loaded
    return loaded is not None and loaded.request == pair.request


EngineT = TypeVar("EngineT", bound="Engine")


def having(engine: EngineT, pair: Loaded) -> EngineT:
    """Return ``engine`` if it ``has`` the pair. Raises NotLoaded."""
    if not has(engine, pair):
        raise NotLoaded(f"{pair.name} is no longer loaded. Send the request again.")
    return engine


def slug(name: str) -> str:
    """Return a name as an id: see ``Loaded.id``."""
    spelt = name.lower().replace(" + ", "+").replace("'", "")
    return re.sub(r"[^a-z0-9._+]+", "-", spelt).strip("-")


@dataclass(frozen=True, slots=True)
class TopToken:
    """A token that may come next. ``p``: its probability after temperature and truncation.

    ``score`` is what the choice is made by, the highest one wins: log p, and at a temperature the noise
    of the request's seed with it.
    """

    id: int
    text: str
    p: float
    score: float


class Generation:
    """The events of one request, from the first on, for any number of readers in any thread."""

    def __init__(self, request: Request, cancel: Callable[[Generation], None]) -> None:
        """``cancel`` is called once, at the first ``cancel()``."""
        self.request = request
        self._cancel = cancel
        self._cancelled = threading.Event()
        self._cancelling = threading.Lock()
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with all events: past ones in this thread, later ones in the engine's."""
        with self._lock:
            for event in self._events:
                listener(event)  # an error goes to the caller
            if not self.ended:
                self._listeners.append(listener)

    def __iter__(self) -> Iterator[Event]:
        """Yield all events from the first on. Blocks for each; ends after Finished or Failed."""
        inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.listen(inbox.put)
        while True:
            event = inbox.get()
            yield event
            if isinstance(event, Finished | Failed):
                return

    @property
    def ended(self) -> bool:
        """True if the last event was published."""
        return bool(self._events) and isinstance(self._events[-1], Finished | Failed)

    def cancel(self) -> None:
        """Cancel the request: at once while it waits, else before its next round.

        The stream still ends with Finished. Does not wait for listeners.
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
        """Publish the next event. For engines only."""
        with self._lock:
            self._events.append(event)
            for listener in tuple(self._listeners):
                try:
                    listener(event)
                except Exception:  # other requests must go on
                    log.exception("a listener failed")
                    self._listeners.remove(listener)
            if self.ended:
                self._listeners.clear()


class Watcher(Protocol):
    """Follows a load, and may cancel it."""

    @property
    def cancelled(self) -> bool: ...

    def on_progress(self, progress: DownloadProgress) -> None:
        """Called with the progress of a download."""

    def on_loading(self, progress: LoadProgress) -> None:
        """Called with the stage and progress of reading and packing weights."""


class Tokenizer(Protocol):
    """The tokenizer and chat template of the loaded model. Any thread may use it."""

    def encode(self, text: str, *, special: bool = False, control: bool = True) -> tuple[int, ...]:
        """Return the tokens of ``text``. Raises InvalidRequest and ContextExceeded.

        ``special``: with those that the tokenizer puts around a text. ``control``: names of control
        tokens are those tokens; otherwise they are text, as in a message.
        """

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of ``tokens``, names of control tokens included. Raises InvalidRequest."""

    def piece(self, token: int) -> str:
        """Return the text of one token, with its leading space. Raises InvalidRequest."""

    def named(self, name: str) -> int | None:
        """Return the token of that name, if there is one."""

    def prompt(self, request: Request) -> tuple[int, ...]:
        """Return the prompt's tokens, also if they do not fit the context. Raises InvalidRequest, and
        ContextExceeded for a text many times too long."""

    def render(self, request: Request) -> str:
        """Return the text of a chat up to the assistant's reply. Raises InvalidRequest."""


class Engine(Protocol):
    """Loads one pair at a time, and runs requests in the order they come, some at once. They go to the
    pair that was loaded last; others may stay in memory."""

    @property
    def loaded(self) -> Loaded | None: ...

    @property
    def resident(self) -> Sequence[Loaded]:
        """Every pair in memory, the one of ``loaded`` first."""

    @property
    def busy(self) -> bool:
        """True while a request or a load runs or waits."""

    def load(self, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        """Download what is missing and replace what is loaded, after the requests that wait. Blocks.

        Raises CatalogError, DownloadError, ModelError, IncompatiblePair, InvalidRequest, OutOfMemory and
        DeviceLost, and DownloadCancelled or LoadCancelled if the watcher cancels. The pair that was
        loaded before stays then.
        """

    def unload(self, pair: Loaded | None = None) -> None:
        """Free the memory of ``pair``, by default of ``loaded``, once its queued requests have ended.
        Blocks."""

    def generate(self, request: Request) -> Generation:
        """Queue a request. Raises NotLoaded, InvalidRequest or ContextExceeded at once."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The loaded model's; None if it cannot be known, as on a server, or if nothing is loaded."""

    def tokenize(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        """Return the tokens of each text within a message; None if they cannot be known, as on a server.
        Raises NotLoaded."""

    def top_tokens(
        self, request: Request, reply: Sequence[int], count: int
    ) -> tuple[TopToken, ...]:
        """Return the target's top tokens after the tokens ``reply`` of an answer, best first.

        They are computed without speculation or reuse, after the requests that wait. Blocks. ``request``
        has a seed if it has a temperature. Raises NotLoaded, InvalidRequest or ContextExceeded.
        """

    def of(self, pair: Loaded) -> Engine:
        """Return the engine of a pair in memory, where ``pair`` is ``loaded``. Raises NotLoaded."""

    def pin(self, pair: Loaded) -> AbstractContextManager[None]:
        """Keep a pair in memory until the end, for requests that are being prepared: a load or
        ``unload`` in its place waits. Raises NotLoaded if it is not there, or if one waits already."""

    @property
    def idle_s(self) -> float:
        """Seconds since ``loaded`` was last used; 0 while it is, and on a server."""

    def embed(self, tokens: Sequence[int]) -> tuple[float, ...]:
        """Return the embedding of a text, a vector of length 1, after the requests that wait. Blocks.

        Raises NotLoaded, ContextExceeded, and InvalidRequest for a model that is not made for it.
        """

    def next_logits(self, tokens: Sequence[int], choices: Sequence[int]) -> tuple[float, ...]:
        """Return the target's logits of ``choices`` behind ``tokens``, after the requests that wait.
        Blocks. Raises NotLoaded, InvalidRequest or ContextExceeded."""

    def close(self) -> None:
        """Cancel all requests and free the models' memory."""
