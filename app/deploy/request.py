"""The request for a plan, validated where it is created; the plan: all decisions, ready to be rendered;
and the fewest GPUs that reach a service's targets: times to and between tokens, and requests a second.

By Little's law (1961) a copy holds as many requests at once as it takes on and keeps: users = rate x
time in the copy. Speeds are those under load (``estimate.speed``), for the mean; a percentile is higher.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from app.deploy import methods
from app.deploy.estimate.memory import Memory
from app.deploy.estimate.network import Layout
from app.deploy.estimate.speed import Estimate, Load, Outcome, Setup, outcome
from app.deploy.gpus import AUTO, FORMATS, KV_WIDTHS, Gpus
from app.deploy.methods import DYNAMO, METHODS, NONE, TRTLLM, VLLM, Method, Needs
from app.deploy.model import ModelFacts
from app.deploy.tables import refusal
from engine.values import LEAST_CONTEXT
from engine.values.memory import largest

MOST_AT_ONCE = 4096
"""Requests of one copy at once, at most."""


@dataclass(frozen=True, slots=True)
class Targets:
    """What a service has to reach: ``ttft`` and ``itl``, milliseconds to the first token and between
    tokens (means); ``rps``: requests a second; ``isl`` and ``osl``: tokens of a prompt and of a
    reply."""

    isl: int
    osl: int
    rps: float | None = None
    ttft: float | None = None
    itl: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """What is to be reached, by name."""
        given = {"rps": self.rps, "ttft": self.ttft, "itl": self.itl}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Service:
    """What ``layout`` is expected to reach with ``users`` of all copies at once; ``ttft`` and ``itl`` in
    milliseconds, ``rps`` requests a second."""

    layout: Layout
    users: int
    ttft: float
    itl: float
    rps: float

    def misses(self, targets: Targets) -> list[str]:
        """Return the targets that are missed, with what is reached."""
        told = []
        if targets.rps is not None and self.rps < targets.rps:
            told.append(f"{self.rps:,.2f} of {targets.rps:g} requests/s")
        if targets.ttft is not None and self.ttft > targets.ttft:
            told.append(f"{self.ttft:,.0f} instead of {targets.ttft:g} ms to the first token")
        if targets.itl is not None and self.itl > targets.itl:
            told.append(f"{self.itl:,.1f} instead of {targets.itl:g} ms between tokens")
        return told


def service(
    setup: Setup, layout: Layout, targets: Targets, slots: int, users: int | None
) -> Service:
    """Return what ``layout`` reaches, with room for ``slots`` requests in each copy: with the fewest
    copies that reach a rate, else with all copies and ``users`` at once."""

    def reached(copies: int) -> Service:
        return _service(setup, replace(layout, replicas=copies), targets, slots, users)

    most = layout.replicas
    if users is not None:
        return reached(most)
    return reached(1 + largest(most - 1, lambda copies: bool(reached(copies).misses(targets))))


def _service(
    setup: Setup, layout: Layout, targets: Targets, slots: int, users: int | None
) -> Service:
    copies = layout.replicas
    if users is not None:
        here = layout.users(users)
    else:
        here = _at_once(setup, targets, (targets.rps or 0) / copies, min(slots, MOST_AT_ONCE))
    found = _outcome(setup, targets, here, slots)
    everyone = users or here * copies
    rate = found.total / here * everyone / targets.osl
    return Service(layout, everyone, found.wait * 1000, 1000 / found.user, rate)


def _at_once(setup: Setup, targets: Targets, rate: float, most: int) -> int:
    """Return the fewest requests at once that one copy answers ``rate`` a second with; ``most`` if none
    do."""

    def too_slow(users: int) -> bool:
        return _outcome(setup, targets, users, most).total / targets.osl < rate

    return 1 + largest(max(1, most) - 1, too_slow)


def with_bursts(mean: int) -> int:
    """Return how many requests to admit at once where ``mean`` are there on average: of those that come
    at random their number is Poisson's, and it is seldom three standard deviations above."""
    return math.ceil(mean + 3 * math.sqrt(mean))


def _outcome(setup: Setup, targets: Targets, users: int, slots: int) -> Outcome:
    return outcome(setup, Load(users, targets.isl, targets.osl), slots, setup.depth)


DEEPEST = 32
"""Tokens drafted in a round, at most."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """``users`` are answered at once, each with ``context`` tokens of prompt and reply.

    ``draft``: what the engine loads as the drafter; None: the one in the table of published models.
    ``draft_model``: its facts, if it is a draft model. ``depth``, ``acceptance`` None: the method's.
    ``task``: what the replies are, which a default depth follows. ``price``: of a GPU for an hour.
    ``measured``: how many times as long as estimated a running server's step took, None if unknown;
    ``told``: what there is to say of that server. ``acceptance_from``: where ``acceptance`` is from.
    """

    engine: str
    target: ModelFacts
    gpus: Gpus
    method: str = "none"
    draft: str | None = None
    draft_model: ModelFacts | None = None
    depth: int | None = None
    users: int = 8
    context: int = 8192
    quantization: str = AUTO
    kv_cache_dtype: str = AUTO
    acceptance: float | None = None
    backend: str = VLLM
    task: str | None = None
    targets: Targets | None = None
    price: float | None = None
    measured: float | None = None
    told: tuple[str, ...] = ()
    acceptance_from: str = "given"

    def __post_init__(self) -> None:
        _one_of("engine", self.engine, methods.ENGINES)
        _one_of("backend", self.backend, methods.BACKENDS)
        methods.method_named(self.method)
        _one_of("quantization", self.quantization, (AUTO, *FORMATS))
        _one_of("kv_cache_dtype", self.kv_cache_dtype, tuple(KV_WIDTHS))
        if self.task is not None:
            _one_of("task", self.task, tuple(methods.DEPTHS))
        _between("users", self.users, 1, 1_000_000)
        _between("context", self.context, LEAST_CONTEXT, self.target.context)
        if self.depth is not None:
            _between("depth", self.depth, 1, DEEPEST)
        if self.acceptance is not None and not 0 <= self.acceptance <= 1:
            raise refusal("acceptance", "acceptance", value=self.acceptance)
        targets, needs = self.targets, self.of_method.needs
        limits = targets.limits if targets else {}
        for field, value in (("price", self.price), *limits.items()):
            if value is not None and not 0 < value < 1e9:
                raise refusal(field, "above-0", value=value)
        if targets is not None and self.context < targets.isl + targets.osl:
            raise refusal(
                "context",
                "short-context",
                targets=targets,
                context=self.context,
                target=self.target,
            )
        for field in ("depth", "acceptance", "task") if self.method == NONE else ():
            if getattr(self, field) is not None:
                raise refusal(field, "without-method")
        if self.task is not None and not self.one_by_one:
            raise refusal("task", "task", method=self.of_method)
        if self.draft and needs not in (Needs.MODEL, Needs.HEAD) and self.method != "mtp":
            raise refusal("draft", "no-draft-needed", method=self.of_method)
        model = self.draft_model if needs is Needs.MODEL else None
        if model is not None and model.vocabulary != self.target.vocabulary:
            raise refusal("draft", "vocabulary", model=model, target=self.target)

    @property
    def by_rate(self) -> bool:
        """Whether a rate says how many users there are at once."""
        return self.targets is not None and self.targets.rps is not None

    @property
    def of_method(self) -> Method:
        return METHODS[self.method]

    @property
    def computes(self) -> str:
        """The engine that computes: for Dynamo, its backend."""
        return self.backend if self.engine == DYNAMO else self.engine

    @property
    def default_depth(self) -> int:
        """The depth by task, else the method's."""
        return methods.DEPTHS[self.task] if self.task else self.of_method.depth

    @property
    def one_by_one(self) -> bool:
        """Whether a drafter makes one token after the other, so that the best depth follows the task."""
        return self.of_method.needs in (Needs.MODEL, Needs.HEAD) and self.method not in BLOCKS


BLOCKS = ("medusa", "dflash", "dspark")
"""Methods that draft all tokens of a round together."""


def _one_of(field: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise refusal(field, "one-of", value=value, known=", ".join(known))


def _between(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise refusal(field, "between", value=value, least=least, most=most)


SCHEDULED = ("eagle", "eagle3", "dflash")
"""Methods that vLLM's dynamic speculative decoding was tested with."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``target``: the checkpoint to load, in its format; ``quantised_online``: the engine converts it to
    that format while loading. ``draft``: the name of the drafter, None where the method needs none.

    ``schedule``: ranges of users of one copy (first, last, depth), each with its fastest depth.
    ``service``: what is reached of the targets, if there are any.
    """

    request: PlanRequest
    target: ModelFacts
    quantised_online: bool
    draft: str | None
    draft_model: ModelFacts | None
    layout: Layout
    memory: Memory
    setup: Setup
    estimate: Estimate
    schedule: tuple[tuple[int, int, int], ...]
    service: Service | None = None

    @property
    def method(self) -> Method:
        return self.request.of_method

    @property
    def drafts(self) -> bool:
        return self.request.method != NONE

    @property
    def depth(self) -> int:
        return self.setup.depth

    @property
    def sequences(self) -> int:
        """Users of one copy, at most; of a rate, those of a burst."""
        if self.request.by_rate:
            return self.memory.users * self.memory.groups
        return self.layout.users(self.request.users)

    @property
    def nodes(self) -> int:
        """Nodes of one copy."""
        return self.layout.nodes(self.request.gpus.kind.node)

    @property
    def idle(self) -> int:
        """GPUs that are not used."""
        return self.request.gpus.count - self.layout.gpus

    @property
    def copies_per_start(self) -> int:
        """Copies that one run of the script starts."""
        if self.nodes > 1:
            return 1
        on_a_node = max(1, self.request.gpus.kind.node // self.layout.copy)
        return min(self.layout.replicas, on_a_node)

    @property
    def starts(self) -> int:
        """How many times the script is run, on other nodes each time."""
        return -(-self.layout.replicas // self.copies_per_start)

    @property
    def started_by_rank(self) -> bool:
        """True if one copy runs on several nodes and is started on each; MPI starts all at once."""
        return self.nodes > 1 and self.request.computes != TRTLLM

    @property
    def scheduled(self) -> bool:
        """True if the best depth depends on the load, and vLLM can follow it with this method."""
        return self.request.method in SCHEDULED and len(self.schedule) > 1 and self.has_ground

    @property
    def data_parallel(self) -> int:
        """Copies that one server has; each of Dynamo's workers is one."""
        return self.copies_per_start if self.request.engine == VLLM else 1

    @property
    def has_ground(self) -> bool:
        """Whether speeds were held to published runs on such GPUs, or to this server itself."""
        return self.request.gpus.kind.runs or self.request.measured is not None

    @property
    def adapts(self) -> bool:
        """Whether vLLM is told to follow the load with the depth, which it cannot for several copies."""
        return self.request.computes == VLLM and self.scheduled and self.data_parallel == 1

    @property
    def drafts_up_to(self) -> int | None:
        """Users of one copy up to which drafting is faster; None if always, or not known."""
        stops = self.estimate.stops_at if self.has_ground else None
        return stops - 1 if self.drafts and stops is not None else None
