"""Requests for a bullet list, a numbered list or a checklist."""

from __future__ import annotations

import random
from collections.abc import Sequence

from .. import source_texts, words
from .requests import SAY, ask, pick
from .states import ItemList, Turn

_INTRODUCTIONS = {
    "to-do list": ("I have to", "We still have to", "Today I want to", "Please remember to", "Tomorrow we must"),
    "shopping list": ("I need", "We need", "Please buy", "The shop has", "I want to buy", "Still missing:"),
    "list of towns": ("We will visit", "Our trip goes through", "I have been to", "The train stops in"),
    "list of names": ("Invited are", "On the team are", "In the room are", "We asked"),
    "guest list": ("The guests are", "Invited are", "There will be", "At the table sit"),
    "list": ("I have", "There are", "On the list:", "The words are", "We found"),
}  # fmt: skip


def list_turn(rng: random.Random, held_out: bool) -> Turn:
    """A bullet list, numbered list or checklist of items told in a row."""
    doc, items = source_texts.items(rng, rng.randint(3, 6))
    wordings, mark = rng.choices(
        ((SAY["bullets"], "- "), (SAY["numbered"], "1. "), (SAY["checklist"], "- [ ] ")),
        cum_weights=(5, 9, 10),
    )[0]
    facts = _told_items(rng, doc, items)
    request = pick(
        rng,
        wordings,
        held_out,
        rng.choice(("this", "these", "the following", "these items", "the items")),
    )
    return Turn(ask(rng, request, facts, prose=facts.endswith(".")), ItemList(items, mark))


def _told_items(rng: random.Random, doc: str, items: Sequence[str]) -> str:
    match rng.randrange(5):
        case 0:
            return words.joined(items)
        case 1:
            return ", ".join(items)
        case 2:
            return "; ".join(items)
        case 3:
            return "\n".join(items)
        case _:
            return f"{rng.choice(_INTRODUCTIONS.get(doc, ('The words are', 'The list holds', 'Here we have')))} {words.joined(items)}."
