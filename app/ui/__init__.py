"""The Gradio pages. ``build_ui`` makes them, ``presentation`` says how they are mounted."""

import app.web.gradio_stubs  # noqa: F401  # before the pages import Gradio
from app.ui.addresses import Addresses
from app.ui.build import build_ui
from app.ui.presentation import head, presentation, style

__all__ = ["Addresses", "build_ui", "head", "presentation", "style"]
