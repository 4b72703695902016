"""A turn of a chat as a request: which messages stay, which are new, and which are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.storage.history import TextFile, history, with_files
from app.storage.rows import StoredMessage
from app.ui.controls.settings import Settings
from app.ui.rounds.view import View
from app.ui.words import Words
from engine.api import Engine, Generation
from engine.errors import ContextExceeded, InvalidRequest
from engine.reply import ReplyState
from engine.request import Request
from engine.values.messages import Message

LARGEST = 512 * 1024
"""Characters of all files of a message together."""
MOST = 20
"""Files of one message."""
ROOM = 0.75
"""The share of the context that is filled at most once turns were left out: the reply takes the rest, and
not every message after it has to leave out another turn."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The new part of a chat: a user's message, None if a reply is rewritten or continued. ``instead`` is
    the reply that is rewritten, which the new one may resemble; ``begun`` the one that is continued."""

    text: str | None
    files: tuple[TextFile, ...] = ()
    instead: str = ""
    begun: ReplyState | None = None

    def generate(
        self,
        engine: Engine,
        context: int,
        settings: Settings,
        kept: Sequence[StoredMessage],
        *,
        oldest: bool,
    ) -> tuple[Generation, list[int]]:
        """Generate the reply to the kept messages and this turn. Return it with the ids of the messages
        left out: if ``oldest``, as many as it takes to fit ``context``. Raises ContextExceeded."""
        asked = []
        if self.text is not None:
            asked.append(Message("user", with_files(self.text, self.files)))
        last = [kept[-1]] if self.text is None else []  # the question of a retry is never left out
        given = turns(kept[: len(kept) - len(last)])
        left_out: list[int] = []
        while True:
            messages = [*(each for some in given for each in some), *last]
            given_turns = [*(each.turn for each in messages), *asked]
            request = settings.request(history(given_turns, settings.system))
            if self.begun is not None:
                request = self._going_on(request, self.begun)
            if self.instead and request.speculation.deepest:
                request = replace(request, predicted=self.instead)
            try:
                return engine.generate(request), left_out
            except ContextExceeded as error:
                if not oldest or not given:
                    raise
                new = sum(len(each.content) for each in (*asked, *(each.turn for each in last)))
                new += len(self.begun.text) if self.begun else 0
                tokens = error.over + context
                count = oldest_turns(given, new + len(settings.system), tokens, context)
                left_out += [each.id for some in given[:count] for each in some]
                given = given[count:]

    @staticmethod
    def _going_on(request: Request, begun: ReplyState) -> Request:
        """Return the request behind the tokens that are written. It has their seed, so it continues
        with the same words."""
        seed = begun.seed if request.sampling.seed is None else request.sampling.seed
        tokens = tuple(token.id for token in begun.tokens or ())
        return replace(request, reply_prefix=tokens, sampling=replace(request.sampling, seed=seed))


def turn_of(
    data: View, messages: tuple[StoredMessage, ...]
) -> tuple[tuple[StoredMessage, ...], Turn]:
    """Return the messages that stay shown, and the new turn behind them.

    Raises InvalidRequest if the message was replaced meanwhile, perhaps from another page.
    """
    action = data["action"]
    if action == "send":
        return messages, _new(data)
    edited, wanted = action == "edit", int(data["message"])
    if action == "continue" and [each.id for each in messages[-1:]] != [wanted]:
        raise InvalidRequest("messages", Words.GONE)
    role = "user" if edited else "assistant"
    here = (index for index, m in enumerate(messages) if (m.id, m.role) == (wanted, role))
    place = next(here, None)
    before = messages[:place]
    if place is None or not (edited or (before and before[-1].role == "user")):
        raise InvalidRequest("messages", Words.GONE)
    if action == "continue":
        return before, Turn(None)
    reply = messages[place + 1 : place + 2] if edited else messages[place : place + 1]
    instead = "".join(each.text for each in reply)
    return before, replace(_new(data) if edited else Turn(None), instead=instead)


def _new(data: View) -> Turn:
    text, files = str(data.get("text") or ""), files_of(data.get("files"))
    if not text.strip() and not files:
        raise InvalidRequest("messages", Words.EMPTY)
    return Turn(text, files)


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


def oldest_turns(
    given: Sequence[Sequence[StoredMessage]], new: int, tokens: int, context: int
) -> int:
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


def files_of(sent: Any) -> tuple[TextFile, ...]:
    """Return the files of a message. Raises InvalidRequest if one is no text or all are too large."""
    found = []
    for each in sent if isinstance(sent, list) else []:
        name = each.get("name") if isinstance(each, dict) else None
        text = each.get("text") if isinstance(each, dict) else None
        if not isinstance(name, str) or not isinstance(text, str) or "\0" in text:
            raise InvalidRequest("files", Words.NO_TEXT_FILE)
        found.append(TextFile(_one_line(name), text))
    if len(found) > MOST or sum(len(file.text) for file in found) > LARGEST:
        raise InvalidRequest("files", Words.files_too_large(MOST, LARGEST // 1024))
    return tuple(found)


def _one_line(name: str) -> str:
    return " ".join(name.split())[:200] or "file"
