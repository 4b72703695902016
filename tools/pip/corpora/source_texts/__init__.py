"""Texts for the rewriting tasks, put together from sentence templates and the word banks."""

from .forms import Form, form
from .lists import item_list, items, rows
from .prose import closing, greeting, letter, prose
from .sentences import BANKS, amount, fill
from .settings import CONFIG_KEYS, Config, config, config_value, read_config
from .source import Cast, Source

__all__ = [
    "BANKS",
    "CONFIG_KEYS",
    "Cast",
    "Config",
    "Form",
    "Source",
    "amount",
    "closing",
    "config",
    "config_value",
    "fill",
    "form",
    "greeting",
    "item_list",
    "items",
    "letter",
    "prose",
    "read_config",
    "rows",
]
