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
        """Run the command. In an InvalidRequest, write fields as the command's options."""
        try:
            return super().invoke(ctx)
        except InvalidRequest as error:
            command = self.commands.get(ctx.invoked_subcommand, self)  # None: the group is one
            options = {p.name: p.opts[0] for p in command.params if p.opts[0].startswith("--")}
            error.args = (_with_options(str(error), error.field, options),)
            raise


def group(**settings: Any) -> typer.Typer:
    """Return a group without commands; ``settings`` are Typer's."""
    return typer.Typer(cls=Group, rich_markup_mode=None, **settings)


def _with_options(message: str, field: str, options: dict[str, str]) -> str:
    """Return ``message`` with the option in place of the ``field`` that it begins with, and of any name
    with an underscore, which is no word of a sentence. --depths is the option of a depth."""
    for name, option in options.items():
        if name.rstrip("s") == field.rstrip("s"):
            message = re.sub(rf"^{field}(?![\w/.])", option, message)
        if "_" in name:
            message = re.sub(rf"(?<![\w/.-]){name}(?![\w/]|[.-]\w)", option, message)
    return message
