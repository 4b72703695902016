"""The whole app as Gradio blocks: every page of ``addresses.PAGES`` over one runtime."""

from __future__ import annotations

import logging
from typing import Any

import gradio as gr

from app.runtime import Runtime
from app.store import Store
from app.switch import ApiSwitch
from app.training import Trainings
from app.ui.components import AT_ONCE
from app.ui.offered import proposer_update, rules_update
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.chat.page import chat_page
from app.ui.pages.models.backend import ModelsBackend
from app.ui.pages.models.page import models_page
from app.ui.pages.race.page import RacePage, race_page
from app.ui.pages.server.page import server_page
from app.ui.pages.train.backend import TrainBackend
from app.ui.pages.train.page import train_page
from app.ui.pickers import Pickers
from app.ui.words import Words
from engine.request import PLAIN

logger = logging.getLogger(__name__)


def build_ui(runtime: Runtime, switch: ApiSwitch) -> gr.Blocks:
    """The pages; mount them with ``presentation()``."""
    store = Store(runtime.data_dir, alone=runtime.alone)
    if store.notice:
        logger.warning("%s", store.notice)
    backend = ChatBackend(runtime, store)
    runtime.ending.callback(store.close)
    runtime.ending.callback(backend.writings.close)  # before it
    pickers = Pickers(runtime)
    trainings = Trainings(runtime.data_dir, runtime.models)
    runtime.ending.callback(trainings.close)
    with gr.Blocks(
        title=Words.TITLE, analytics_enabled=False, fill_width=True, fill_height=True
    ) as blocks:
        chat = chat_page(backend, pickers)
        race = race_page(runtime)
        models_page(ModelsBackend(runtime), backend.status, backend.cancel_loading)
        train_page(TrainBackend(runtime, trainings, pickers), backend.status)
        server_page(runtime, switch)
        _fill_race(chat, race, runtime)
    return blocks


def _fill_race(chat: gr.HTML, race: RacePage, runtime: Runtime) -> None:
    """Fill the controls of the race when a page was opened, and again when another pair was loaded."""

    def fill(racer: str | None, rule: str) -> list[Any]:
        loaded = runtime.engine.loaded
        capabilities = loaded.capabilities if loaded is not None else None
        return [
            gr.update(**proposer_update(capabilities, racer, without=(PLAIN,))),
            gr.update(**rules_update(capabilities, rule)) if capabilities else gr.skip(),
        ]

    controls = [race.proposer, race.acceptance]
    chat.ready(
        fill, controls, controls, show_progress="hidden", trigger_mode="always_last", **AT_ONCE
    )
