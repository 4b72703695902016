"""The theme: warm paper by day, ink by night, one calm green. System fonts only."""

from __future__ import annotations

from gradio.themes import Base
from gradio.themes.utils import colors, sizes

_LEAF = colors.Color(
    name="leaf",
    c50="#eef7f4",
    c100="#dcefe9",
    c200="#badfd5",
    c300="#8dc8ba",
    c400="#5fb3a2",
    c500="#2f8f7e",
    c600="#0f6e60",
    c700="#0c5a4f",
    c800="#0b473f",
    c900="#0a3a34",
    c950="#062622",
)
_PAPER = colors.Color(
    name="paper",
    c50="#fbfaf7",
    c100="#f5f3ee",
    c200="#e7e4dc",
    c300="#d3cfc5",
    c400="#a3a099",
    c500="#6f6e6a",
    c600="#565653",
    c700="#3a3d40",
    c800="#22262a",
    c900="#181b1e",
    c950="#121416",
)
_FONT = ("ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "sans-serif")
_MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")


class Foretoken(Base):
    """Gradio's own components in the colours of ui.css."""

    def __init__(self) -> None:
        super().__init__(
            primary_hue=_LEAF,
            secondary_hue=_LEAF,
            neutral_hue=_PAPER,
            radius_size=sizes.radius_md,
            text_size=sizes.text_sm,
            spacing_size=sizes.spacing_sm,
            font=_FONT,
            font_mono=_MONO,
        )
        self.name = "foretoken"
        super().set(
            body_background_fill="*neutral_100",
            body_background_fill_dark="*neutral_950",
            body_text_color="#23262b",
            body_text_color_dark="#e6e4de",
            body_text_color_subdued="#5d6269",
            body_text_color_subdued_dark="#a3a8ad",
            background_fill_primary="*neutral_50",
            background_fill_primary_dark="*neutral_900",
            background_fill_secondary="*neutral_100",
            background_fill_secondary_dark="*neutral_950",
            border_color_primary="*neutral_200",
            border_color_primary_dark="#2b3035",
            block_background_fill="transparent",
            block_background_fill_dark="transparent",
            block_border_width="0px",
            block_shadow="none",
            block_padding="0",
            block_label_background_fill="transparent",
            block_label_background_fill_dark="transparent",
            block_title_text_weight="500",
            block_title_text_size="*text_sm",
            block_info_text_size="*text_xs",
            block_info_text_color="*body_text_color_subdued",
            input_background_fill="#ffffff",
            input_background_fill_dark="#1e2226",
            input_border_width="1px",
            input_border_color="*neutral_300",
            input_border_color_dark="#3b4248",
            input_border_color_focus="*primary_500",
            input_border_color_focus_dark="*primary_400",
            input_shadow="none",
            input_shadow_focus="none",
            button_border_width="1px",
            button_primary_background_fill="*primary_600",
            button_primary_background_fill_hover="*primary_700",
            button_primary_background_fill_dark="*primary_600",
            button_primary_background_fill_hover_dark="*primary_500",
            button_primary_border_color="*primary_600",
            button_primary_border_color_dark="*primary_600",
            button_primary_text_color="#ffffff",
            button_secondary_background_fill="transparent",
            button_secondary_background_fill_dark="transparent",
            button_secondary_background_fill_hover="*neutral_200",
            button_secondary_background_fill_hover_dark="*neutral_800",
            button_secondary_border_color="*neutral_300",
            button_secondary_border_color_dark="#3b4248",
            slider_color="*primary_600",
            slider_color_dark="*primary_400",
            checkbox_background_color_selected="*primary_600",
            checkbox_background_color_selected_dark="*primary_500",
            checkbox_border_color_selected="*primary_600",
            checkbox_border_color_selected_dark="*primary_500",
            shadow_drop="none",
            shadow_drop_lg="0 6px 24px rgb(0 0 0 / .12)",
        )
