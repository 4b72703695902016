"""The few building blocks of all pages: scripted components, and how the page is presented."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from collections.abc import Callable
from itertools import count
from typing import Any

import gradio as gr
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from app import paths
from app.ui.theme import Foretoken
from app.ui.words import Words
from engine.errors import ForetokenError

logger = logging.getLogger(__name__)

STATIC = "/foretoken"
"""Where the page's own scripts, styles and pictures are served."""

AT_ONCE: dict[str, Any] = {"queue": False, "api_visibility": "private"}
"""How every event reaches Python: by a plain request. Through Gradio's queue and its one stream of
answers a message was now and then never answered, in 2 of 21 browser tests of one run, in none since."""

_START = """
const start = () => window.Foretoken
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
    """A component drawn by ``Foretoken.<script>`` (assets/ui/js), which may trigger ``events``.

    Its template never changes, so what the script drew survives updates of the value.
    """
    declared = "".join(f"// triggers '{event}'\n" for event in events)
    return gr.HTML(
        None,
        html_template=template,
        js_on_load=declared + _START % script,
        apply_default_css=False,
        server_functions=[_server_function(function) for function in functions],
        **arguments,
    )


def dumps(value: Any) -> str:
    """JSON without ``<``: the text passes through an HTML component."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


_answers = count(1)


def answer(make: Callable[[], dict[str, Any]]) -> str:
    """What ``make`` returns, or ``{"refused": why}``, as the value of a scripted component.

    Each answer is numbered: a component is not told of a value that equals its last, and the page
    would wait for the second of two equal refusals for ever.
    """
    try:
        made = make()
    except ForetokenError as error:
        made = {"refused": str(error)}
    except Exception:
        logger.exception("A page's request failed")
        made = {"refused": Words.FAILED}
    return dumps({**made, "answer": next(_answers)})


def _server_function(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A plain function, which Gradio can mark as callable from the page; a method it cannot."""

    def ask(data: Any) -> Any:
        return function(data)

    async def ask_patiently(data: Any) -> Any:
        return await function(data)

    found = ask_patiently if inspect.iscoroutinefunction(function) else ask
    found.__name__ = function.__name__
    return found


def presentation() -> dict[str, Any]:
    """The keyword arguments for ``gr.mount_gradio_app``: theme, styles, scripts, static files."""
    version = _version()
    head = "\n".join(
        (
            '<meta name="color-scheme" content="light dark">',
            f'<link rel="stylesheet" href="{STATIC}/css/ui.css?{version}">',
            f'<link rel="stylesheet" href="{STATIC}/vendor/katex/katex.min.css">',
            f'<script type="module" src="{STATIC}/js/main.js?{version}"></script>',
        )
    )
    return {
        "theme": Foretoken(),
        "head": head,
        "favicon_path": str(paths.assets() / "ui" / "img" / "favicon.png"),
        "footer_links": [],
        "run_history": False,
        "show_error": False,
        "app_kwargs": {"routes": [Mount(STATIC, _Fresh(directory=paths.assets() / "ui"))]},
    }


class _Fresh(StaticFiles):
    """Files that the browser asks about each time, so that an update is seen at once."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


def _version() -> str:
    """Changes when a script or style does."""
    digest = hashlib.sha256()
    for folder in ("js", "css"):
        for path in sorted((paths.assets() / "ui" / folder).iterdir()):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:10]
