"""The one Gradio component of each page, which holds its backends' endpoints; a script draws the page."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import gradio as gr
from anyio import CapacityLimiter, to_thread
from gradio.context import LocalContext

from app.inventory.model_folders import from_this_machine
from app.ui import words
from app.ui.endpoints import endpoints_of, is_waiting, read_fields, refusal, refusal_elsewhere
from engine.errors import InvalidRequest, TooBusy

_AT_ONCE, _MOST_WAITING = 4, 16
"""Calls of an endpoint marked ``waits`` that run at once, and that wait for their turn."""


def page(name: str, *backends: object) -> gr.HTML:
    """Return a component that shows nothing and through which Gradio serves the endpoints that the page
    ``name`` may call."""
    functions = [_server_function(each) for own in backends for each in endpoints_of(own)]
    return gr.HTML(server_functions=functions, elem_id=f"{name}-view")


def _check_origin(function: Callable[..., Any]) -> None:
    """Raise InvalidRequest if ``function`` is for this machine's browsers and another one calls it."""
    reason = refusal_elsewhere(function)
    if reason is None:
        return
    request = LocalContext.request.get()
    client = request.client.host if request is not None and request.client else None
    if request is None or not from_this_machine(client, request.headers):
        raise InvalidRequest("folder", reason)


def _aside(function: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    """Return a coroutine function that calls ``function`` on a few threads of its own. It raises TooBusy
    if too many calls wait."""
    own, calls = CapacityLimiter(_AT_ONCE), 0

    async def call(fields: Any) -> Any:
        nonlocal calls
        if calls >= _AT_ONCE + _MOST_WAITING:
            raise TooBusy(words.TOO_MANY_WAIT)
        calls += 1
        try:
            return await to_thread.run_sync(function, fields, limiter=own)
        finally:
            calls -= 1

    return call


def _server_function(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap an endpoint in a plain function: Gradio marks its server functions, and cannot mark methods.

    The wrapper reads the fields and answers ``{"refused": reason}`` for what the endpoint raises. To the
    page an error status would look like an app that does not answer. Endpoints marked ``waits`` get
    threads of their own: all others share 40, and slow servers would take them all.
    """
    work = _aside(function) if is_waiting(function) else function

    def call(data: Any) -> Any:
        try:
            _check_origin(function)
            return function(read_fields(data))
        except Exception as error:
            return refusal(error)

    async def call_async(data: Any) -> Any:
        try:
            _check_origin(function)
            return await work(read_fields(data))
        except Exception as error:
            return refusal(error)

    wrapper = call_async if inspect.iscoroutinefunction(work) else call
    wrapper.__name__ = function.__name__
    return wrapper
