"""The request for a plan, validated where it is created."""

from __future__ import annotations

from dataclasses import dataclass

from app.deploy.formats import AUTO, FORMATS, KV_WIDTHS
from app.deploy.gpus import Gpus
from app.deploy.methods import BACKENDS, DYNAMO, ENGINES, METHODS, VLLM, Method, Needs
from app.deploy.model import ModelFacts
from engine.errors import InvalidRequest

DEEPEST = 32
"""Tokens drafted in a round, at most."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """``users`` are answered at once, each with ``context`` tokens of prompt and reply.

    ``draft``: what the engine loads as the drafter; None: the one in the table of published models.
    ``draft_model``: its facts, if it is a draft model. ``depth``, ``acceptance`` None: the method's.
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

    def __post_init__(self) -> None:
        _one_of("engine", self.engine, ENGINES)
        _one_of("backend", self.backend, BACKENDS)
        _one_of("method", self.method, tuple(METHODS))
        _one_of("quantization", self.quantization, (AUTO, *FORMATS))
        _one_of("kv_cache_dtype", self.kv_cache_dtype, tuple(KV_WIDTHS))
        _between("users", self.users, 1, 1_000_000)
        _between("context", self.context, 16, self.target.context)
        if self.depth is not None:
            _between("depth", self.depth, 1, DEEPEST)
        if self.acceptance is not None and not 0 <= self.acceptance <= 1:
            raise InvalidRequest(
                "acceptance", f"The acceptance is {self.acceptance}; it is a share from 0 to 1."
            )
        self._check_draft()

    def _check_draft(self) -> None:
        needs = self.of_method.needs
        if self.draft and needs not in (Needs.MODEL, Needs.HEAD):
            raise InvalidRequest(
                "draft", f"{self.of_method.title} needs no draft. Leave --draft out."
            )
        model = self.draft_model
        if model is not None and needs is Needs.MODEL:
            ours, theirs = self.target.vocabulary, model.vocabulary
            if ours != theirs:
                raise InvalidRequest(
                    "draft",
                    f"{model.id} has {theirs:,} tokens and {self.target.id} {ours:,}: a draft model "
                    "needs the target's vocabulary. Choose one of its family.",
                )

    @property
    def of_method(self) -> Method:
        return METHODS[self.method]

    @property
    def computes(self) -> str:
        """The engine that computes: for Dynamo, its backend."""
        return self.backend if self.engine == DYNAMO else self.engine


def _one_of(field: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidRequest(field, f"{field} is '{value}'; it must be one of {', '.join(known)}.")


def _between(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidRequest(
            field, f"{field} is {value:,}; for this model it must be {least:,} to {most:,}."
        )
