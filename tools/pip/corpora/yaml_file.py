"""The YAML files that stand beside the generators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML was built with it: the topics alone take Python's own several seconds."""


def read(path: Path) -> Any:
    """What a file holds, of YAML's plain types. Raises yaml.YAMLError where it is not valid YAML."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
