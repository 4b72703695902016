"""The side panel's controls: named elements, their defaults, and the settings they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.ui.settings import Option, Settings, proposer_options, whole
from app.ui.words import Words
from engine.drafting import proposers
from engine.request import MAX_DEPTH, AcceptanceRule, Control

Component = gr.components.Component

WHOLE = ("depth", "top_k", "seed", "max_tokens")
TEXT = ("proposer", "controller", "acceptance", "stop", "system")


@dataclass(frozen=True, slots=True)
class Panel:
    """The controls in the order of ``names``, then the proposers' own ``options``."""

    names: tuple[str, ...]
    controls: tuple[Component, ...]
    options: tuple[Option, ...]
    option_controls: tuple[Component, ...]
    proposer: gr.Dropdown
    groups: dict[str, gr.Group]

    @property
    def inputs(self) -> list[Component]:
        return [*self.controls, *self.option_controls]

    def settings(self, values: tuple[Any, ...]) -> Settings:
        """The settings that the controls' values make; raises ``InvalidRequest``."""
        split = len(self.names)
        named = {
            name: _read(name, value) for name, value in zip(self.names, values[:split], strict=True)
        }
        options: dict[str, dict[str, Any]] = {}
        for option, value in zip(self.options, values[split:], strict=True):
            kind = int if option.kind is int else option.kind
            options.setdefault(option.proposer, {})[option.name] = kind(value)
        return Settings(**named, options=options)

    def values(self, settings: Settings) -> list[Any]:
        """The controls' values that show ``settings``."""
        named = [getattr(settings, name) for name in self.names]
        own = [
            settings.options.get(option.proposer, {}).get(option.name, option.default)
            for option in self.options
        ]
        return [*named, *own]


def _read(name: str, value: Any) -> Any:
    if name in WHOLE:
        return whole(name, value)
    if name in TEXT:
        return value or ""
    return float(value)


def panel() -> Panel:
    """Build the controls inside the current column."""
    start = Settings()
    made: dict[str, Component] = {}
    with gr.Accordion(Words.SPECULATION, open=True, elem_classes="ft-section"):
        proposer = gr.Dropdown(
            [(Words.PROPOSERS.get(name, name), name) for name in proposers.names()],
            value=start.proposer,
            label=Words.PROPOSER,
            elem_id="proposer",
        )
        made["proposer"] = proposer
        made["controller"] = gr.Dropdown(
            [str(control) for control in Control],
            value=start.controller,
            label=Words.CONTROLLER,
            info=Words.CONTROLLER_INFO,
            elem_id="controller",
        )
        made["depth"] = gr.Slider(
            1,
            MAX_DEPTH,
            start.depth,
            step=1,
            label=Words.DEPTH,
            info=Words.DEPTH_INFO,
            elem_id="depth",
        )
        groups, options, option_controls = _options(start.proposer)
        made["acceptance"] = gr.Dropdown(
            [str(rule) for rule in AcceptanceRule],
            value=start.acceptance,
            label=Words.ACCEPTANCE,
            info=Words.ACCEPTANCE_INFO,
            elem_id="acceptance",
        )
    with gr.Accordion(Words.SAMPLING, open=True, elem_classes="ft-section"):
        made["temperature"] = gr.Slider(
            0,
            2,
            start.temperature,
            step=0.05,
            label=Words.TEMPERATURE,
            info=Words.TEMPERATURE_INFO,
            elem_id="temperature",
        )
        made["top_p"] = gr.Slider(0.01, 1, start.top_p, step=0.01, label=Words.TOP_P)
        made["top_k"] = gr.Slider(
            0, 200, start.top_k, step=1, label=Words.TOP_K, info=Words.TOP_K_INFO
        )
        made["min_p"] = gr.Slider(0, 0.99, start.min_p, step=0.01, label=Words.MIN_P)
        made["repetition_penalty"] = gr.Slider(
            0.5, 2, start.repetition_penalty, step=0.05, label=Words.REPETITION
        )
        made["presence_penalty"] = gr.Slider(
            -2, 2, start.presence_penalty, step=0.1, label=Words.PRESENCE
        )
        made["frequency_penalty"] = gr.Slider(
            -2, 2, start.frequency_penalty, step=0.1, label=Words.FREQUENCY
        )
        made["seed"] = gr.Number(start.seed, label=Words.SEED, info=Words.SEED_INFO, elem_id="seed")
    with gr.Accordion(Words.REPLY, open=True, elem_classes="ft-section"):
        made["max_tokens"] = gr.Number(
            start.max_tokens,
            label=Words.MAX_TOKENS,
            info=Words.MAX_TOKENS_INFO,
            elem_id="max-tokens",
        )
        made["stop"] = gr.Textbox(
            start.stop, lines=2, label=Words.STOP, info=Words.STOP_INFO, elem_id="stop-strings"
        )
        made["system"] = gr.Textbox(
            start.system, lines=3, label=Words.SYSTEM, elem_id="system-prompt"
        )
    return Panel(tuple(made), tuple(made.values()), options, option_controls, proposer, groups)


def allowed(available: Sequence[str], chosen: str) -> str:
    """The chosen proposer if the loaded pair allows it; n-gram stands in for what it does not."""
    return chosen if chosen in available else "ngram"


def _options(
    chosen: str,
) -> tuple[dict[str, gr.Group], tuple[Option, ...], tuple[Component, ...]]:
    """One group of controls for each proposer that has options, shown while it is chosen."""
    options = proposer_options()
    groups: dict[str, gr.Group] = {}
    controls: list[Component] = []
    for name in dict.fromkeys(option.proposer for option in options):
        with gr.Group(visible=name == chosen, elem_classes="ft-options") as group:
            controls += [_control(option) for option in options if option.proposer == name]
        groups[name] = group
    return groups, options, tuple(controls)


def _control(option: Option) -> Component:
    if option.kind is bool:
        return gr.Checkbox(option.default, label=option.label, info=option.help)
    if option.choices:
        return gr.Dropdown(
            list(option.choices), value=option.default, label=option.label, info=option.help
        )
    if option.kind is str:
        return gr.Textbox(option.default, label=option.label, info=option.help)
    precision = 0 if option.kind is int else None
    return gr.Number(option.default, label=option.label, info=option.help, precision=precision)
