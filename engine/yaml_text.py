"""YAML from outside, checked before its nodes are built. Apart from ``engine.files`` for quick starts."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from engine.files import DEEPEST, TOO_DEEP

MOST_ALIASES = 16
"""Of a YAML file. Aliases of aliases repeat a list exponentially often."""
YAML_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_yaml(text: str) -> str:
    """Return ``text`` if building its nodes is safe: libyaml does that by recursion without a bound.

    Raises YAMLError for no YAML, for deep nesting, and for many aliases.
    """
    depth = aliases = 0
    for event in _events(text):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        if depth > DEEPEST:
            raise yaml.YAMLError(TOO_DEEP)
        if aliases > MOST_ALIASES:
            raise yaml.YAMLError(f"it has more than {MOST_ALIASES} aliases")
    return text


def _events(text: str) -> Iterator[yaml.Event]:
    """Raise YAMLError with our words where newer versions of libyaml count the depth themselves."""
    try:
        yield from yaml.parse(text, Loader=YAML_LOADER)
    except yaml.MarkedYAMLError as error:
        if "nesting depth" not in str(error.problem):
            raise
        raise yaml.YAMLError(TOO_DEEP) from None
