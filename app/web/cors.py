"""What tells browsers that pages of other origins may read the API's answers."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.switch import ApiSwitch


class Cors(CORSMiddleware):
    """Starlette's, for the origins that the switch allows now."""

    def __init__(self, app: ASGIApp, switch: ApiSwitch) -> None:
        super().__init__(
            app,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],  # OpenAI's clients send a dozen that tell what they are
            expose_headers=["Retry-After"],
        )
        self._switch = switch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._switch.origins:
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def is_allowed_origin(self, origin: str) -> bool:
        return self._switch.allows(origin)
