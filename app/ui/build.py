"""The whole app as Gradio blocks: every page of ``addresses.PAGES`` over one runtime."""

from __future__ import annotations

import logging

import gradio as gr
from fastapi import APIRouter

from app.mcp.config import McpFile
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
from app.ui.pages.models.loading import LoadBackend
from app.ui.pages.models.servers import ServersBackend
from app.ui.pages.models.transfers import TransfersBackend
from app.ui.pages.plan.backend import PlanBackend
from app.ui.pages.race.backend import RaceBackend
from app.ui.pages.server.backend import ServerBackend
from app.ui.pages.settings.backend import SettingsBackend
from app.ui.pages.settings.tools.backend import ToolServersBackend
from app.ui.pages.train.backend import TrainBackend
from app.ui.pages.tune.backend import TuneBackend
from app.ui.rounds.measurements import Measurements
from app.ui.uploads import clear_uploads, uploads
from app.web.switch import ApiSwitch

logger = logging.getLogger(__name__)


def build_ui(runtime: Runtime, switch: ApiSwitch) -> tuple[gr.Blocks, APIRouter]:
    """Build the pages; mount them with ``presentation()``, behind the routes that take their files."""
    store = Store(runtime.data_dir, alone=runtime.alone)
    if runtime.alone:
        clear_uploads(runtime.data_dir)
    if store.notice:
        logger.warning("%s", store.notice)
    chat = ChatBackend(runtime, store)
    runtime.ending.callback(store.close)
    runtime.ending.callback(chat.live_replies.close)  # before it
    runtime.ending.callback(chat.titles.close)
    trainings = Trainings(runtime.data_dir)
    runtime.ending.callback(trainings.close)
    runtime.works.append(lambda: trainings.running)
    pickers, measurements = Pickers(runtime), Measurements()
    status, panel = chat.loading.status, PanelBackend(chat.stored, chat.speeds)
    race = RaceBackend(runtime, store, measurements, lambda: chat.stored.now().settings)
    pair, loading = PairBackend(pickers), LoadBackend(runtime, pickers)
    models = (
        ModelsBackend(runtime, chat.speeds, race.raced),
        TransfersBackend(runtime),
        ServersBackend(runtime),
        loading,
    )
    settings = SettingsBackend(runtime, switch, StoredData(runtime, store, trainings), chat)
    with gr.Blocks(
        title="Foretoken", analytics_enabled=False, fill_width=True, fill_height=True
    ) as blocks:
        own = (chat, chat.chats, chat.library, chat.attachments, chat.tools)
        page("chat", *own, chat.loading, panel, pair, loading)
        page("race", race, status)
        page("tune", TuneBackend(runtime, store, measurements, chat.speed), status)
        page("models", *models, chat.loading)
        train = TrainBackend(runtime, trainings, pickers, chat.speed, chat.stored.draft_with)
        page("train", train, status)
        page("server", ServerBackend(runtime, switch))
        page("plan", PlanBackend(runtime.data_dir))
        tools = ToolServersBackend(runtime.tools, McpFile(runtime.data_dir))
        page("settings", settings, tools, status)
    return blocks, uploads(runtime.data_dir, chat.attachments, chat.chats.import_chats)
