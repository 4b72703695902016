"""The settings page: how the app starts and computes, chats' defaults, folders, privacy, diagnostics."""

from __future__ import annotations

import gradio as gr

from app.ui.components import only_here, scripted
from app.ui.controls.panel import PanelBackend
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.settings.backend import SettingsBackend
from app.ui.words import Words


def settings_page(backend: SettingsBackend, chat: ChatBackend) -> None:
    """Build the page inside the current blocks. The defaults of chats are ``chat``'s."""
    panel = PanelBackend(chat.kept, chat.speeds)

    with gr.Column(elem_id="settings-page", elem_classes="ft-page"):
        scripted(
            "settings",
            '<div class="ft-settings"></div>',
            functions=(
                chat.status,
                chat.cancel_loading,
                panel.panel,
                panel.keep_settings,
                panel.forget_settings,
                backend.computing,
                backend.keep_computing,
                backend.reload,
                backend.folders,
                backend.asked,
                backend.forget,
                backend.diagnostics,
                only_here(backend.open_folder, Words.NOT_ON_THIS_SCREEN),
            ),
            elem_id="settings-view",
        )
