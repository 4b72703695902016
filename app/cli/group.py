"""Groups of commands, whose help is not cut off and whose errors name options as people type them."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperGroup

from engine.errors import InvalidRequest


class Group(TyperGroup):
    """A group of commands."""

    def format_commands(self, *context_and_formatter: Any) -> None:
        """List the commands, each with the first paragraph of its help, which Typer would cut off."""
        for command in self.commands.values():
            command.short_help = " ".join((command.help or "").split("\n\n")[0].split())
        super().format_commands(*context_and_formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. In an InvalidRequest, write fields as the command's options, and name the one
        that it is about."""
        try:
            return super().invoke(ctx)
        except InvalidRequest as error:
            command = self.commands.get(ctx.invoked_subcommand, self)  # None: the group is one
            named = [(p.name, p.opts[0]) for p in command.params if p.opts[0].startswith("--")]
            options = {option[2:].replace("-", "_"): option for _, option in named} | dict(named)
            error.args = (_with_options(str(error), error.field, options),)
            raise


def group(**settings: Any) -> typer.Typer:
    """Return a group without commands; ``settings`` are Typer's."""
    return typer.Typer(cls=Group, rich_markup_mode=None, **settings)


def _with_options(message: str, field: str, options: dict[str, str]) -> str:
    """Return ``message`` with the option of the ``field`` in place of that, or else before it, and with
    options in place of names with an underscore, which are no words of a sentence."""
    # --depths has each depth, --option one of the options.
    near = "depths" if field == "depth" else field.removesuffix("s")
    own = options.get(field) or options.get(near, "")
    if own:
        message = re.sub(rf"^{field}(?![\w/.])", own, message)
    for name, option in options.items():
        if "_" in name:
            message = re.sub(rf"(?<![\w/.-]){name}(?![\w/]|[.-]\w)", option, message)
    named = re.search(rf"{own}(?![\w-])", message)  # --base-pair is not --base
    return message if named else f"{own}: {message}"
