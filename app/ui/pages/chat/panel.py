"""The side panel's controls: named elements, what the loaded pair offers of them, and the settings they
add up to."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import gradio as gr

from app.ui.components import AT_ONCE
from app.ui.offered import options_of, proposer_update, rules_update
from app.ui.settings import Settings, kind_of, typed, whole
from app.ui.words import Words
from engine.api import Capabilities, OptionInfo
from engine.request import MAX_DEPTH, AcceptanceRule, Control, Sampling

Component = gr.components.Component
Offered = Callable[[], Capabilities | None]
"""What the pair that is loaded just now can do; None while none is."""

SLIDERS: Mapping[str, dict[str, Any]] = {
    "temperature": {
        "minimum": 0,
        "maximum": 2,
        "step": 0.05,
        "label": Words.TEMPERATURE,
        "info": Words.TEMPERATURE_INFO,
        "elem_id": "temperature",
    },
    "top_p": {"minimum": 0.01, "maximum": 1, "step": 0.01, "label": Words.TOP_P},
    "top_k": {
        "minimum": 0,
        "maximum": 200,
        "step": 1,
        "label": Words.TOP_K,
        "info": Words.TOP_K_INFO,
    },
    "min_p": {"minimum": 0, "maximum": 0.99, "step": 0.01, "label": Words.MIN_P},
    "repetition_penalty": {
        "minimum": 0.5,
        "maximum": 2,
        "step": 0.05,
        "label": Words.REPETITION,
    },
    "presence_penalty": {"minimum": -2, "maximum": 2, "step": 0.1, "label": Words.PRESENCE},
    "frequency_penalty": {"minimum": -2, "maximum": 2, "step": 0.1, "label": Words.FREQUENCY},
}
"""The fields of ``Sampling`` that are numbers on a scale, in their order."""
SAMPLING = (*SLIDERS, "seed")
_NEUTRAL = Sampling()


_drawings = count(1)


def drawn_anew() -> str:
    """A value for ``Panel.drawing`` that it never had."""
    return str(next(_drawings))


@dataclass(frozen=True, slots=True)
class Panel:
    """The controls in the order of ``names``, the proposer first. ``options`` holds the proposers' own
    options as JSON; they are drawn for the chosen one, and again when ``drawing`` changes."""

    names: tuple[str, ...]
    controls: tuple[Component, ...]
    options: gr.Textbox
    drawing: gr.Textbox
    offered: Offered

    @property
    def proposer(self) -> Component:
        return self.controls[0]

    @property
    def inputs(self) -> list[Component]:
        return [*self.controls, self.options]

    def split(self, names: Collection[str]) -> tuple[list[Component], list[Component]]:
        """The controls of these names, and all other inputs."""
        named = [c for name, c in zip(self.names, self.controls, strict=True) if name in names]
        return named, [each for each in self.inputs if each not in named]

    def settings(self, values: tuple[Any, ...]) -> Settings:
        """The settings that the inputs' values make; raises ``InvalidRequest``."""
        *named, options = values
        read = {name: _read(name, value) for name, value in zip(self.names, named, strict=True)}
        capabilities = self.offered()
        if (
            not read["proposer"] and capabilities is not None
        ):  # sent before the controls were filled
            read["proposer"] = capabilities.preferred
        return Settings(**read, options=typed(json.loads(options or "{}"), capabilities))

    def values(self, settings: Settings) -> list[Any]:
        """The inputs' values that show ``settings``."""
        return [
            *(getattr(settings, name) for name in self.names),
            json.dumps(dict(settings.options)),
        ]

    def shown(self, settings: Settings, wanted: frozenset[str]) -> list[Any]:
        """Updates of all inputs: values as in ``settings`` for the names in ``wanted``,
        choices as the loaded pair has them."""
        capabilities = self.offered()
        values = dict(zip((*self.names, "options"), self.values(settings), strict=True))
        updates: dict[str, dict[str, Any]] = {
            name: {"value": values[name]} if name in wanted else {} for name in values
        }
        updates["proposer"] = proposer_update(capabilities, settings.proposer, label=Words.proposer)
        if capabilities is not None:
            updates["acceptance"] |= rules_update(capabilities, settings.acceptance)
            for name in SAMPLING:
                updates[name]["interactive"] = name in capabilities.sampling
                neutral = getattr(_NEUTRAL, name)
                if name not in capabilities.sampling and getattr(settings, name) != neutral:
                    # The engine would refuse it, and nobody could change it.
                    updates[name]["value"] = neutral
        return [gr.update(**update) for update in updates.values()]


def _read(name: str, value: Any) -> Any:
    kind = kind_of(name)
    if kind is int:
        return whole(name, value)
    return (value or "") if kind is str else float(value)


def panel(offered: Offered) -> Panel:
    """Build the controls inside the current column."""
    start = Settings()
    made: dict[str, Component] = {}
    with gr.Accordion(Words.SPECULATION, open=True, elem_classes="ft-section"):
        made["proposer"] = proposer = gr.Dropdown(
            **proposer_update(None, None), label=Words.PROPOSER, elem_id="proposer"
        )
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
        options = gr.Textbox("{}", visible="hidden")
        drawing = gr.Textbox("", visible="hidden")
        _draw_options(proposer, drawing, options, offered)
        made["acceptance"] = gr.Dropdown(
            [str(rule) for rule in AcceptanceRule],
            value=start.acceptance,
            label=Words.ACCEPTANCE,
            info=Words.ACCEPTANCE_INFO,
            elem_id="acceptance",
        )
    with gr.Accordion(Words.SAMPLING, open=True, elem_classes="ft-section"):
        for name, scale in SLIDERS.items():
            made[name] = gr.Slider(value=getattr(start, name), **scale)
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
    return Panel(tuple(made), tuple(made.values()), options, drawing, offered)


_WRITE = """(value, held) => {
  const all = JSON.parse(held);
  all[%(proposer)s] = {...all[%(proposer)s], [%(option)s]: value};
  return JSON.stringify(all);
}"""


def _draw_options(
    proposer: gr.Dropdown, drawing: gr.Textbox, options: gr.Textbox, offered: Offered
) -> None:
    """The chosen proposer's own options. What is changed in them is written into ``options`` in the
    browser, so that a message sent right after takes it along."""

    @gr.render(
        [proposer, options],
        [proposer.change, drawing.change],
        queue=False,
        show_progress="hidden",
    )
    def draw(chosen: str, held: str) -> None:
        capabilities = offered()
        own = options_of(capabilities, chosen)
        if not own:
            return
        values = typed(json.loads(held), capabilities).get(chosen, {})
        with gr.Group(elem_classes="ft-options"):
            for option in own:
                control = _control(option, values.get(option.name, option.default))
                control.input(  # type: ignore[attr-defined]
                    None,
                    [control, options],
                    options,
                    js=_WRITE % {"proposer": json.dumps(chosen), "option": json.dumps(option.name)},
                    **AT_ONCE,
                )


def _control(option: OptionInfo, value: Any) -> Component:
    common: dict[str, Any] = {
        "label": option.name.replace("_", " "),
        "info": option.help,
        "interactive": True,
    }
    if option.kind is bool:
        return gr.Checkbox(value, **common)
    if option.choices:
        return gr.Dropdown(list(option.choices), value=value, **common)
    if option.kind is str:
        return gr.Textbox(value, **common)
    return gr.Number(value, precision=0 if option.kind is int else None, **common)
