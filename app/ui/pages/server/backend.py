"""The server page's backend. Plain values: no Gradio, no HTML.

Mistakes of users raise ``ForetokenError``, whose text the page shows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.runtime import Runtime
from app.ui.endpoints import View, chosen, endpoint, shorten
from app.web.listen import is_loopback
from app.web.request_log import ENDED, LoggedRequest
from app.web.switch import ApiSwitch
from engine.values.method_titles import method_title


class ServerBackend:
    """The API of one running app."""

    def __init__(self, runtime: Runtime, switch: ApiSwitch) -> None:
        self.runtime, self.switch = runtime, switch

    @endpoint
    def api_state(self, data: View | None = None) -> View:
        """Return the state of the API. ``key``: None if requests need none; ``key_given``: it was given
        at the start and cannot be changed. ``origins``: [origin, whether it was given at the start],
        ..."""
        loaded, switch = self.runtime.engine.loaded, self.switch
        return {
            "on": switch.on,
            "key": switch.api_key,
            "key_given": switch.given_key is not None,
            "needs_key": switch.needs_key,
            "origins": [[each, each in switch.given_origins] for each in switch.origins],
            "model": loaded.id if loaded else None,
        }

    @endpoint
    def change_api(self, data: View) -> View:
        """Change the API by ``act``; ``text`` is a key or an origin. Return its state. Raises
        ForetokenError."""
        switch, text = self.switch, str(data.get("text") or "")
        acts: dict[str, Callable[[], object]] = {
            "turn_on": partial(switch.set, True),
            "turn_off": partial(switch.set, False),
            "set_key": partial(switch.set_key, text),
            "make_key": switch.make_key,
            "remove_key": switch.remove_key,
            "allow_origin": partial(switch.allow_origin, text),
            "forbid_origin": partial(switch.forbid_origin, text),
        }
        chosen(acts, data)()
        return self.api_state()

    # ---- requests

    @endpoint
    async def follow(self, data: View) -> View:
        """Return the requests that changed since version ``from``, once there are some."""
        seen, log = int(data["from"]), self.runtime.requests
        found = await log.watchers.until(
            lambda: log.since(seen), lambda changes: changes.version != seen
        )
        requests = [show_request(each) for each in found.requests]
        return {"version": found.version, "numbers": found.numbers, "requests": requests}

    @endpoint
    def cancel_request(self, data: View) -> bool:
        """Cancel a request. Return False if it is no longer known."""
        return self.runtime.requests.cancel(int(data["number"]))


def show_request(asked: LoggedRequest) -> View:
    """Return one request as the page reads it; times in seconds."""
    statistics = asked.statistics
    here = is_loopback(asked.address)
    return {
        "number": asked.number,
        "at": asked.at,
        "seconds": shorten(asked.seconds),
        "address": "this machine" if here else asked.address,
        "agent": asked.agent,
        "path": asked.path,
        "model": asked.model,
        "method": method_title(asked.method),
        "stage": str(asked.stage),
        "ended": asked.stage in ENDED,
        "message": asked.message,
        "prompt_tokens": statistics.prompt_tokens,
        "completion_tokens": statistics.completion_tokens,
        "tokens_per_s": shorten(statistics.tokens_per_s),
        "acceptance_rate": shorten(statistics.acceptance_rate),
    }
