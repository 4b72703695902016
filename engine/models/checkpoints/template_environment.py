"""The Jinja environment of chat templates, and the function with which a worker process renders them.

Templates are written for the environment of Hugging Face transformers (``apply_chat_template``). It is
built again here because importing that one imports much of torch. Only worker processes import this
module, so Jinja is loaded before the first chat.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template, nodes, utils
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def render(values: dict[str, Any]) -> str:
    """Render ``values["template"]`` with the other values. Raises whatever the template raises.

    Call it in a worker process only: the sandbox does not keep a template from endless loops and
    allocations.
    """
    return _compiled(values.pop("template")).render(**values)


@functools.lru_cache(maxsize=8)
def _compiled(template: str) -> Template:
    return _environment().from_string(template)


def _environment() -> ImmutableSandboxedEnvironment:
    """Return the environment: blocks leave no empty lines, and loops can break."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(
        raise_exception=_raise_exception,
        strftime_now=lambda form: datetime.now().strftime(form),
        dict=_Dict(),
        namespace=_Namespace,
    )
    return environment


class _Generation(Extension):
    """``{% generation %}`` marks the assistant's text for training; here it only makes a scope."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it for instances)

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    @staticmethod
    def _pass(caller: Callable[[], str]) -> str:
        return caller()


class _Dict:
    """``dict`` as a function: the type itself would give a template more than it should reach."""

    def __call__(self, *args: Any, **named: Any) -> dict[Any, Any]:
        return dict(*args, **named)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(utils.Namespace):
    """A namespace without names that begin with an underscore, which lead to Python's internals."""

    def __init__(*args: Any, **named: Any) -> None:  # ``self`` may be the name of a value
        values = dict(*args[1:], **named)
        for name in values:
            _check_name(name)
        utils.Namespace.__init__(args[0], values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(
            f"Chat templates cannot store {name!r} in a namespace. Please rename the attribute."
        )


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Replace Jinja's own filter, which escapes for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
