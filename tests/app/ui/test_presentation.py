"""What the head of the page names is served, and nothing that stands beside it."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.ui import presentation
from app.ui.addresses import PAGES
from tests.support.places import ROOT


def test_every_page_brings_its_script_and_style_and_its_python_stays_here() -> None:
    presented = presentation()
    client = TestClient(Starlette(routes=presented["app_kwargs"]["routes"]))
    named = re.findall(r'(?:href|src)="(/[^"]+)"', presented["head"])
    served = {address.partition("?")[0] for address in named}
    for page in PAGES:
        assert {f"/foretoken/app/ui/pages/{page}/{page}.{kind}" for kind in ("js", "css")} <= served
    for address in named:
        found = client.get(address)
        assert found.status_code == 200, address
        assert found.headers["cache-control"] == "no-cache"
    for hidden in (
        "pages/chat/backend.py",
        "pages/chat/__init__.py",
        "pages/chat/",
        "../runtime.py",
    ):
        assert client.get(f"/foretoken/app/ui/{hidden}").status_code == 404


def test_what_scripts_and_styles_import_is_there() -> None:
    """Relative paths hold in the repository as they do in the browser."""
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for suffix in ("js", "css")
        for path in sorted((ROOT / "app" / "ui").rglob(f"*.{suffix}"))
        for name in re.findall(r'(?:^import .*from|url\()\s*"([^"]+)"', path.read_text(), re.M)
        if not (path.parent / name).is_file()
    ]
    assert not missing


def test_no_page_takes_its_scripts_from_another() -> None:
    """What two pages use belongs to all: the settings once lay in the chat's folder."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "app" / "ui").rglob("*.js"))
        for name in re.findall(r'^import .*from\s*"([^"]+)"', path.read_text(), re.M)
        if page_of((path.parent / name).resolve()) not in (None, page_of(path))
    ]
    assert not wrong


def page_of(path: Path) -> str | None:
    """Return the page whose folder ``path`` is in; None for what all pages share."""
    parts = path.parts
    return parts[parts.index("pages") + 1] if "pages" in parts else None
