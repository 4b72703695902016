"""The pages' theme and head, and the scripts and styles that are served with them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePosixPath
from typing import Any

from gradio.themes import Base
from gradio.themes.utils import sizes
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app import paths
from app.ui import addresses

HERE = Path(__file__).parent
SERVED = "/foretoken"
"""The address of scripts and styles. Below it paths are those of the repository, so that the scripts'
relative imports are right in an editor and without a server too."""

OWN, VENDOR = f"{SERVED}/app/ui", f"{SERVED}/assets/ui"
SUFFIXES = (".js", ".css")


_FONT = ("ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "sans-serif")
_MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")


def _theme() -> Base:
    """Return a theme for what is seen before base.css, and for the frames around the scripts' components:
    system fonts, and base.css's colours by day and by night."""
    theme = Base(
        text_size=sizes.text_sm, spacing_size=sizes.spacing_sm, font=_FONT, font_mono=_MONO
    )
    return theme.set(
        body_background_fill="#f5f3ee",
        body_background_fill_dark="#121416",
        body_text_color="#23262b",
        body_text_color_dark="#e6e4de",
        block_background_fill="transparent",
        block_background_fill_dark="transparent",
        block_border_width="0px",
        block_shadow="none",
        block_padding="0",
    )


def presentation() -> dict[str, Any]:
    """Return the keyword arguments for ``gr.mount_gradio_app``: theme, styles, scripts, static files."""
    assets = paths.assets() / "ui"
    routes = [Mount(OWN, _Own(directory=HERE)), Mount(VENDOR, _Fresh(directory=assets))]
    return {
        "theme": _theme(),
        "head": _head(),
        "favicon_path": str(assets / "img" / "favicon.png"),
        "footer_links": [],
        "run_history": False,
        "show_error": False,
        "app_kwargs": {"routes": routes},
    }


def inline_scripts() -> tuple[str, ...]:
    """Return the scripts in the head itself, which Gradio copies into the page."""
    return tuple(re.findall(r"<script>(.*?)</script>", _head(), re.DOTALL))


def _head() -> str:
    version = _version()
    styles = [HERE / "shared" / "ui.css", *_of_pages("*.css")]
    return "\n".join(
        (
            '<meta name="color-scheme" content="light dark">',
            addresses.head(),
            f'<link rel="stylesheet" href="{VENDOR}/vendor/katex/katex.min.css">',
            *(f'<link rel="stylesheet" href="{_url(path)}?{version}">' for path in styles),
            *(
                f'<script type="module" src="{_url(path)}?{version}"></script>'
                for path in _scripts()
            ),
        )
    )


class _Fresh(StaticFiles):
    """Files that the browser revalidates each time, so that an update is seen at once."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


class _Own(_Fresh):
    """Serve scripts and styles, but not the Python files in the same folders."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        if PurePosixPath(path).suffix not in SUFFIXES:
            return Response(status_code=404)
        return await super().get_response(path, scope)


def _of_pages(pattern: str) -> list[Path]:
    return sorted((HERE / "pages").glob(f"*/{pattern}"))


def _scripts() -> list[Path]:
    """Return each page's script, which has its folder's name and imports the others."""
    return [path for path in _of_pages("*.js") if path.stem == path.parent.name]


def _url(path: Path) -> str:
    return f"{OWN}/{path.relative_to(HERE).as_posix()}"


def _version() -> str:
    """Return a digest of all scripts and styles."""
    digest = hashlib.sha256()
    for suffix in SUFFIXES:
        for path in sorted(HERE.rglob(f"*{suffix}")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:10]
