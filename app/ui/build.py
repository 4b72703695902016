"""The whole app as Gradio blocks: every page of ``addresses.PAGES`` over one runtime."""

from __future__ import annotations

import logging

import gradio as gr

from app.runtime import Runtime
from app.storage.store import Store
from app.stored_data import StoredData
from app.training.runs import Trainings
from app.ui.components import page
from app.ui.controls.panel import PanelBackend
from app.ui.controls.pickers import Pickers
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.chat.pair import PairBackend
from app.ui.pages.models.backend import ModelsBackend
from app.ui.pages.models.disk import DiskBackend
from app.ui.pages.models.servers import ServersBackend
from app.ui.pages.models.transfers import TransfersBackend
from app.ui.pages.plan.backend import PlanBackend
from app.ui.pages.race.backend import RaceBackend
from app.ui.pages.server.backend import ServerBackend
from app.ui.pages.settings.backend import SettingsBackend
from app.ui.pages.train.backend import TrainBackend
from app.ui.pages.tune.backend import TuneBackend
from app.ui.rounds.measurements import Measurements
from app.ui.words import Words
from app.web.switch import ApiSwitch

logger = logging.getLogger(__name__)


def build_ui(runtime: Runtime, switch: ApiSwitch) -> gr.Blocks:
    """Build the pages; mount them with ``presentation()``."""
    store = Store(runtime.data_dir, alone=runtime.alone)
    if store.notice:
        logger.warning("%s", store.notice)
    chat = ChatBackend(runtime, store)
    runtime.ending.callback(store.close)
    runtime.ending.callback(chat.live_replies.close)  # before it
    trainings = Trainings(runtime.data_dir)
    runtime.ending.callback(trainings.close)
    pickers, measurements = Pickers(runtime), Measurements()
    panel = PanelBackend(chat.stored, chat.speeds)
    race = RaceBackend(runtime, store, measurements, lambda: chat.stored.now().settings)
    models = (
        ModelsBackend(runtime, chat.speeds, race.raced),
        TransfersBackend(runtime),
        ServersBackend(runtime),
        DiskBackend(runtime),
    )
    settings = SettingsBackend(runtime, switch, StoredData(runtime, store, trainings), chat)
    with gr.Blocks(
        title=Words.TITLE, analytics_enabled=False, fill_width=True, fill_height=True
    ) as blocks:
        page("chat", chat, chat.library, panel, PairBackend(pickers))
        page("race", race, chat.status)
        page("tune", TuneBackend(runtime, store, measurements, chat.speed), chat.status)
        page("models", *models, chat.status, chat.cancel_loading)
        train = TrainBackend(runtime, trainings, pickers, chat.speed, chat.stored.draft_with)
        page("train", train, chat.status)
        page("server", ServerBackend(runtime, switch))
        page("plan", PlanBackend(runtime.data_dir))
        page("settings", settings, panel, chat.status, chat.cancel_loading)
    return blocks
