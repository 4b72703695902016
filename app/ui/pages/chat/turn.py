"""What somebody asks of a chat, as a request: what stays, what is new, and what is left out for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.storage.history import TextFile, history, with_files
from app.storage.rows import StoredMessage
from app.ui.controls.settings import Settings
from app.ui.pages.chat import fitting
from app.ui.pages.chat.files import files_of
from app.ui.rounds.view import View
from app.ui.words import Words
from engine.api import Engine, Generation
from engine.errors import ContextExceeded, InvalidRequest
from engine.reply import ReplyState
from engine.request import Request
from engine.values.messages import Message


@dataclass(frozen=True, slots=True)
class Turn:
    """What is new: a user's message, None where a reply is written anew or on. ``instead`` is the reply
    that the new one stands beside, which it may resemble; ``begun`` the one that is written on."""

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
        given = fitting.turns(kept[: len(kept) - len(last)])
        left_out: list[int] = []
        while True:
            messages = [*(each for some in given for each in some), *last]
            turns = [*(each.turn for each in messages), *asked]
            request = settings.request(history(turns, settings.system))
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
                count = fitting.oldest(given, new + len(settings.system), tokens, context)
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
