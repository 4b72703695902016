"""The protocol of controllers, which decide how far to draft."""

from __future__ import annotations

from typing import Protocol

from engine.events import Budget, Round


class Controller(Protocol):
    """Decides the depth of one request's next draft.

    It sees finished rounds only. Under ``rejection`` a depth that depends on the coming draft would bias
    the output. It may use the tree's size, the accepted path and times. It must not depend on tokens or q
    after the first rejection: their noise is reused, and the output would be biased.
    """

    def budget(self) -> Budget:
        """Return how far the next round may draft."""

    def observe(self, round: Round) -> None:
        """Learn from a finished round."""

    def skip_round(self) -> None:
        """Note a round that another controller decided; called instead of ``observe``."""
