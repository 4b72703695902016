"""docs/scale.md shows what its commands print."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.app.cli.conftest import Foretoken
from tests.support.places import ROOT

SHOWN = re.findall(
    r"^`foretoken (plan [^`]+ --loads)`.*?\n```\n(.*?)```",
    (ROOT / "docs" / "scale.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize(("command", "table"), SHOWN, ids=["8 B", "70 B", "671 B"])
def test_speeds_under_load_are_those_that_are_shown(
    command: str, table: str, foretoken: Foretoken
) -> None:
    result = foretoken(*shlex.split(command))
    assert result.status == 0, result.err
    assert table.strip() in result.out
