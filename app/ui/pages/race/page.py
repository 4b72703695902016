"""The race page: the question on top, two lanes and the result below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.runtime import Runtime
from app.ui.components import AT_ONCE, answer, scripted
from app.ui.offered import proposer_update
from app.ui.pages.race.backend import Races
from app.ui.settings import Settings, whole
from app.ui.words import Words
from engine.api import Loaded
from engine.errors import NotLoaded
from engine.request import MAX_DEPTH, PLAIN, AcceptanceRule

Component = gr.components.Component


@dataclass(frozen=True, slots=True)
class RacePage:
    """The named elements."""

    view: gr.HTML
    prompt: gr.Textbox
    start: gr.Button
    stop: gr.Button
    proposer: Component
    acceptance: Component
    inputs: list[Component]


def race_page(runtime: Runtime) -> RacePage:
    """Build the page inside the current tab and wire its events."""
    with gr.Column(elem_id="race-page", elem_classes="ft-page"):
        gr.HTML(
            f'<p class="ft-intro">{Words.RACE_INTRO}</p>', js_on_load=None, apply_default_css=False
        )
        with gr.Row(elem_id="race-form"):
            with gr.Column(scale=3, min_width=300):
                prompt = gr.Textbox(
                    Words.RACE_EXAMPLE,
                    lines=4,
                    max_lines=8,
                    label=Words.RACE_PROMPT,
                    elem_id="race-prompt",
                )
                with gr.Row(elem_id="race-buttons"):
                    start = gr.Button(
                        Words.RACE_START, variant="primary", elem_id="race-start", scale=0
                    )
                    stop = gr.Button(Words.RACE_STOP, elem_id="race-stop", scale=0)
            controls = _controls()
        races = Races(runtime.engine)
        view = scripted(
            "race", '<div class="ft-race"></div>', functions=(races.follow,), elem_id="race-view"
        )
    page = RacePage(view, prompt, start, stop, controls[0], controls[2], [prompt, *controls])
    _wire(page, races, runtime)
    return page


def _controls() -> list[Component]:
    """Proposer, depth, acceptance, temperature, seed, max tokens; in this order."""
    with gr.Column(scale=2, min_width=280):
        with gr.Row():
            proposer = gr.Dropdown(
                **proposer_update(None, None),
                label=Words.PROPOSER,
                min_width=120,
                elem_id="race-proposer",
            )
            acceptance = gr.Dropdown(
                [str(rule) for rule in AcceptanceRule],
                value="auto",
                label=Words.ACCEPTANCE,
                min_width=120,
                elem_id="race-acceptance",
            )
        with gr.Row():
            depth = gr.Slider(1, MAX_DEPTH, 4, step=1, label=Words.DEPTH, min_width=120)
            temperature = gr.Slider(
                0,
                2,
                0,
                step=0.05,
                label=Words.TEMPERATURE,
                min_width=120,
                elem_id="race-temperature",
            )
        with gr.Row():
            seed = gr.Number(1, label=Words.SEED, min_width=120)
            tokens = gr.Number(200, label=Words.RACE_MAX, min_width=120, elem_id="race-max")
    return [proposer, depth, acceptance, temperature, seed, tokens]


def _settings(loaded: Loaded | None, values: tuple[Any, ...]) -> Settings:
    """What the controls say; raises ``NotLoaded``, and ``InvalidRequest`` for wrong values."""
    if loaded is None:
        raise NotLoaded(Words.NOT_LOADED)
    proposer, depth, acceptance, temperature, seed, tokens = values
    offered = loaded.capabilities.proposer(proposer)
    return Settings(
        proposer=proposer or PLAIN,
        controller="fixed",
        options={offered.name: dict(offered.forgetful)} if offered else {},
        depth=int(depth),
        acceptance=acceptance,
        temperature=float(temperature),
        seed=whole("seed", seed),
        max_tokens=whole("max_tokens", tokens),
    )


def _wire(page: RacePage, races: Races, runtime: Runtime) -> None:
    def start(prompt: str, *values: Any) -> str:
        return answer(
            lambda: {"race": races.start(prompt, _settings(runtime.engine.loaded, values))}
        )

    gr.on(
        [page.start.click, page.prompt.submit],
        start,
        page.inputs,
        page.view,
        show_progress="hidden",
        **AT_ONCE,
    )
    page.stop.click(races.stop, None, None, **AT_ONCE)
