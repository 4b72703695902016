"""The whole app as Gradio blocks: six pages over one runtime."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.runtime import Runtime
from app.store import Store
from app.switch import ApiSwitch
from app.training import Trainings
from app.ui.components import AT_ONCE
from app.ui.measurements import Measurements
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.chat.page import ChatPage, chat_page, follows_default, kept_settings
from app.ui.pages.chat.pair import REFRESH, listed, picker_updates
from app.ui.pages.chat.panel import drawn_anew
from app.ui.pages.models.backend import ModelsBackend
from app.ui.pages.models.page import models_page
from app.ui.pages.race.backend import RaceBackend
from app.ui.pages.race.page import race_page
from app.ui.pages.server.page import server_page
from app.ui.pages.train.backend import TrainBackend
from app.ui.pages.train.page import train_page
from app.ui.pages.tune.backend import TuneBackend
from app.ui.pages.tune.page import tune_page
from app.ui.pickers import Pickers
from app.ui.settings import DRAFTING
from app.ui.words import Words


def build_ui(runtime: Runtime, switch: ApiSwitch) -> gr.Blocks:
    """The pages; mount them with ``presentation()``."""
    store = Store(runtime.data_dir)
    backend = ChatBackend(runtime, store)
    pickers = Pickers(runtime)
    measurements = Measurements()
    trainings = Trainings(runtime.data_dir, runtime.models)
    runtime.ending.callback(trainings.close)
    with gr.Blocks(
        title=Words.TITLE, analytics_enabled=False, fill_width=True, fill_height=True
    ) as blocks:
        gr.HTML(
            '<div id="ft-brand"></div>',
            js_on_load=None,
            apply_default_css=False,
            elem_id="brand",
        )
        with gr.Tabs(elem_id="pages"):
            with gr.Tab(Words.CHAT, id="chat", render_children=True):
                chat = chat_page(backend, pickers)
            with gr.Tab(Words.RACE, id="race", render_children=True):
                race = RaceBackend(runtime, store, measurements, lambda: kept_settings(backend))
                race_page(race, backend.status)
            with gr.Tab(Words.TUNE, id="tune", render_children=True):
                tune_page(TuneBackend(runtime, store, measurements), backend.status)
            with gr.Tab(Words.MODELS, id="models", render_children=True):
                models_page(ModelsBackend(runtime), backend.status, backend.cancel_loading)
            with gr.Tab(Words.TRAIN, id="train", render_children=True):
                train_page(TrainBackend(runtime, trainings, pickers), backend.status)
            with gr.Tab(Words.SERVER, id="server", render_children=True):
                server_page(runtime, switch)
        _when_ready(chat, backend, pickers)
    return blocks


def _when_ready(chat: ChatPage, backend: ChatBackend, pickers: Pickers) -> None:
    """Fill the controls when a page was opened, and again when another pair was loaded."""

    def fill(event: gr.EventData, quantization: str) -> list[Any]:
        kept, panel = kept_settings(backend), chat.panel
        first = bool(event._data.get("first"))
        wanted = frozenset((*panel.names, "options")) if first else frozenset()
        if first or follows_default(backend):  # another pair may have another default
            wanted |= set(DRAFTING)
        return [
            *picker_updates(pickers, quantization),
            *panel.shown(kept, wanted),
            gr.skip() if first else drawn_anew(),  # what was just chosen is drawn by itself
        ]

    picker = chat.pair
    filled = chat.view.ready(
        fill,
        [picker.quantization],
        [
            picker.target,
            picker.draft,
            picker.load,
            picker.quantization,
            *chat.panel.inputs,
            chat.panel.drawing,
        ],
        show_progress="hidden",
        trigger_mode="always_last",
        **AT_ONCE,
    )
    chat.view.listed(
        lambda target, draft: listed(pickers, target, draft),
        [picker.target, picker.draft],
        [picker.target, picker.draft, picker.load],
        show_progress="hidden",
        trigger_mode="always_last",
        **AT_ONCE,
    ).then(None, None, None, js=REFRESH, **AT_ONCE)
    # Until then a change in the panel would be undone by what was kept; the style sheet prevents it.
    filled.then(
        None,
        None,
        None,
        js="() => { document.body.dataset.controls = 'ready'; window.Foretoken.refresh(); }",
        **AT_ONCE,
    )
