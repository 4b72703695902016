"""Each line of the threat model names tests, and they exist."""

from __future__ import annotations

import re

from tests.support.places import ROOT

PAGE = ROOT / "docs" / "threat-model.md"


def test_every_line_names_tests_that_exist() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert len(lines) > 15
    for line in lines[2:]:
        last = line.rstrip("| ").rpartition("|")[2]
        groups = re.findall(r"((?:`test_\w+`(?:, )?)+) in `(tests/[\w/.]+)`", last)
        assert groups, line
        for names, path in groups:
            defined = (ROOT / path).read_text(encoding="utf-8")
            for name in re.findall(r"`(\w+)`", names):
                assert re.search(rf"def {name}\(", defined), f"{path} has no {name}"
