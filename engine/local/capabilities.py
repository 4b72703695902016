"""The capabilities of a loaded pair."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

from engine.api import NO_IMAGES, Capabilities, OptionInfo, ProposerInfo, Unavailable
from engine.drafting import proposers
from engine.drafting.resources import Resources
from engine.tool_calls.styles import CallStyle
from engine.values.sampling import AcceptanceRule, Sampling


def capabilities(
    resources: Resources,
    calls: CallStyle,
    *,
    template_tools: bool = True,
    thinking: tuple[str, ...] = (),
    thinking_budget: bool = False,
    parallel: int = 1,
    blind: str = NO_IMAGES,
    undraftable: str = "",
    in_rounds: bool = False,
) -> Capabilities:
    """Return the capabilities of a target with these resources.

    ``calls``: its style of tool calls. ``template_tools``, ``thinking``, ``thinking_budget``: see
    ``Capabilities``. ``blind``: why it sees no images, else "".
    ``undraftable``: see ``ModelInfo``. ``in_rounds``: whether it runs rounds on a GPU.
    """
    names = ("none",) if undraftable else proposers.available(resources.loaded)
    return Capabilities(
        proposers=tuple(proposer_info(name) for name in names),
        preferred=names[0] if undraftable else proposers.preferred(names, in_rounds=in_rounds),
        rules=tuple(AcceptanceRule),
        sampling=frozenset(each.name for each in fields(Sampling)),
        grammars=True,
        calls=calls,
        template_tools=template_tools,
        thinking=thinking,
        thinking_budget=thinking_budget,
        parallel=parallel,
        images=not blind,
        why_no_images=blind,
        unavailable=tuple(
            Unavailable(name, why, proposers.entry_of(name).about)
            for name in proposers.names()
            if name not in names
            and (why := undraftable or proposers.why_not(name, resources)) is not None
        ),
    )


def proposer_info(name: str) -> ProposerInfo:
    """Return a proposer of the registry with its options. Raises InvalidRequest."""
    options = proposers.options_of(name)
    kinds = get_type_hints(options)
    found = []
    for each in fields(options):
        choices = each.metadata.get("choices", ())
        named = tuple(choices() if callable(choices) else choices)
        text = each.metadata.get("help", "")
        found.append(OptionInfo(each.name, kinds[each.name], each.default, text, named))
    entry = proposers.entry_of(name)
    return ProposerInfo(name, tuple(found), entry.isolated_options, entry.depth, entry.about)
