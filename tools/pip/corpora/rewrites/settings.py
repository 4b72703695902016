"""Edits of settings, which are read back from the lines of their text."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from .. import source_texts
from ..source_texts import Config, Source
from .edit import SAY, Edit, Editor, fresh

SettingEditor = Callable[[random.Random, bool, Source, Config, int], Edit]
"""Edits the setting with the given index."""


def of_settings(edit: SettingEditor) -> Editor:
    """An editor of the text that holds the settings."""

    def edited(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
        config = source_texts.read_config(source)
        if config is None:
            return None
        return edit(rng, held_out, source, config, rng.randrange(len(config.settings)))

    return edited


@of_settings
def set_value(
    rng: random.Random, held_out: bool, source: Source, config: Config, index: int
) -> Edit:
    """Another value for the setting."""
    key, old = config.settings[index]
    new = fresh(rng, source_texts.config_value, source.text)
    settings = [*config.settings[:index], (key, new), *config.settings[index + 1 :]]
    wording = SAY["set_value"].pick(rng, held_out).format(this="{this}", key=key, old=old, new=new)
    return Edit(wording, _written(source, config, settings))


@of_settings
def add_setting(
    rng: random.Random, held_out: bool, source: Source, config: Config, index: int
) -> Edit:
    """One more setting behind the others."""
    key = fresh(rng, lambda rng: rng.choice(source_texts.CONFIG_KEYS), source.text)
    key = key.upper() if config.settings[0][0].isupper() else key
    value = fresh(rng, source_texts.config_value, source.text)
    wording = SAY["add_setting"].pick(rng, held_out).format(this="{this}", key=key, new=value)
    return Edit(wording, _written(source, config, [*config.settings, (key, value)]))


def _written(source: Source, config: Config, settings: list[tuple[str, str]]) -> Source:
    return source.with_units(replace(config, settings=tuple(settings)).lines())
