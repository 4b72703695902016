"""The whole app as Gradio blocks: every page of ``addresses.PAGES`` over one runtime."""

from __future__ import annotations

import logging

import gradio as gr

from app.runtime import Runtime
from app.storage.store import Store
from app.stored_data import StoredData
from app.training.runs import Trainings
from app.ui.controls.pickers import Pickers
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.chat.page import chat_page
from app.ui.pages.models.backend import ModelsBackend
from app.ui.pages.models.page import models_page
from app.ui.pages.plan.backend import PlanBackend
from app.ui.pages.plan.page import plan_page
from app.ui.pages.race.backend import RaceBackend
from app.ui.pages.race.page import race_page
from app.ui.pages.server.backend import ServerBackend
from app.ui.pages.server.page import server_page
from app.ui.pages.settings.backend import SettingsBackend
from app.ui.pages.settings.page import settings_page
from app.ui.pages.train.backend import TrainBackend
from app.ui.pages.train.page import train_page
from app.ui.pages.tune.backend import TuneBackend
from app.ui.pages.tune.page import tune_page
from app.ui.rounds.measurements import Measurements
from app.ui.words import Words
from app.web.switch import ApiSwitch

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
    measurements = Measurements()
    race = RaceBackend(runtime, store, measurements, lambda: backend.kept.now().settings)
    trainings = Trainings(runtime.data_dir, runtime.models)
    runtime.ending.callback(trainings.close)
    with gr.Blocks(
        title=Words.TITLE, analytics_enabled=False, fill_width=True, fill_height=True
    ) as blocks:
        chat_page(backend, pickers)
        race_page(race, backend.status)
        tune_page(TuneBackend(runtime, store, measurements, backend.speed), backend.status)
        models = ModelsBackend(runtime, backend.speeds, race.raced)
        models_page(models, backend.status, backend.cancel_loading)
        train = TrainBackend(runtime, trainings, pickers, backend.speed, backend.kept.draft_with)
        train_page(train, backend.status)
        server_page(ServerBackend(runtime, switch))
        plan_page(PlanBackend(runtime.data_dir))
        data = StoredData(runtime, store, trainings)
        settings_page(SettingsBackend(runtime, switch, data, backend), backend)
    return blocks
