"""A turn of a chat as a request: which messages stay, which are new, and which are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.documents.fitting import ROOM
from app.storage.attachments import Attachment, with_files
from app.storage.pictures import NOT_SEEN
from app.storage.rows import StoredMessage, history
from app.ui import words
from app.ui.controls.settings import Settings
from app.ui.endpoints import View
from engine.api import Engine, Generation
from engine.errors import ContextExceeded, InvalidRequest
from engine.events import Emitted, Event, Prefilled, Started, Token
from engine.reply import ReplyState
from engine.request import Request
from engine.values.messages import Image, Message
from engine.values.tools import Tool


@dataclass(frozen=True, slots=True)
class Turn:
    """The new part of a chat: a user's message, None if a reply is rewritten or continued. ``instead`` is
    the reply that is rewritten, which the new one may resemble; ``begun`` the one that is continued."""

    text: str | None
    files: tuple[Attachment, ...] = ()
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
        tools: Sequence[Tool] = (),
    ) -> tuple[Generation, list[int]]:
        """Generate the reply to the kept messages and this turn. Return it with the ids of the messages
        left out: if ``oldest``, as many as it takes to fit ``context``. Raises ContextExceeded."""
        asked = []
        if self.text is not None:
            images = tuple(Image(each.data) for each in self.files if each.data)
            asked.append(Message("user", with_files(self.text, self.files), images=images))
        # What is being answered is never left out.
        last = last_turn(kept) if self.text is None else ()
        given = turns(kept[: len(kept) - len(last)])
        left_out: list[int] = []
        while True:
            messages = [*(each for some in given for each in some), *last]
            earlier = [each for message in messages for each in message.turn]
            if engine.loaded is None or not engine.loaded.capabilities.images:
                earlier = [_without_images(each) for each in earlier]
            given_turns = [*earlier, *asked]
            request = settings.request(history(given_turns, settings.system))
            request = replace(request, tools=tuple(tools))
            if self.begun is not None:
                request = self._going_on(request, self.begun)
            if self.instead and request.speculation.deepest:
                request = replace(request, predicted=self.instead)
            try:
                return engine.generate(request), left_out
            except ContextExceeded as error:
                if not oldest or not given:
                    raise
                new = _length(asked) + sum(_length(each.turn) for each in last)
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
    data: View, messages: tuple[StoredMessage, ...], files: tuple[Attachment, ...] = ()
) -> tuple[tuple[StoredMessage, ...], Turn]:
    """Return the messages that stay shown, and the new turn after them, with ``files`` if it has a text.
    A ``retry`` of a last question, which has no reply, answers it.

    Raises InvalidRequest if the message was replaced meanwhile, perhaps from another page.
    """
    action = data["action"]
    if action == "send":
        return messages, _new(data, files)
    edited, wanted = action == "edit", int(data["message"])
    if action == "continue" and [each.id for each in messages[-1:]] != [wanted]:
        raise InvalidRequest("messages", words.GONE)
    unanswered = action == "retry" and [(m.id, m.role) for m in messages[-1:]] == [(wanted, "user")]
    if unanswered or (action == "continue" and messages and messages[-1].calls is not None):
        return messages, Turn(None)
    role = "user" if edited else "assistant"
    here = (index for index, m in enumerate(messages) if (m.id, m.role) == (wanted, role))
    place = next(here, None)
    before = messages[:place]
    if place is None or not (edited or before):
        raise InvalidRequest("messages", words.GONE)
    if action == "continue":
        return before, Turn(None)
    reply = messages[place + 1 : place + 2] if edited else messages[place : place + 1]
    instead = "".join(each.text for each in reply)
    return before, replace(_new(data, files) if edited else Turn(None), instead=instead)


def _without_images(message: Message) -> Message:
    """Return a message for a model that sees none: its pictures may be of an earlier one."""
    if not message.images:
        return message
    return replace(message, content=f"{NOT_SEEN}\n\n{message.content}".rstrip(), images=())


def _new(data: View, files: tuple[Attachment, ...]) -> Turn:
    text = str(data.get("text") or "")
    if not text.strip() and not files:
        raise InvalidRequest("messages", words.EMPTY)
    return Turn(text, files)


def last_turn(messages: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
    """Return the last question with the replies after it, which called tools."""
    asked = (at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user")
    return messages[next(asked, 0) :]


def _length(messages: Iterable[Message]) -> int:
    """Return the characters of messages, with the arguments of their calls."""
    return sum(
        len(each.content) + sum(len(call.arguments) for call in each.tool_calls)
        for each in messages
    )


def edited_events(message: StoredMessage, model: str, tokens: tuple[int, ...]) -> tuple[Event, ...]:
    """Return events of which an edited reply might have come, to be continued. It has no rounds, and only
    its first token has a text."""
    thought = (message.statistics or {}).get("thought")
    thinking = isinstance(thought, dict) and bool(thought.get("opened"))
    end, empty = len(message.text), ("",) * (len(tokens) - 1)
    placed = zip(tokens, (message.text, *empty), (0, *[end] * len(empty)), strict=True)
    return (
        Started(model, "", "", None, None, thinking),
        Prefilled(0, 0, 0.0),
        Emitted(text=message.text, tokens=tuple(Token(*each) for each in placed)),
    )


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
    lengths = [sum(_length(message.turn) for message in turn) for turn in given]
    total = sum(lengths) + new
    share = ROOM * context / max(tokens, 1)
    rest, count = total, 0
    while count < len(lengths) and (count == 0 or rest > share * total):
        rest -= lengths[count]
        count += 1
    return count
