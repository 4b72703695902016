"""The environment that chat templates run in, and the function that a worker process runs them by.

The environment is that of Hugging Face transformers (``apply_chat_template``), since that is what
templates are written for. It is made here because importing transformers' own brings a good part of
torch. Only worker processes import this module: Jinja is then in memory before the first chat comes.
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
    """Return the text that ``values["template"]`` makes of the rest. Raises whatever the template raises.

    Call it in a worker process only: the sandbox keeps a template from the interpreter, but not from
    looping or allocating without end.
    """
    return _compiled(values.pop("template")).render(**values)


@functools.lru_cache(maxsize=8)
def _compiled(template: str) -> Template:
    return _environment().from_string(template)


def _environment() -> ImmutableSandboxedEnvironment:
    """Return Jinja as templates expect it: its blocks take no lines, loops can break."""
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
    """``{% generation %}`` marks what the assistant said, for training; here it is only passed through,
    in a scope of its own."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it for instances)

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    @staticmethod
    def _pass(caller: Callable[[], str]) -> str:
        return caller()


class _Dict:
    """``dict`` as a function: the type itself has more than a template should reach."""

    def __call__(self, *args: Any, **named: Any) -> dict[Any, Any]:
        return dict(*args, **named)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(utils.Namespace):
    """Without names that begin with an underscore: they lead into Python's inner life."""

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
    """Jinja's own filter escapes what is special in HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
