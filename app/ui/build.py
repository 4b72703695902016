"""The whole app as Gradio blocks: four pages over one runtime."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.runtime import Runtime
from app.store import Store
from app.switch import ApiSwitch
from app.ui.desk import Desk
from app.ui.opener import Opener
from app.ui.pages.chat import ChatPage, chat_page, kept_values
from app.ui.pages.models import models_page
from app.ui.pages.pair import draft_update
from app.ui.pages.race import race_page
from app.ui.pages.server import server_page
from app.ui.shelf import Shelf
from app.ui.words import Words


def build_ui(runtime: Runtime, switch: ApiSwitch) -> gr.Blocks:
    """The pages; mount them with ``presentation()``."""
    store = Store(runtime.data_dir)
    desk = Desk(runtime, store)
    shelf = Shelf(runtime, Opener(runtime))
    with gr.Blocks(
        title=Words.TITLE, analytics_enabled=False, fill_width=True, fill_height=True
    ) as blocks:
        gr.HTML(
            '<div id="ft-brand"></div>', js_on_load=None, apply_default_css=False,
            elem_id="brand",
        )
        with gr.Tabs(elem_id="pages"):
            with gr.Tab(Words.CHAT, id="chat", render_children=True):
                chat = chat_page(desk, shelf)
            with gr.Tab(Words.RACE, id="race", render_children=True):
                race_page(runtime)
            with gr.Tab(Words.MODELS, id="models", render_children=True):
                models_page(desk, shelf)
            with gr.Tab(Words.SERVER, id="server", render_children=True):
                server_page(runtime, switch)
        _on_load(blocks, chat, desk, shelf)
    return blocks


def _on_load(blocks: gr.Blocks, chat: ChatPage, desk: Desk, shelf: Shelf) -> None:
    def fill() -> list[Any]:
        """The controls as they were left, and the pickers as things are on disk now."""
        target, draft = shelf.pair_of(desk.runtime.opening.status.pair)
        choices = shelf.targets()
        target = target or (choices[0][1] if choices else None)
        return [
            gr.Dropdown(choices=choices, value=target),
            *draft_update(shelf, target),
            *kept_values(chat, desk),
        ]

    picker = chat.pair
    blocks.load(
        fill,
        None,
        [picker.target, picker.draft, picker.load, *chat.panel.inputs],
        show_progress="hidden",
        api_visibility="private",
    )
