"""The tokenizer of a model's folder: tokenizer.json as it was published, and what its config adds.

transformers' loader would do the same and much more: it imports five seconds' worth of torch, and makes
some kinds anew by rules of its own, which splits text otherwise than the file that the model was trained
with (GPT-2's class over another pattern, Llama 2's leading spaces). It is asked where a folder has no
tokenizer.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.files import read_json
from engine.models.checkpoints.chat_template import Render, renderer

FILE = "tokenizer.json"
_CONFIG, _TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
_OLDER_NAMES = "special_tokens_map.json"
"""Names of special tokens, where the config does not list its added tokens."""
_EXTRA = ("extra_special_tokens", "additional_special_tokens")


def read_folder(folder: Path) -> tuple[Any, Render | None, str | None]:
    """The ``tokenizers.Tokenizer``, and where there is a template what renders a chat by it, and itself.
    Raises ModelError."""
    if not (folder / FILE).is_file():
        return _by_transformers(folder)
    from tokenizers import Tokenizer

    try:
        backend: Any = Tokenizer.from_file(str(folder / FILE))
        config = read_config(folder)
        named = special_names(config)
        _add_special(backend, config, named)
        template = _template(folder, config)
    except Exception as error:  # tokenizers raises plain Exception; a config may hold anything
        raise ModelError(_broken(folder, error)) from error
    return backend, None if template is None else renderer(template, named), template


def read_config(folder: Path) -> dict[str, Any]:
    """What tokenizer_config.json says, with older ways to name special tokens; empty without one."""
    config = _object(folder / _CONFIG)
    if "added_tokens_decoder" not in config:
        config |= _object(folder / _OLDER_NAMES)
    return config


def special_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Roles and names, as templates use them: "bos_token" and the like."""
    listed = [(role, _name(value)) for role, value in config.items() if role.endswith("_token")]
    return {role: name for role, name in listed if name is not None}


def _object(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    content: dict[str, Any] = read_json(file)
    return content


def _name(value: object) -> str | None:
    """Either notation of a token: its text, or an object with it."""
    name = value.get("content") if isinstance(value, Mapping) else value
    return name if isinstance(name, str) else None


def _add_special(backend: Any, config: Mapping[str, Any], named: Mapping[str, str]) -> None:
    """Tokens of the config that the file lacks, and whatever is named as special is so."""
    from tokenizers import AddedToken

    known = {token.content: token for token in backend.get_added_tokens_decoder().values()}
    listed = config.get("added_tokens_decoder") or {}
    for _, fields in sorted((int(number), fields) for number, fields in listed.items()):
        token = AddedToken(**fields)
        if token.content not in known:
            backend.add_tokens([token])
            known[token.content] = token
    extra: Any = next((config[key] for key in _EXTRA if config.get(key)), [])
    extra = extra.values() if isinstance(extra, Mapping) else extra
    for name in dict.fromkeys([*named.values(), *map(_name, extra)]):
        if name is not None:
            plain = AddedToken(name, special=True, normalized=False)
            backend.add_special_tokens([known.get(name, plain)])


def _template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """The file of its own goes before the config, where the default goes before others."""
    file = folder / _TEMPLATE
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = config.get("chat_template")
    if isinstance(found, list):
        return {entry["name"]: str(entry["template"]) for entry in found}.get("default")
    return None if found is None else str(found)


def _broken(folder: Path, error: Exception) -> str:
    reason = " ".join(str(error).split()).rstrip(".")
    return (
        f"The tokenizer in {folder} cannot be read: {reason}. The folder needs a "
        "tokenizer.json of the fast kind; download the model again."
    )


def _by_transformers(folder: Path) -> tuple[Any, Render | None, str | None]:
    """From older files. Runs no code from the folder."""
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
        backend = tokenizer.backend_tokenizer
    except Exception as error:  # transformers raises what its parsers and validators raise
        raise ModelError(_broken(folder, error)) from error
    template = tokenizer.chat_template
    if isinstance(template, Mapping):
        template = template.get("default")
    named: dict[str, str] = tokenizer.special_tokens_map
    return backend, None if template is None else renderer(template, named), template
