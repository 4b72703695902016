"""The chat page: conversation and rounds in one scripted component, the side panel beside it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.ui.components import AT_ONCE, answer, scripted
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.chat.pair import PairPicker, pair_picker
from app.ui.pages.chat.panel import Panel, drawn_anew, panel
from app.ui.pickers import Pickers
from app.ui.settings import DRAFTING, Settings
from app.ui.words import Words
from engine.errors import ForetokenError

SETTINGS = "chat"
"""The name under which the panel's values are kept."""


@dataclass(frozen=True, slots=True)
class ChatPage:
    """The named elements."""

    view: gr.HTML
    panel: Panel
    pair: PairPicker
    mark: gr.Checkbox


def chat_page(backend: ChatBackend, pickers: Pickers) -> ChatPage:
    """Build the page inside the current tab and wire its events."""
    with gr.Row(elem_id="chat-page", elem_classes="ft-page"):
        with gr.Column(elem_id="side", scale=0, min_width=260):
            gr.HTML('<div id="ft-chats"></div>', js_on_load=None, apply_default_css=False)
            with gr.Column(elem_id="settings"):
                pair = pair_picker(pickers)
                mark = gr.Checkbox(
                    False, label=Words.MARK, info=Words.MARK_INFO, elem_id="mark-origins"
                )
                controls = panel(backend.capabilities)
                defaults = gr.Button(Words.DEFAULTS, size="sm", elem_id="defaults")
        view = scripted(
            "chat",
            '<div class="ft-chat"></div>',
            events=("act", "ready", "listed"),
            functions=(
                backend.boot,
                backend.status,
                backend.cancel_loading,
                backend.open_chat,
                backend.rename_chat,
                backend.delete_chat,
                backend.clear_chat,
                backend.stop,
                backend.follow,
                backend.rounds,
            ),
            elem_id="chat-view",
        )
    page = ChatPage(view, controls, pair, mark)
    _wire(page, backend, defaults)
    return page


def _wire(page: ChatPage, backend: ChatBackend, defaults: gr.Button) -> None:
    def act(event: gr.EventData, *values: Any) -> str:
        return answer(lambda: backend.act(dict(event._data), page.panel.settings(values)))

    page.view.act(
        act,
        page.panel.inputs,
        page.view,
        show_progress="hidden",
        concurrency_limit=None,
        trigger_mode="multiple",
        **AT_ONCE,
    )

    drafting, others = page.panel.split(DRAFTING)
    # How to draft is a choice only where somebody made it: the app itself changes what these controls
    # show when another pair is loaded, and a page that was not told yet shows what suited the last one.
    chosen = [control.input for control in drafting]  # type: ignore[attr-defined]
    chosen += [control.release for control in drafting if isinstance(control, gr.Slider)]
    for events, chooses in (
        (chosen, True),
        ([control.change for control in others], False),  # type: ignore[attr-defined]
    ):

        def keep(*values: Any, chooses: bool = chooses) -> None:
            # A wrong value is told when a message is sent; the last right ones stay kept.
            with contextlib.suppress(ForetokenError):
                keep_settings(backend, page.panel.settings(values), drafting=chooses)

        gr.on(
            events,
            keep,
            page.panel.inputs,
            show_progress="hidden",
            trigger_mode="always_last",
            **AT_ONCE,
        )

    def forget() -> list[Any]:
        backend.store.keep_setting(SETTINGS, {})
        return [*page.panel.values(backend.default_settings()), drawn_anew()]

    defaults.click(
        forget,
        None,
        [*page.panel.inputs, page.panel.drawing],
        show_progress="hidden",
        **AT_ONCE,
    )
    page.mark.change(
        None,
        page.mark,
        None,
        js="(on) => document.body.classList.toggle('show-marks', on)",
        **AT_ONCE,
    )


def kept_settings(backend: ChatBackend) -> Settings:
    """The panel's settings as they were left."""
    return Settings.from_json(backend.store.setting(SETTINGS), backend.default_settings())


def keep_settings(backend: ChatBackend, settings: Settings, *, drafting: bool) -> None:
    """Keeps the panel's settings; how to draft as it was kept, unless ``drafting`` was chosen."""
    with backend.keeping:
        choices = settings.choices(backend.default_settings())
        if not drafting:
            before = backend.store.setting(SETTINGS)
            before = before if isinstance(before, dict) else {}
            choices = {name: value for name, value in choices.items() if name not in DRAFTING}
            choices |= {name: before[name] for name in DRAFTING if name in before}
        backend.store.keep_setting(SETTINGS, choices)


def follows_default(backend: ChatBackend) -> bool:
    """Whether drafting was left as the loaded pair does it by default."""
    kept = backend.store.setting(SETTINGS)
    return not isinstance(kept, dict) or "proposer" not in kept
