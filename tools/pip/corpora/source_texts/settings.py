"""Files of settings, written and read back."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from .. import words
from .source import Source, make_cast

CONFIG_KEYS: tuple[str, ...] = tuple(
    """
port host timeout retries log_level cache_size max_users theme language region backup_path data_dir window_width
window_height font_size volume brightness refresh_rate batch_size workers queue_size user_name server_name database
table_prefix session_length upload_limit image_quality frame_rate page_size time_zone currency title author version
mode color border margin padding indent tab_width auto_save dark_mode show_hints sound music difficulty lives speed
gravity seed depth threads memory_limit disk_limit proxy endpoint api_key token_length password_length email_from
email_to reply_delay max_items min_items sort_by group_by filter prefix suffix encoding line_width start_page
end_page alarm interval offset scale rotation opacity
""".split()
)
CONFIG_TEMPLATES = ("--{}={}", "{} = {}", "{}={}", "{}: {}", "set {} {}", "{} -> {}", "{} {}")


@dataclass(frozen=True)
class Config:
    """Settings, one per line: `template.format(key, value)`."""

    settings: tuple[tuple[str, str], ...]
    template: str

    def source(self, rng: random.Random) -> Source:
        """The settings as a text."""
        doc = rng.choice(("config", "config file", "settings file"))
        return Source(doc, self.lines(), make_cast(rng), by_line=True)

    def lines(self) -> tuple[str, ...]:
        """One line a setting."""
        return tuple(self.template.format(key, value) for key, value in self.settings)


def config(rng: random.Random, count: int) -> Config:
    """`count` settings in one of several notations; all keys and all values differ."""
    keys = rng.sample(CONFIG_KEYS, count)
    template = rng.choice(CONFIG_TEMPLATES)
    if rng.random() < 0.2:
        keys = [key.upper() for key in keys]
    values: dict[str, None] = {}
    while len(values) < count:
        values[config_value(rng)] = None
    return Config(tuple(zip(keys, values, strict=True)), template)


def config_value(rng: random.Random) -> str:
    """The value of a setting."""
    return rng.choice(_CONFIG_VALUES)(rng)


_CONFIG_VALUES: tuple[Callable[[random.Random], str], ...] = (
    lambda rng: str(
        rng.choice((rng.randint(0, 20), rng.randint(10, 500), rng.randint(1000, 65000)))
    ),
    lambda rng: rng.choice(("true", "false", "on", "off", "yes", "no", "auto", "none")),
    lambda rng: f"0.{rng.randint(1, 99):02}",
    lambda rng: rng.choice(words.COLOURS),
    lambda rng: f"{rng.randint(1, 90)}{rng.choice(('s', 'm', 'px', 'mb', '%', 'ms'))}",
)


def read_config(source: Source) -> Config | None:
    """The settings in the lines of a text, with the notation they are in; None if the text is no such file."""
    if not source.doc.startswith(("config", "settings")):
        return None
    for template in CONFIG_TEMPLATES:
        pattern = re.compile(re.escape(template).replace(r"\{\}", r"([^\s:=]+)"))
        found = [pattern.fullmatch(line) for line in source.units]
        if all(found):
            return Config(tuple((match[1], match[2]) for match in found if match), template)
    return None
