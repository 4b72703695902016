"""axe finds nothing serious on any page, by day and by night, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.app.ui.chatting import ask, go, open_pair, show_by

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]

SERIOUS = ("serious", "critical")
SIZES = {"desk": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
"""What a theme can change; the rest is looked at by day."""


def empty_chat(page: Any) -> None:
    page.wait_for_selector(".empty .examples")


def conversation(page: Any) -> None:
    ask(page, "markdown, please")
    ask(page, "And a second question?")
    if page.locator(".drawer").is_visible():
        page.click("[data-action=words]")
        page.locator(
            ".lanes .chip.unseen"
        ).first.wait_for()  # what was not judged had a contrast of 3.6


def pair(page: Any) -> None:
    """Over the conversation, which has been looked at."""
    open_pair(page)


def race(page: Any) -> None:
    leave_to(page, "race")
    page.fill(".race-form textarea", "What is it?")
    page.click(".race-form [data-act=start]")
    page.wait_for_selector(".race-words[data-identical]")


def models(page: Any) -> None:
    leave_to(page, "models")
    page.locator("tr.model-row button").first.wait_for()
    page.get_by_role("button", name="Details of").first.click()
    page.wait_for_selector("tr.under .card")


def plan(page: Any) -> None:
    leave_to(page, "plan")
    page.get_by_role("button", name="Make plan").click()
    page.wait_for_selector("#plan-page .plan-result .ft-panel")


def settings(page: Any) -> None:
    leave_to(page, "settings")
    page.wait_for_selector("[data-place=data] code")
    page.click("[data-act=show-diagnostics]")
    page.wait_for_selector(".report:has-text('Machine')")


def page_of(name: str, seen: str) -> Callable[[Any], None]:
    def visit(page: Any) -> None:
        leave_to(page, name)
        page.wait_for_selector(seen)

    return visit


STATES: dict[str, Callable[[Any], None]] = {
    "empty chat": empty_chat,
    "conversation": conversation,
    "pair": pair,
    "race": race,
    "tune": page_of("tune", "#tune-page [data-act=start]"),
    "models": models,
    "train": page_of("train", "#train-page [data-act=start]"),
    "server": page_of("server", "#server-page [role=switch]"),
    "plan": plan,
    "settings": settings,
}


def leave_to(page: Any, name: str) -> None:
    page.keyboard.press("Escape")
    go(page, name)


def found(page: Any, place: str, **options: Any) -> list[str]:
    """What axe finds serious in ``place``, each with where it stands."""
    # Styles are not fetched once more: that is for those of other machines.
    asked = {"resultTypes": ["violations"], "preload": False, **options}
    violations = page.evaluate(
        "async ([place, asked]) => (await axe.run(place, asked)).violations", [place, asked]
    )
    return [
        f"{each['id']}: {node['target']} {node['html'][:120]} {node['failureSummary']}"
        for each in violations
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("size", ["desk", pytest.param("phone", marks=pytest.mark.exhaustive)])
def test_axe_finds_nothing_serious(app: Any, fresh_page: Any, size: str) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.base", reason="axe is not installed: `.[test]` has it"
    )
    page = fresh_page
    app.engine.seconds_a_round = 0.001
    page.evaluate(axe.AXE_SCRIPT)
    page.emulate_media(reduced_motion="reduce")  # no colour is caught half way to another
    wrong: dict[str, list[str]] = {}
    for state, visit in STATES.items():
        page.set_viewport_size(SIZES["desk"])
        visit(page)
        page.set_viewport_size(SIZES[size])
        shown = page.evaluate("document.documentElement.dataset.page")
        place = "#pair-popover" if state == "pair" else f"#brand, #lab, #{shown}-page"
        for theme, options in (("light", {}), ("dark", CONTRAST)):
            show_by(page, theme)
            if seen := found(page, place, **options):
                wrong[f"{state}, {theme}"] = seen
        show_by(page, "light")
    assert not wrong, "\n".join(
        f"{where}:\n  " + "\n  ".join(each) for where, each in wrong.items()
    )
