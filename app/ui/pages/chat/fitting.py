"""Which turns a model is given of a chat that is longer than its context. Pure.

What is left out stays in the chat, marked, and can be given again. Nothing is left out unasked.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.storage.rows import StoredMessage

ROOM = 0.75
"""The share of the context that is filled at most once turns were left out: the reply takes the rest, and
not every message after it has to leave out another turn."""


def turns(messages: Sequence[StoredMessage]) -> list[list[StoredMessage]]:
    """Return the messages a model gets, as questions with their replies."""
    found: list[list[StoredMessage]] = []
    for message in messages:
        if message.left_out:
            continue
        if message.role == "user" or not found:
            found.append([])
        found[-1].append(message)
    return found


def oldest(given: Sequence[Sequence[StoredMessage]], new: int, tokens: int, context: int) -> int:
    """Return how many of the oldest turns to leave out, at least one of those ``given``.

    ``new``: characters sent beside them. ``tokens``: the length of everything, by which the rest is
    estimated.
    """
    lengths = [sum(len(message.turn.content) for message in turn) for turn in given]
    total = sum(lengths) + new
    share = ROOM * context / max(tokens, 1)
    rest, count = total, 0
    while count < len(lengths) and (count == 0 or rest > share * total):
        rest -= lengths[count]
        count += 1
    return count
