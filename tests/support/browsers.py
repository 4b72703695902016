"""One Chromium for each process of tests, and whose turn it is to run an event loop in its thread."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ARGUMENTS = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]
PATIENCE = 40_000
"""Milliseconds that something may take to be seen, on a slow and busy machine."""
MOST_SHOWN = 4_000
"""Characters of a page that a failed test prints."""
_turn: list[asyncio.AbstractEventLoop] = []
"""Playwright's loop, once there is one."""


def chromium() -> str | None:
    """Chromium's path, or None."""
    for name in ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    return None


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Chromium. While a test uses it Playwright's event loop runs in this thread; see tests.app.ui's
    ``awaited``."""
    path = chromium()
    if path is None:
        pytest.skip("Chromium is not installed, so nothing can look at the pages")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        _turn.append(asyncio.get_running_loop())
        yield found
        take_turn()
        found.close()


@contextmanager
def turn() -> Iterator[None]:
    """For a look at the browser between two tests."""
    before = asyncio._get_running_loop()
    take_turn()
    yield
    asyncio._set_running_loop(before)


def take_turn() -> None:
    """For what looks at the browser after the last test, which may have been one that does not."""
    asyncio._set_running_loop(_turn[-1])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Between two looks at the browser Playwright's loop stands still, and tests may run loops of their
    own: it says that it runs only to those that look."""
    loop = asyncio._get_running_loop()
    if loop is None or "browser" in getattr(item, "fixturenames", ()):
        return (yield)
    asyncio._set_running_loop(None)
    try:
        return (yield)
    finally:
        asyncio._set_running_loop(loop)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print what the pages of a failed test showed: a wait that ran out says only what was not seen."""
    report = yield
    if report.failed and call.when == "call":
        for name, page in getattr(item, "funcargs", {}).items():
            if type(page).__name__ == "Page":
                report.sections.append((f"{name} at {page.url}", shown_on(page)))
    return report


def shown_on(page: Any) -> str:
    """Return the first lines of a page's text, or why there are none."""
    try:
        return str(page.inner_text("body", timeout=5_000))[:MOST_SHOWN]
    except Exception as error:  # any: the test's own failure is what is told
        return f"Its text could not be read: {error}"
