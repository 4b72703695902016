"""Target and draft pickers of the side panel: every target, and only the drafts that fit it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Any

import gradio as gr

from app.runtime import Runtime
from app.ui.components import AT_ONCE
from app.ui.pickers import Choice, Pickers
from app.ui.words import Words
from engine.errors import ForetokenError
from engine.loading.request import AUTO, LoadRequest

REFRESH = "() => window.Foretoken.refresh()"


@dataclass(frozen=True, slots=True)
class PairPicker:
    """The named elements."""

    target: gr.Dropdown
    draft: gr.Dropdown
    quantization: gr.Dropdown
    kv_cache: gr.Dropdown
    load: gr.Button
    note: gr.HTML


def pair_picker(pickers: Pickers) -> PairPicker:
    """Build the pickers inside the current column."""
    start = pickers.runtime.first
    with gr.Accordion(Words.PAIR, open=True, elem_classes="ft-section"):
        target = gr.Dropdown(
            pickers.targets(), label=Words.TARGET, info=Words.TARGET_INFO, elem_id="target"
        )
        draft = gr.Dropdown([], label=Words.DRAFT, info=Words.DRAFT_INFO, elem_id="draft")
        choices, value = _quantizations(pickers, start.target, start.quantization)
        quantization = gr.Dropdown(
            choices,
            value=value,
            label=Words.QUANTIZATION,
            info=Words.QUANTIZATION_INFO,
            elem_id="quantization",
        )
        kv_cache = gr.Dropdown(
            [(label, name) for name, label in Words.KV_CACHES.items()],
            value=start.kv_cache_dtype,
            label=Words.KV_CACHE,
            info=Words.KV_CACHE_INFO,
            elem_id="kv-cache",
        )
        load = gr.Button(Words.LOAD, size="sm", elem_id="load-pair")
        note = gr.HTML("", elem_id="pair-note", apply_default_css=False, js_on_load=None)
    picker = PairPicker(target, draft, quantization, kv_cache, load, note)
    _wire(picker, pickers)
    return picker


def _wire(picker: PairPicker, pickers: Pickers) -> None:
    def follow_target(target: str | None, held: str) -> list[Any]:
        return [*draft_update(pickers, target), quantization_update(pickers, target, held)]

    picker.target.input(
        follow_target,
        [picker.target, picker.quantization],
        [picker.draft, picker.load, picker.quantization],
        show_progress="hidden",
        **AT_ONCE,
    ).then(None, None, None, js=REFRESH, **AT_ONCE)  # more may be known to fit soon
    picker.draft.input(
        pickers.load_label,
        [picker.target, picker.draft],
        picker.load,
        show_progress="hidden",
        **AT_ONCE,
    )

    def load(target: str | None, draft: str | None, quantization: str, kv_cache: str) -> str:
        try:
            runtime = pickers.runtime
            request = chosen(runtime, target or "", draft or "", quantization, kv_cache)
            runtime.loader.start(request)
        except ForetokenError as error:
            return f'<p class="ft-error" role="alert">{escape(str(error))}</p>'
        return ""

    picker.load.click(
        load,
        [picker.target, picker.draft, picker.quantization, picker.kv_cache],
        picker.note,
        show_progress="hidden",
        **AT_ONCE,
    ).then(None, None, None, js=REFRESH, **AT_ONCE)


def chosen(
    runtime: Runtime, target: str, draft: str, quantization: str, kv_cache_dtype: str
) -> LoadRequest:
    """What the pickers say. Models that are loaded already are to be held in another way: with what
    else they were asked for, such as heads, which no picker shows.

    Raises InvalidRequest.
    """
    loaded, request = runtime.engine.loaded, runtime.request(target, draft)
    if loaded is not None and (target, draft) == (loaded.target_id, loaded.draft_id or ""):
        request = loaded.request
    return replace(request, quantization=quantization, kv_cache_dtype=kv_cache_dtype)


def picker_updates(pickers: Pickers, held: str) -> list[Any]:
    """Target, draft, load button and quantizations, as things are on disk now, for the opened pair.

    ``held`` is the quantization that is chosen.
    """
    choices = pickers.targets()
    target, draft = pickers.shown()
    if target is None:
        target = choices[0][1] if choices else None
        of_draft = draft_update(pickers, target)
    else:
        drafts, _ = pickers.drafts_of(target)
        of_draft = [gr.update(choices=drafts, value=draft), pickers.load_label(target, draft)]
    quantizations = quantization_update(pickers, target, held)
    return [gr.update(choices=choices, value=target), *of_draft, quantizations]


def listed(pickers: Pickers, target: str | None, draft: str | None) -> list[Any]:
    """The same choices made, among more models: target, draft and the load button."""
    drafts, _ = pickers.drafts_of(target)
    return [
        gr.update(choices=pickers.targets(), value=target),
        gr.update(choices=drafts, value=draft),
        pickers.load_label(target, draft),
    ]


def draft_update(pickers: Pickers, target: str | None) -> list[Any]:
    """The draft picker and the load button for a newly chosen target."""
    choices, chosen = pickers.drafts_of(target)
    draft = gr.update(choices=choices, value=chosen)
    return [draft, pickers.load_label(target, chosen)]


def quantization_update(pickers: Pickers, target: str | None, held: str) -> Any:
    """The picker of quantizations for a newly chosen target."""
    choices, value = _quantizations(pickers, target, held)
    return gr.update(choices=choices, value=value)


def _quantizations(pickers: Pickers, target: str | None, held: str) -> tuple[list[Choice], str]:
    """What is offered, and of that what was chosen, ``held``, or auto where that is gone."""
    choices = pickers.quantizations_of(target)
    return choices, held if held in {name for _, name in choices} else AUTO
