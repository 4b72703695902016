"""The chat page: chats, conversation, rounds and settings, in one component that its script draws."""

from __future__ import annotations

import gradio as gr

from app.ui.components import scripted
from app.ui.controls.panel import PanelBackend, settings_of
from app.ui.controls.pickers import Pickers
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.chat.pair import PairBackend
from app.ui.rounds.view import View


def chat_page(backend: ChatBackend, pickers: Pickers) -> None:
    """Build the page inside the current blocks."""
    panel, pair = PanelBackend(backend.kept, backend.speeds), PairBackend(pickers)

    def act(data: View) -> View:
        """A reply to a message, by the settings that came with it; ``changed`` says what could not be
        had with what is loaded. ``waits``: it is to be sent again once the model is loaded."""
        if backend.waits:
            return {"waits": True}
        found, sent = backend.kept.pair(), data.get("settings")
        if sent is None:  # from a page that was told of none yet
            served = backend.kept.now()
        else:
            settings = settings_of(sent, found.capabilities if found else None)
            served = backend.kept.asked(settings, data.get("pair"))
        return {"changed": list(served.changes), **backend.act(data, served.settings)}

    with gr.Column(elem_id="chat-page", elem_classes="ft-page"):
        scripted(
            "chat",
            '<div class="ft-chat"></div>',
            functions=(
                backend.boot,
                backend.status,
                backend.cancel_loading,
                backend.open_chat,
                backend.import_chat,
                backend.use_system,
                backend.show_branch,
                backend.leave_out,
                backend.delete_message,
                backend.delete_chat,
                backend.clear_chat,
                backend.restore,
                backend.library.search_chats,
                backend.library.export_chat,
                backend.library.rename_chat,
                backend.library.new_folder,
                backend.library.change_folder,
                backend.library.delete_folder,
                backend.library.move_chat,
                backend.library.keep_prompt,
                backend.library.delete_prompt,
                backend.stop,
                backend.follow,
                backend.rounds,
                panel.panel,
                panel.keep_settings,
                panel.forget_settings,
                panel.restore_settings,
                pair.pair_choices,
                pair.load_pair,
                pair.load_written,
                act,
                backend.export_reply,
            ),
            elem_id="chat-view",
        )
