"""The settings of the chat as its page shows them: fields, presets, and who can draft, with reasons.

Plain values; the page's script draws them. What the loaded pair lacks is shown and cannot be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.ui import words
from app.ui.controls.resolver import Pair, default_of
from app.ui.controls.settings import DRAFTING, Settings, decimal, kind_of, typed, whole
from app.ui.controls.stored_settings import StoredSettings
from app.ui.endpoints import View, endpoint
from app.ui.rounds.speeds import Speeds
from app.ui.words import pair as pair_words
from engine.api import Capabilities, OptionInfo
from engine.request import PLAIN, Control
from engine.stats import times
from engine.values import MAX_DEPTH
from engine.values.method_titles import method_title
from engine.values.sampling import AcceptanceRule, Sampling

SLIDERS: Mapping[str, View] = {
    "temperature": {
        "min": 0,
        "max": 2,
        "step": 0.05,
        "label": "Temperature",
        "info": "0 = deterministic",
    },
    "top_p": {"min": 0.01, "max": 1, "step": 0.01, "label": "Top-p"},
    "top_k": {"min": 0, "max": 200, "step": 1, "label": "Top-k", "info": "0 = off"},
    "min_p": {"min": 0, "max": 0.99, "step": 0.01, "label": "Min-p"},
    "repetition_penalty": {"min": 0.5, "max": 2, "step": 0.05, "label": "Repetition penalty"},
    "presence_penalty": {"min": -2, "max": 2, "step": 0.1, "label": "Presence penalty"},
    "frequency_penalty": {"min": -2, "max": 2, "step": 0.1, "label": "Frequency penalty"},
}
"""The fields of ``Sampling`` that are numbers on a scale, in their order."""
SAMPLING = (*SLIDERS, "seed")
NAMES = (
    "proposer", "controller", "depth", "acceptance", *SAMPLING, "max_tokens", "thinking",
    "thinking_budget", "stop", "system",
)  # fmt: skip
"""The fields that a page sends, without ``options``."""


def _field(name: str, kind: str, **spec: Any) -> View:
    return {"name": name, "id": name.replace("_", "-"), "kind": kind, **spec}


FIELDS: Mapping[str, tuple[View, ...]] = {
    "Drafting": (
        _field(
            "controller",
            "choice",
            label="Depth control",
            info="auto adapts the depth; fixed keeps the depth below; off drafts nothing",
        ),
        _field(
            "depth",
            "range",
            label="Depth",
            info="Drafted tokens per round",
            min=1,
            max=MAX_DEPTH,
            step=1,
        ),
        _field("options", "options"),
        _field(
            "acceptance",
            "choice",
            label="Acceptance",
            info="auto: greedy at temperature 0, else coupled",
        ),
    ),
    "Sampling": (
        *(_field(name, "range", sampling=True, **spec) for name, spec in SLIDERS.items()),
        _field("seed", "number", sampling=True, label="Seed", info="Empty = random"),
    ),
    "Reply": (
        _field(
            "max_tokens", "number", label="Max tokens", info="Empty = until the context is full"
        ),
        _field(
            "thinking_budget",
            "number",
            label="Thinking budget",
            info="Most tokens per thought. Empty = no limit",
        ),
        _field(
            "stop", "text", id="stop-strings", label="Stop strings", info="One per line", lines=2
        ),
    ),
}
"""The controls under Advanced, by headings."""
SYSTEM = _field("system", "text", id="system-prompt", label="System prompt", lines=3)


class PanelBackend:
    """The backend of the settings and of the chip above the chat."""

    def __init__(self, stored: StoredSettings, speeds: Speeds) -> None:
        self.stored, self._speeds = stored, speeds

    @endpoint
    def panel(self, data: View | None = None) -> View:
        """Return everything the panel shows for the loaded pair: ``fields`` on the page's ``first``
        request, ``news`` if it says that ``other`` models were loaded."""
        news = self.stored.tell() if (data or {}).get("other") else ()
        pair, resolved = self.stored.pair(), self.stored.now()
        capabilities = pair.capabilities if pair else None
        shown = {
            "version": self.stored.version,
            "pair": pair and pair.key,
            "settings": resolved.settings.to_json(),
            "changes": list(resolved.changes),
            "news": list(news),
            "method": pair_words.method(resolved.settings),
            "methods": self._methods(pair),
            "controllers": list(map(str, capabilities.controllers if capabilities else Control)),
            "rules": rules_of(capabilities),
            "sampling": sorted(capabilities.sampling if capabilities else SAMPLING),
            "thinking": _thinking(pair),
            "thinking_budget": bool(capabilities and capabilities.thinking_budget),
            "presets": _presets(pair),
            "forgotten": self.stored.forgotten,
        }
        if (data or {}).get("first"):
            groups = [
                {"kind": "group", "label": each, "fields": own} for each, own in FIELDS.items()
            ]
            shown |= {"fields": [SYSTEM, *groups]}
        return shown

    @endpoint
    def keep_settings(self, data: View) -> View:
        """Store what a page's controls show; ``chosen``: the user chose how to draft."""
        pair = self.stored.pair()
        settings = settings_of(data["settings"], pair.capabilities if pair else None)
        self.stored.keep(settings, data.get("pair"), chosen=bool(data.get("chosen")))
        return self.panel()

    @endpoint
    def forget_settings(self, data: View | None = None) -> View:
        """Go back to the defaults."""
        self.stored.forget()
        return self.panel()

    @endpoint
    def restore_settings(self, data: View | None = None) -> View:
        """Undo ``forget_settings``."""
        self.stored.restore()
        return self.panel()

    def _methods(self, pair: Pair | None) -> list[View]:
        """Return the proposers: those that can draft, then the others with the reason."""
        if pair is None:
            return []
        default = default_of(pair).proposer
        offered = [
            {
                **_named(each.name, each.about),
                "why": None,
                "default": each.name == default,
                "speed": self._speed(pair, each.name),
                "options": [_option(option) for option in each.options],
            }
            for each in pair.capabilities.proposers
        ]
        lacking = [
            {**_named(each.name, each.about), "why": each.reason, "options": []}
            for each in pair.capabilities.unavailable
        ]
        return [*offered, *lacking]

    def _speed(self, pair: Pair, proposer: str) -> str | None:
        told, swept = [], pair.measured
        if swept is not None and swept.winner.proposer == proposer != PLAIN:
            told.append(
                f"{times(swept.winner.speedup)} the speed without drafting, measured {swept.measured}"
            )
        own = self._speeds.of(pair.key, proposer)
        if own is not None:
            of = "the last reply" if own.replies == 1 else f"the last {own.replies} replies"
            told.append(f"{own.tokens_per_s:.1f} tokens/s in {of}")
        return "; ".join(told) or None


def settings_of(sent: Mapping[str, Any], capabilities: Capabilities | None) -> Settings:
    """Return the settings that a page sent. Raises InvalidRequest for a value that its field cannot
    have.

    A page that has no settings yet leaves fields out; these get their defaults.
    """
    start = Settings()
    read = {name: _read(name, sent.get(name, getattr(start, name))) for name in NAMES}
    if not read["proposer"] and capabilities is not None:
        read["proposer"] = capabilities.preferred
    options = sent.get("options")
    return Settings(
        **read, options=typed(options if isinstance(options, dict) else {}, capabilities)
    )


def _read(name: str, value: Any) -> Any:
    kind = kind_of(name)
    if kind is int:
        return whole(name, value)
    return (value or "") if kind is str else decimal(name, value)


def _named(name: str, about: str) -> View:
    return {"name": name, "title": method_title(name), "about": about}


def _option(option: OptionInfo) -> View:
    kinds = {bool: "check", str: "choice" if option.choices else "text", int: "number"}
    return {
        "name": option.name,
        "label": option.name.replace("_", " "),
        "info": option.help,
        "kind": kinds.get(option.kind, "number"),
        "choices": list(option.choices),
        "value": option.default,
    }


def rules_of(capabilities: Capabilities | None) -> list[str]:
    """Return the acceptance rules that can be chosen."""
    own = tuple(AcceptanceRule) if capabilities is None else capabilities.rules
    return list(dict.fromkeys(map(str, (AcceptanceRule.AUTO, *own))))


def _thinking(pair: Pair | None) -> list[View]:
    """Return the choices of how much to think, the model's own first; none if it has no choice."""
    offered = () if pair is None else pair.capabilities.thinking
    choices = ("", *offered) if offered else ()
    return [{"id": each, "label": words.THINKING[each]} for each in choices]


def _presets(pair: Pair | None) -> list[View]:
    """Return the presets for speed and sampling; the first is the default."""
    default = default_of(pair) if pair else Settings()
    drafted = {name: getattr(default, name) for name in DRAFTING}
    neutral = {each: getattr(Sampling(), each) for each in SAMPLING}
    chance = {"temperature": default.temperature, "top_p": default.top_p}
    method = method_title(default.proposer)
    drafting = method if default.proposer == PLAIN else f"Drafting: {method}"
    balanced = f"Temperature 0.7, top-p 0.95: Retry writes another reply. {drafting}."
    fixed = f"Temperature 0: same question, same reply. {drafting}."
    ways: list[tuple[str, str, str, View]] = [
        ("balanced", "Balanced", balanced, {**drafted, **chance}),
        ("fixed", "Deterministic", fixed, drafted),
    ]
    if pair is None or pair.capabilities.proposer(PLAIN) is not None:
        exact = "Temperature 0, no drafting: compare text and speed with Deterministic."
        ways.append(("exact", "No drafting", exact, {**drafted, "proposer": PLAIN}))
    return [
        {
            "id": name,
            "label": label,
            "about": about,
            "values": {**neutral, "acceptance": str(AcceptanceRule.AUTO), **values},
        }
        for name, label, about, values in ways
    ]
