"""Rounds that a target runs on its device: prepare them before the first request."""

from __future__ import annotations

from engine.decoding.context import PREFILL_CHUNK, Context
from engine.decoding.device import drafting_within
from engine.decoding.proposer import DeviceDrafting, RoundDraft
from engine.decoding.target import Target
from engine.local.slots import Slot, Slots
from engine.request import Speculation


def device_drafting(slot: Slot, name: str) -> DeviceDrafting | None:
    """Return how the proposer ``name`` drafts within rounds; None if it drafts on the host."""
    return drafting_within(slot.proposer(Speculation(proposer=name)), None)


def prepare_rounds(slots: Slots, name: str) -> str:
    """Compile and capture the rounds of all slots, in which ``name`` drafts if it can.

    Return why some could not be captured, on a device that captures; else "".
    """
    why = ""
    for slot in slots.all():
        inside = device_drafting(slot, name)
        draft = None if inside is None else inside.draft
        runner = slot.target.round_runner(None if draft is None else draft.drafter)
        why = runner.prepare() or why
        if slot is slots.first and slot.target.model.info.device.startswith("cuda"):
            _read_a_prompt(slot.target, draft)
    return why


def _read_a_prompt(target: Target, draft: RoundDraft | None) -> None:
    """Let both read some text and forget it: else the first reply would load libraries and compile."""
    context = Context([0] * min(PREFILL_CHUNK + 1, target.context))
    target.extend(context.tokens[:-1])
    if draft is not None:
        draft.read_text(context)
        draft.set_tokens(())
    target.clear()
