"""Make the icons of window, dock and installed page from ``assets/icons/foretoken.svg``: ``python -m
tools.icons``. Chromium draws them, and Pillow writes the formats of Windows and macOS."""

from __future__ import annotations

import io

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from app import paths
from app.desktop.shortcut import SIZES
from tools.running import ARGUMENTS, chromium

WINDOWS = (16, 24, 32, 48, 64, 128, 256)
LARGEST = 1024
"""Pixels from which Pillow makes all sizes of an .icns file."""
GROUND, FULL = 'x="24" y="24" width="464" height="464" rx="104"', 'width="512" height="512"'
BARS, SMALLER = '<g id="bars">', '<g id="bars" transform="translate(64 64) scale(.75)">'
"""A phone cuts the icon of an installed page into its own shape: it needs a ground without corners, and
shows the middle four fifths for certain."""


def main() -> None:
    folder = paths.assets() / "icons"
    svg = (folder / "foretoken.svg").read_text(encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        drawn = {size: draw(browser, svg, size) for size in sorted({*SIZES, *WINDOWS, LARGEST})}
        whole = svg.replace(GROUND, FULL).replace(BARS, SMALLER)
        draw(browser, whole, 512).save(folder / "maskable.png", optimize=True)
    for size in SIZES:
        drawn[size].save(folder / f"foretoken-{size}.png", optimize=True)
    drawn[256].save(
        folder / "foretoken.ico",
        sizes=[(size, size) for size in WINDOWS],
        append_images=[drawn[size] for size in WINDOWS],
    )
    drawn[LARGEST].save(folder / "foretoken.icns")


def draw(browser: Browser, svg: str, size: int) -> Image.Image:
    """Return the drawing, ``size`` pixels wide and high, on a transparent ground."""
    page = browser.new_page(viewport={"width": size, "height": size})
    image = svg.replace('width="512" height="512">', f'width="{size}" height="{size}">', 1)
    page.set_content(f"<style>body {{ margin: 0 }} svg {{ display: block }}</style>{image}")
    return Image.open(io.BytesIO(page.screenshot(omit_background=True)))


if __name__ == "__main__":
    main()
