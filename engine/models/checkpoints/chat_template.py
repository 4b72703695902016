"""Chat templates: Jinja programs that come with a model and make a chat into its text.

The environment is that of Hugging Face transformers (``apply_chat_template``), since that is what
templates are written for. It is made here because the way there imports a good part of torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NoReturn

Turns = list[dict[str, Any]]
"""Messages as chat templates take them: role and content, and where there are any, calls of tools."""
Tools = list[dict[str, Any]] | None
"""Definitions of tools as templates take them; None: there are none."""
Render = Callable[[Turns, Tools], str]


def renderer(template: str, tokens: Mapping[str, str]) -> Render:
    """What renders a chat by ``template``, open for the assistant's reply.

    ``tokens`` are the special ones that a template may name: "bos_token" and the like. The template is
    compiled by the first chat. It is a program of somebody else's, so it runs in a sandbox, is given
    plain values only, and raises whatever it likes.
    """
    compiled: list[Any] = []

    def render(turns: Turns, tools: Tools = None) -> str:
        if not compiled:
            compiled.append(_environment().from_string(template))
        made: str = compiled[0].render(
            messages=[dict(turn) for turn in turns],
            tools=tools,
            documents=None,
            add_generation_prompt=True,
            **tokens,
        )
        return made

    return render


def _environment() -> Any:
    """Jinja as templates expect it: its blocks take no lines, loops can break."""
    from jinja2 import nodes, utils  # not needed by a model without a template
    from jinja2.exceptions import SecurityError, TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}`` marks what the assistant said, for training; here it is only passed
        through, in a scope of its own."""

        tags = {"generation"}  # noqa: RUF012 (jinja2 declares it for instances)

        def parse(self, parser: Any) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

        @staticmethod
        def _pass(caller: Callable[[], str]) -> str:
            return caller()

    class Dict:
        """``dict`` as a function: the type itself has more than a template should reach."""

        def __call__(self, *args: Any, **named: Any) -> dict[Any, Any]:
            return dict(*args, **named)

        def fromkeys(self, *args: Any) -> dict[Any, Any]:
            return dict.fromkeys(*args)

    class Namespace(utils.Namespace):
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

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(
        raise_exception=raise_exception,
        strftime_now=lambda form: datetime.now().strftime(form),
        dict=Dict(),
        namespace=Namespace,
    )
    return environment


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
