"""A load plan to a pair in memory. Runs on the engine's thread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from engine.api import Loaded, LoadRequest
from engine.decoding.text import TextCodec
from engine.drafting import heads as head_kinds
from engine.drafting.resources import Resources
from engine.kernels.native import library as native
from engine.loading.choices import Backend
from engine.loading.loader import load_planned
from engine.loading.plan import LoadPlan
from engine.local.capabilities import capabilities
from engine.local.session import Session
from engine.machine import threads
from engine.models.base import CompiledModel, Model
from engine.models.checkpoints.checkpoint import fingerprint


@dataclass(frozen=True, slots=True, eq=False)
class LoadedPair:
    """What is in memory: how it was planned, what runs requests on it, and how it is described."""

    plan: LoadPlan
    session: Session
    loaded: Loaded

    @property
    def waits_for_native(self) -> bool:
        """Whether the target was planned before the compiled step was built, and might run in it."""
        plan = self.plan
        allowed = plan.place.native and plan.place.device.type == "cpu"
        might = plan.target.backend is Backend.TORCH and plan.target.quantization in native.KINDS
        return allowed and might and plan.products.library is None


def load_pair(plan: LoadPlan, request: LoadRequest, remembered: Path | None) -> LoadedPair:
    """Loads what is planned. ``request`` is what was asked for, and is shown.

    ``remembered``: a folder for what proposers learn, where a request asks them to. Raises ModelError,
    DeviceLost, and what ``ran_out`` knows where memory runs out.
    """
    threads.use(plan.threads)  # each thread has its own setting, so it is made in this one
    codec = TextCodec(plan.files.target)
    model = load_planned(plan.target)
    draft = None if plan.draft is None else load_planned(plan.draft)
    resources = Resources(
        draft=draft,
        vocabularies=plan.vocabularies,
        remembered=remembered and remembered / fingerprint(plan.files.target),
        heads={head.kind: head_kinds.load(head, plan.products) for head in plan.heads},
    )
    session = Session(model, codec, resources, plan.place)
    compiled = isinstance(model, CompiledModel)
    if compiled and (draft is None or isinstance(draft, CompiledModel)):
        # Its threads are its own; torch's would spin beside them after every small operation.
        torch.set_num_threads(1)
    notes = plan.notes
    if not codec.has_template:
        notes = (*notes, "This model has no chat template: it continues your text.")
    return LoadedPair(plan, session, _describe(plan, request, model, resources, compiled, notes))


def _describe(
    plan: LoadPlan,
    request: LoadRequest,
    model: Model,
    resources: Resources,
    compiled: bool,
    notes: tuple[str, ...],
) -> Loaded:
    pairing, info, draft = plan.files.pairing, model.info, resources.draft
    return Loaded(
        request=request,
        name=pairing.name,
        target=info.name,
        draft=None if draft is None else draft.info.name,
        target_id=pairing.target.id,
        draft_id=None if pairing.draft is None else pairing.draft.id,
        heads=tuple(head.name for head in plan.heads),
        context=info.context,
        vocabulary=info.vocabulary,
        parameters=info.parameters,
        quantization=info.quantization,
        kv_cache_dtype=plan.target.cached,
        device=info.device,
        capabilities=capabilities(resources),
        notes=notes,
        compiled=compiled,
    )
