"""The one Gradio component of every page; its script draws it and calls its backends' endpoints."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from app.inventory.browse import from_this_machine
from app.ui.endpoints import endpoints_of, read_fields, refusal, refusal_elsewhere
from engine.errors import InvalidRequest

_START = """
const start = () => window.Foretoken?.%s
  ? window.Foretoken.%s({element, props, trigger, server, watch})
  : setTimeout(start, 10);
start();
"""


def page(name: str, *backends: object) -> None:
    """Build the page ``name`` inside the current blocks; its script may call what ``backends`` offer."""
    functions = tuple(each for backend in backends for each in endpoints_of(backend))
    with gr.Column(elem_id=f"{name}-page", elem_classes="ft-page"):
        scripted(name, functions, elem_id=f"{name}-view")


def scripted(script: str, functions: tuple[Callable[[Any], Any], ...], **arguments: Any) -> gr.HTML:
    """Return a component that ``script``, as registered by the page's JavaScript, draws.

    Its template never changes, so Gradio does not redraw what the script drew.
    """
    return gr.HTML(
        None,
        html_template=f'<div class="ft-{script}"></div>',
        js_on_load=_START % (script, script),
        apply_default_css=False,
        server_functions=[_server_function(function) for function in functions],
        **arguments,
    )


def _check_origin(function: Callable[..., Any]) -> None:
    """Raise InvalidRequest if ``function`` is for this machine's browsers and another one calls it."""
    reason = refusal_elsewhere(function)
    if reason is None:
        return
    request = LocalContext.request.get()
    client = request.client.host if request is not None and request.client else None
    if request is None or not from_this_machine(client, request.headers):
        raise InvalidRequest("folder", reason)


def _server_function(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap an endpoint in a plain function: Gradio marks its server functions, and cannot mark methods.

    The wrapper reads the fields and answers ``{"refused": reason}`` for what the endpoint raises. To the
    page an error status would look like an app that does not answer.
    """

    def call(data: Any) -> Any:
        try:
            _check_origin(function)
            return function(read_fields(data))
        except Exception as error:
            return refusal(error)

    async def call_async(data: Any) -> Any:
        try:
            return await function(read_fields(data))
        except Exception as error:
            return refusal(error)

    wrapper = call_async if inspect.iscoroutinefunction(function) else call
    wrapper.__name__ = function.__name__
    return wrapper
