"""Errors name the option that they are about, and no other whose name is like it."""

from __future__ import annotations

import pytest
from typer import Argument, Option

from app.cli.group import group
from engine.errors import InvalidRequest


@pytest.mark.parametrize(
    ("field", "message", "told"),
    [
        (
            "base",
            "Both sides are alike: --base-pair.",
            "--base: Both sides are alike: --base-pair.",
        ),
        ("base", "Leave --base out.", "Leave --base out."),
        ("base_pair", "base_pair is 'x'.", "--base-pair is 'x'."),
        ("prompt", "The prompt is too long.", "The prompt is too long."),
        ("prompts", "There is no set 'x'.", "--prompts: There is no set 'x'."),
        ("depth", "depth is 99.", "--depths is 99."),
        ("options", "There is no option 'x'.", "--option: There is no option 'x'."),
        ("seed", "seed is 'x'.", "seed is 'x'."),
    ],
)
def test_an_error_names_its_own_option(field: str, message: str, told: str) -> None:
    """An error of --base passed as named by --base-pair, and one of an argument PROMPT got --prompts."""
    cli = group()

    @cli.command()
    def command(
        prompt: str = Argument(""),
        base: str = Option(""),
        base_pair: str = Option(""),
        prompts: str = Option(""),
        depths: str = Option(""),
        option: str = Option(""),
    ) -> None:
        raise InvalidRequest(field, message)

    @cli.command()
    def another() -> None:
        """Make this a group, which one command is not."""

    with pytest.raises(InvalidRequest) as raised:
        cli(["command"], standalone_mode=False)
    assert str(raised.value) == told
