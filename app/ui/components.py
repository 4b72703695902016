"""The few building blocks of all pages: components drawn by a script, and what Python answers them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from app.inventory.browse import from_this_machine
from app.ui.asked import asked
from app.ui.words import Words
from engine.errors import ForetokenError, InvalidRequest

logger = logging.getLogger(__name__)

AT_ONCE: dict[str, Any] = {"queue": False, "api_visibility": "private"}
"""How every event reaches Python: by a plain request. Through Gradio's queue and its one stream of
answers a message was now and then never answered, in 2 of 21 browser tests of one run, in none since."""

_START = """
const start = () => window.Foretoken?.%s
  ? window.Foretoken.%s({element, props, trigger, server, watch})
  : setTimeout(start, 10);
start();
"""


def scripted(
    script: str,
    template: str,
    *,
    events: tuple[str, ...] = (),
    functions: tuple[Callable[[Any], Any], ...] = (),
    **arguments: Any,
) -> gr.HTML:
    """A component drawn by what a page's script registered as ``script``, which may trigger ``events``.

    Its template never changes, so what the script drew survives updates of the value.
    """
    declared = "".join(f"// triggers '{event}'\n" for event in events)
    return gr.HTML(
        None,
        html_template=template,
        js_on_load=declared + _START % (script, script),
        apply_default_css=False,
        server_functions=[_server_function(function) for function in functions],
        **arguments,
    )


def only_here(function: Callable[[Any], Any], why: str) -> Callable[[Any], Any]:
    """``function`` for who sits at this machine alone: folders are shown to nobody else. Others are told
    ``why``."""

    @wraps(function)
    def ask(data: Any) -> Any:
        request = LocalContext.request.get()
        client = request.client.host if request is not None and request.client else None
        if request is None or not from_this_machine(client, request.headers):
            raise InvalidRequest("folder", why)
        return function(data)

    return ask


def refusal(error: Exception) -> dict[str, Any]:
    """``{"refused": why}``; what nobody expected is for the terminal."""
    if isinstance(error, ForetokenError):
        return {"refused": str(error)}
    logger.error("A page's request failed", exc_info=error)
    return {"refused": Words.FAILED}


def _server_function(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A plain function, which Gradio can mark as callable from the page; a method it cannot.

    It is given what ``asked`` makes of the page's data, and answers ``{"refused": why}`` for what
    ``function`` raises: the page could not tell it from an app that is away.
    """

    def ask(data: Any) -> Any:
        try:
            return function(asked(data))
        except Exception as error:
            return refusal(error)

    async def ask_patiently(data: Any) -> Any:
        try:
            return await function(asked(data))
        except Exception as error:
            return refusal(error)

    found = ask_patiently if inspect.iscoroutinefunction(function) else ask
    found.__name__ = function.__name__
    return found
