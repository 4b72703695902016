"""Carry out a load plan. Runs on the engine's thread."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from engine.api import NO_TEMPLATE, Loaded, LoadRequest
from engine.backends.gpu_trial import try_on_gpu
from engine.backends.native import build
from engine.decoding.text.codec import TextCodec
from engine.drafting import heads as head_kinds
from engine.drafting import vocabulary_trimmer
from engine.drafting.controllers.stored_times import StoredTimes
from engine.drafting.heads.base import Head, HeadPlan
from engine.drafting.learned import LearnedHead
from engine.drafting.resources import Resources
from engine.errors import ModelError
from engine.kernels.formats import AS_STORED
from engine.loading.loader import load_planned
from engine.loading.planning.model_plan import ModelPlan
from engine.loading.planning.plan import LoadPlan
from engine.loading.pooling import pooling_of
from engine.loading.progress import LoadWatch, Stage
from engine.local.capabilities import capabilities
from engine.local.host_rules import Rules
from engine.local.session import Session
from engine.local.thinking import may_limit
from engine.machine import memory, threads
from engine.machine.devices import device_errors
from engine.models.architecture import Attention
from engine.models.base import Model
from engine.models.checkpoints.checkpoint import fingerprint
from engine.models.checkpoints.gguf.header import forget_strings
from engine.models.families import described
from engine.values.method_titles import method_title
from engine.vision.encoder import ImageEncoder
from engine.vision.plan import PLACEHOLDER

log = logging.getLogger(__name__)

_FEW_BYTES = 200_000_000
"""Bytes of a model up to which one of torch's threads rounds weights as quickly as several."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedPair:
    """A pair in memory: its plan, its session, and its description."""

    plan: LoadPlan
    session: Session
    loaded: Loaded


@threads.restored_on_error()  # the pair that was loaded before stays
def load_pair(
    plan: LoadPlan,
    request: LoadRequest,
    watch: LoadWatch,
    *,
    remembered: Path | None,
    measured: Path | None,
    learned: Path | None = None,
) -> LoadedPair:
    """Load the planned models; describe them with ``request``.

    ``remembered``: a folder for past replies, if a request wants them stored; ``measured``: one for times
    of verification; ``learned``: one for what heads learned.

    Raises ModelError, DeviceLost, KernelsFailed, LoadCancelled, and torch's errors for full memory.
    """
    models = [each for each in (plan.target, plan.draft) if each is not None]
    threads.use(_loading_threads(models))  # a setting of this thread
    watch.expect(*(each.checkpoint for each in models))
    with ThreadPoolExecutor(1, "tokenizer") as beside:
        building = beside.submit(TextCodec, plan.files.target)
        watch.begin(Stage.TARGET)
        attentions = [each for head in plan.heads for each in head.attentions]
        model, draft = _load(plan.target, watch, Rules(), attentions), None
        watch.begin(Stage.TOKENIZER)
        codec = building.result()
    if plan.draft is not None:
        watch.begin(Stage.DRAFT)
        draft = _load(plan.draft, watch)
    watch.begin(Stage.FINISHING)
    name = fingerprint(plan.files.target)
    resources = Resources(
        draft=draft,
        vocabularies=plan.vocabularies,
        remembered=remembered and remembered / name,
        heads={head.kind: _head(head, plan, learned) for head in plan.heads},
    )
    times = None
    if measured is not None:
        times = StoredTimes(measured / f"{name}.json", _setup(plan, model))
    images = _images(plan, codec)
    encoder = images if isinstance(images, ImageEncoder) else None
    pooling = pooling_of(plan.files.target)
    # Rows that drafts would change are changed by other requests' rows too.
    parallel = 1 if model.info.undraftable else plan.parallel
    session = Session(model, codec, resources, plan.device, parallel, times, encoder, pooling)
    if session.target.runs_rounds:
        watch.begin(Stage.CAPTURING)
        session.prepare_rounds()
    on_cpu = [one.info for one in (model, draft) if one is not None and one.info.device == "cpu"]
    if plan.target.host is not None or (on_cpu and all(info.compiled for info in on_cpu)):
        # The step has its own threads; torch's would spin beside them after every small operation.
        torch.set_num_threads(1)
    forget_strings()
    memory.trim()  # what read the tokenizer has freed tens of MB
    blind = images if isinstance(images, str) else ""
    return LoadedPair(plan, session, _describe(plan, request, codec, session, resources, blind))


def _load(
    plan: ModelPlan,
    watch: LoadWatch,
    rules: Rules | None = None,
    heads: Sequence[Attention] = (),
) -> Model:
    """Load a model, and try it if it is on a GPU: a target also by the host's ``rules``, and with the
    attention of its ``heads``."""
    model, device = load_planned(plan, watch), plan.device.torch_device
    with device_errors(device):
        architecture, blocks = described(plan.checkpoint), plan.checkpoint.block_formats
        begin = partial(watch.begin, Stage.TRYING)
        try_on_gpu(model, architecture, plan.cached, rules, begin, watch.done, blocks, heads)
    return model


def _head(head: HeadPlan, plan: LoadPlan, learned: Path | None) -> Head:
    """Load the version that the head has learned here, if one is in use, or the published one."""
    place = learned and LearnedHead.of(learned, plan.files.target, head)
    if place and place.state().used:
        try:
            return head_kinds.load(
                place.plan(plan.target.checkpoint, head), plan.sizes.linear_factory
            )
        except ModelError as error:
            log.warning("The published head drafts, because what it learned is unusable: %s", error)
    return head_kinds.load(head, plan.sizes.linear_factory)


def _images(plan: LoadPlan, codec: TextCodec) -> ImageEncoder | str:
    """Return what sees images for the target, or why nothing does. Its tower is loaded with the first."""
    if isinstance(plan.vision, str):
        return plan.vision
    token = codec.token_named(PLACEHOLDER)
    if token is None or not codec.has_template:
        lacking = "chat template" if token is not None else f"token {PLACEHOLDER}"
        name = plan.files.pairing.target.name
        return f"{name} cannot see images: its files have no {lacking}."
    return ImageEncoder(plan.vision, token, plan.device.torch_device, plan.device.threads)


def _loading_threads(models: Sequence[ModelPlan]) -> int | None:
    """Return torch's threads for loading: one if the compiled step takes stored weights, or few are
    rounded. More would spin after every small operation, for longer than it takes."""
    quick = all(
        each.library is not None
        and (each.quantization == AS_STORED or each.checkpoint.bytes < _FEW_BYTES)
        for each in models
    )
    return 1 if quick else models[0].device.threads


def _setup(plan: LoadPlan, model: Model) -> str:
    """Name all that the time of a step of ``model`` depends on here."""
    info = model.info
    count = plan.device.threads or threads.default()
    step = build.built() if info.compiled or plan.target.host is not None else None
    by = f"torch {torch.__version__}" if step is None else step.name
    left = plan.target.host_layers
    where = f"{info.device} without {left} layers" if left else info.device
    return f"{info.quantization}, {plan.target.cached} KV cache, {where}, {count} threads, {by}"


def _notes(
    plan: LoadPlan, codec: TextCodec, session: Session, draft: Model | None
) -> Iterator[str]:
    yield from plan.notes
    if session.uncaptured:
        yield (
            "Not all rounds could be captured as CUDA graphs, so tokens take longer: "
            f"{session.uncaptured.rstrip('.')}. If the GPU's memory is full, load the model with a "
            "shorter context; the log has more."
        )
    for kind in session.heads_on_host:
        yield (
            f"The {method_title(kind)} head drafts from the host, which is slower: the GPU's kernels "
            "do not compute its layers."
        )
    if draft is not None and plan.vocabularies is None:
        note = vocabulary_trimmer.note_on(draft)
        if note is not None:
            yield note
    if not codec.has_template:
        yield NO_TEMPLATE


def _describe(
    plan: LoadPlan,
    request: LoadRequest,
    codec: TextCodec,
    session: Session,
    resources: Resources,
    blind: str,
) -> Loaded:
    """Return what is loaded. ``blind``: why the target sees no images, "" if it does."""
    pairing, info, draft = plan.files.pairing, session.target.model.info, resources.draft
    named = None if draft is None else pairing.draft
    return Loaded(
        request=request,
        name=pairing.name,
        target=info.name,
        draft=None if draft is None else draft.info.name,
        target_id=pairing.target.id,
        draft_id=None if named is None else named.id,
        target_name=pairing.target.called,
        draft_name=None if named is None else named.called,
        heads=tuple(head.name for head in plan.heads),
        context=info.context,
        vocabulary=info.vocabulary,
        parameters=info.parameters,
        quantization=info.quantization,
        kv_cache_dtype=plan.target.cached,
        device=info.device,
        capabilities=capabilities(
            resources,
            codec.calls,
            template_tools=codec.template_tools,
            thinking=codec.thinking,
            thinking_budget=may_limit(codec),
            parallel=session.parallel,
            blind=blind,
            undraftable=info.undraftable,
            in_rounds=session.target.runs_rounds,
        ),
        notes=tuple(
            note for note in (*_notes(plan, codec, session, draft), info.undraftable) if note
        ),
        compiled=info.compiled,
    )
