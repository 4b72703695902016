"""Read one catalog file into checked entries. A mistake is a CatalogError with file, line and key.

Entries are checked by hand, not by pydantic, as its errors do not know the lines of the YAML nodes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from engine.errors import MALFORMED, CatalogError
from engine.files import bounded
from engine.values.units import closest
from engine.yaml_text import YAML_LOADER, check_yaml

TEXT, COUNT, FLAG = "a text", "a whole number above 0", "true or false"
NUMBER = "a whole number, 0 or more"
TEXTS = "a list of texts"
NAMES = "a mapping of names to texts"
CONFIG = "a mapping with the keys of a config.json"

MODEL_KEYS = {
    "id": TEXT, "name": TEXT, "repository": TEXT, "revision": TEXT, "path": TEXT,
    "tokenizer": TEXT, "licence": TEXT, "gated": FLAG, "parameters": COUNT, "bytes": COUNT,
    "context": COUNT, "vocabulary": COUNT, "layers": COUNT, "kv_heads": COUNT, "head_dim": COUNT,
    "hidden": COUNT, "tied": FLAG, "quantization": TEXT, "kv_cache_dtype": TEXT, "note": TEXT,
    "config": CONFIG, "checkpoints": NAMES, "drafters": NAMES, "plan_only": FLAG, "gguf": TEXTS,
    "mtp": FLAG, "aliases": TEXTS, "speculators": TEXTS, "config_of": TEXT,
}  # fmt: skip
PLAN_KEYS = ("checkpoints", "plan_only", "aliases", "speculators", "config_of")
"""Keys of a model that only launch plans read."""
CONFIG_KEYS = {
    "model_type": TEXT, "hidden_size": COUNT, "intermediate_size": COUNT, "num_hidden_layers": COUNT,
    "num_attention_heads": COUNT, "num_key_value_heads": COUNT, "head_dim": COUNT, "vocab_size": COUNT,
    "max_position_embeddings": COUNT, "tie_word_embeddings": FLAG, "sliding_window": COUNT,
    "moe_intermediate_size": COUNT, "num_experts": COUNT, "num_local_experts": COUNT,
    "n_routed_experts": COUNT, "n_shared_experts": COUNT, "num_experts_per_tok": COUNT,
    "shared_expert_intermediate_size": COUNT, "linear_num_key_heads": COUNT,
    "linear_num_value_heads": COUNT, "mtp_num_hidden_layers": COUNT, "first_k_dense_replace": COUNT,
    "num_nextn_predict_layers": COUNT, "q_lora_rank": COUNT,
    "kv_lora_rank": COUNT, "qk_nope_head_dim": COUNT, "qk_rope_head_dim": COUNT, "v_head_dim": COUNT,
    "attention_bias": FLAG, "quantization_config": NAMES, "use_qk_norm": FLAG,
    "index_head_dim": COUNT, "index_n_heads": COUNT, "intermediate_size_mlp": COUNT,
    "interleave_moe_layer_step": COUNT, "global_head_dim": COUNT, "num_global_key_value_heads": COUNT,
    "attention_k_eq_v": FLAG, "enable_moe_block": FLAG, "top_k_experts": COUNT,
    "hidden_size_per_layer_input": NUMBER, "num_kv_shared_layers": COUNT, "qk_norm_type": TEXT,
}  # fmt: skip
PAIR_KEYS = {
    "id": TEXT, "name": TEXT, "target": TEXT, "draft": TEXT, "heads": TEXTS, "note": TEXT,
}  # fmt: skip
SERVER_KEYS = {"id": TEXT, "name": TEXT, "address": TEXT, "model": TEXT, "note": TEXT}

_MODEL_NEEDS = ("name", "licence")
_PLAN_NEEDS = ("repository",)
_REPOSITORY_NEEDS = (
    "tokenizer", "parameters", "context", "vocabulary", "layers", "kv_heads", "head_dim",
)  # fmt: skip
_PAIR_NEEDS = ("id", "name", "target")
_SERVER_NEEDS = ("id", "name", "address")
_SIZES = {
    "context": "max_position_embeddings", "vocabulary": "vocab_size", "layers": "num_hidden_layers",
    "hidden": "hidden_size", "tied": "tie_word_embeddings", "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
}  # fmt: skip
"""The keys of ``config`` that are a model's sizes."""
_SECTIONS = ("models", "pairs", "servers")
LARGEST = 16 << 20
"""Bytes of a catalog."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One model, pair or server as written: its checked values, and where each of them stands."""

    file: Path
    where: str
    line: int
    values: dict[str, Any]
    lines: dict[str, int]

    def error(self, key: str, problem: str) -> CatalogError:
        """Return the error for a mistake in ``key`` of this entry."""
        return _error(self.file, self.lines.get(key, self.line), f"{self.where}.{key}", problem)


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of one file."""

    models: tuple[Entry, ...] = ()
    pairs: tuple[Entry, ...] = ()
    servers: tuple[Entry, ...] = ()


def read_catalog_file(file: Path) -> Entries:
    """Return the entries of ``file``. Raises CatalogError."""
    try:
        text = bounded(file, LARGEST).decode("utf-8")
    except OSError as error:
        raise CatalogError(f"{file} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise CatalogError(f"{file} is not UTF-8 text. Save it as UTF-8.") from error
    return _entries(file, text)


@functools.lru_cache(maxsize=2)
def _entries(file: Path, text: str) -> Entries:
    """Those of the two texts that were read last are kept: commands read the shipped one again."""
    root = _compose(file, text)
    if root is None:
        return Entries()
    if not isinstance(root, MappingNode):
        raise _error(
            file, _line(root), "models", f"the file must have keys among {', '.join(_SECTIONS)}"
        )
    sections = {key.value: value for key, value in _items(file, root, "", _SECTIONS)}

    def entries(section: str, kinds: dict[str, str], needs: tuple[str, ...]) -> tuple[Entry, ...]:
        found = [
            _entry(file, node, f"{section}[{number}]", kinds, needs)
            for number, node in _elements(file, sections.get(section), section)
        ]
        _check_unique(found)
        return tuple(found)

    models = entries("models", MODEL_KEYS, ("id",))
    for model in models:
        config = model.values.get("config", {})
        sizes = {key: config[name] for key, name in _SIZES.items() if name in config}
        model.values.update(sizes | model.values)
        _check_source(model)
    return Entries(
        models,
        entries("pairs", PAIR_KEYS, _PAIR_NEEDS),
        entries("servers", SERVER_KEYS, _SERVER_NEEDS),
    )


def _compose(file: Path, text: str) -> Node | None:
    try:
        return yaml.compose(check_yaml(text), Loader=YAML_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        key = _key_near(text, mark.line) if mark else None
        at = f" (near key '{key}')" if key else ""
        raise CatalogError(
            f"{file}{place}{at} is not valid YAML. Check indentation, colons and quotes there."
        ) from error
    except yaml.YAMLError as error:
        raise CatalogError(f"{file} is not valid YAML: {error}. Correct it.") from error


def _key_near(text: str, line: int) -> str | None:
    """Return the key on this line or the closest one above, for an error that the parser cannot name."""
    for candidate in reversed(text.splitlines()[: line + 1]):
        key, colon, _ = candidate.strip().removeprefix("- ").partition(":")
        if colon and key and not key.startswith("#"):
            return key
    return None


def _elements(file: Path, node: Node | None, section: str) -> Iterator[tuple[int, Node]]:
    if node is None or (isinstance(node, ScalarNode) and not node.value):
        return
    if not isinstance(node, SequenceNode):
        raise _error(file, _line(node), section, "must be a list with one '- ' per entry")
    yield from enumerate(node.value)


def _items(
    file: Path, node: MappingNode, where: str, known: tuple[str, ...]
) -> Iterator[tuple[ScalarNode, Node]]:
    """Yield key and value nodes. Raises CatalogError for unknown and repeated keys."""
    seen: set[str] = set()
    for key, value in node.value:
        name = str(key.value)
        path = f"{where}.{name}" if where else name
        if name not in known:
            raise _error(file, _line(key), path, f"unknown key{_suggestion(name, known)}")
        if name in seen:
            raise _error(file, _line(key), path, "is given twice")
        seen.add(name)
        yield key, value


def _entry(
    file: Path, node: Node, where: str, kinds: dict[str, str], needs: tuple[str, ...]
) -> Entry:
    if not isinstance(node, MappingNode):
        raise _error(file, _line(node), where, "must be an entry with 'key: value' lines")
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key, value in _items(file, node, where, tuple(kinds)):
        name = str(key.value)
        lines[name] = _line(key)
        values[name] = _value(file, value, f"{where}.{name}", kinds[name])
    entry = Entry(file, where, _line(node), values, lines)
    _check_present(entry, needs)
    return entry


def _value(file: Path, node: Node, where: str, kind: str) -> Any:
    if kind == TEXTS and isinstance(node, SequenceNode):
        return tuple(
            _value(file, item, f"{where}[{number}]", TEXT) for number, item in enumerate(node.value)
        )
    if kind == NAMES and isinstance(node, MappingNode):
        return {
            str(key.value): _value(file, value, f"{where}.{key.value}", TEXT)
            for key, value in node.value
        }
    if kind == CONFIG:
        return _entry(file, node, where, CONFIG_KEYS, ("model_type",)).values
    scalar = isinstance(node, ScalarNode)
    try:
        value = SafeConstructor().construct_object(node) if scalar else None
    except (*MALFORMED, yaml.YAMLError):  # a date of no calendar, or a tag that does not fit
        value = None
    good = {
        TEXT: isinstance(value, str) and bool(value.strip()),
        COUNT: isinstance(value, int) and not isinstance(value, bool) and value > 0,
        NUMBER: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
        FLAG: isinstance(value, bool),
    }.get(kind, False)
    if not good:
        found = repr(node.value) if scalar else "a list or a mapping"
        raise _error(file, _line(node), where, f"is {found}; it must be {kind}")
    return value


def _check_present(entry: Entry, needs: tuple[str, ...]) -> None:
    for key in needs:
        if key not in entry.values:
            raise entry.error(key, "is missing")


def _check_source(model: Entry) -> None:
    has_repository, has_path = "repository" in model.values, "path" in model.values
    if has_repository == has_path:
        raise model.error("repository", "give either 'repository' or 'path'")
    plan_only = model.values.get("plan_only", False)
    _check_present(model, _PLAN_NEEDS if plan_only else _MODEL_NEEDS)
    if plan_only and not {"config", "config_of"} & model.values.keys():
        raise model.error("config", "is missing, and no config_of names a model that has the same")
    if has_repository:
        _check_present(model, () if plan_only else _REPOSITORY_NEEDS)
        owner, slash, name = model.values["repository"].partition("/")
        if not (owner and slash and name) or "/" in name:
            raise model.error("repository", "must have the form 'owner/name'")


def _check_unique(entries: list[Entry]) -> None:
    seen: dict[str, int] = {}
    for entry in entries:
        name = entry.values["id"]
        if name in seen:
            raise entry.error("id", f"'{name}' is already used on line {seen[name]}")
        seen[name] = entry.lines["id"]


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    close = closest(name, known)
    return f"; did you mean '{close}'?" if close else f"; known keys: {', '.join(known)}"


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _error(file: Path, line: int, key: str, problem: str) -> CatalogError:
    return CatalogError(f"{file}, line {line}, key '{key}': {problem.rstrip('.')}.")
