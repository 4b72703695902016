"""What every dialect of the API does with a body: find the model, make requests of it, queue them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from app.server.fields.schemas import GenerationBody
from app.server.models import Models
from app.server.monitoring.counter import Counter, Ticket
from app.server.requests import Drafting, named_as_in
from app.settings.defaults import Defaults
from engine.api import Loaded
from engine.request import Request

Body = TypeVar("Body", bound=GenerationBody)
Ask = Callable[[Body, Drafting], tuple[Request, ...]]


@dataclass(frozen=True, slots=True)
class Service:
    """The models of one server, how they draft where nobody says, and who waits for them."""

    models: Models
    defaults: Defaults
    counter: Counter

    async def admit(self, body: Body, ask: Ask[Body]) -> tuple[Loaded, Ticket]:
        """Queues what ``ask`` makes of ``body``, for the model that it names.

        Raises ApiError, and what the engine raises for a request it cannot serve, which then names the
        field as the client spelt it.
        """
        async with self.models.using(body.model) as loaded:
            with named_as_in(body):
                pair = Drafting(loaded, self.defaults.speculation(loaded))
                return loaded, await self.counter.admit(ask(body, pair), loaded.id)
