"""The tokenizer of a model's folder: tokenizer.json as it was published, and the additions of its config.

transformers' loader would do more: it imports torch for five seconds, and rebuilds some kinds by rules of
its own, which split text otherwise than the file that the model was trained with (GPT-2's class
with another pattern, Llama 2's leading spaces). It is used only for a folder without tokenizer.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import MALFORMED, ModelError, what_failed
from engine.files import bounded, read_json

FILE = "tokenizer.json"
_CONFIG, _TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
_OLDER_TEMPLATE = "chat_template.json"
_OLDER_NAMES = "special_tokens_map.json"
"""Names of special tokens, if the config does not list its added tokens."""
_EXTRA = ("extra_special_tokens", "additional_special_tokens")


def read_folder(folder: Path) -> tuple[Any, str | None, Mapping[str, str]]:
    """Return the ``tokenizers.Tokenizer``, the chat template if there is one, and ``special_names``.

    Raises ModelError.
    """
    if not (folder / FILE).is_file():
        return _by_transformers(folder)
    from tokenizers import Tokenizer

    try:
        backend: Any = Tokenizer.from_file(str(folder / FILE))
        config = read_config(folder)
        names = special_names(config)
        _add_special(backend, config, names)
        template = chat_template(folder, config)
    except Exception as error:  # tokenizers raises plain Exception; a config may hold anything
        raise ModelError(broken(folder, error)) from error
    return backend, template, names


def read_config(folder: Path) -> dict[str, Any]:
    """Return tokenizer_config.json, with older ways to name special tokens; empty without one."""
    config = _object(folder / _CONFIG)
    if "added_tokens_decoder" not in config:
        config |= _object(folder / _OLDER_NAMES)
    return config


def special_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the special tokens by role, as templates name them: "bos_token" and the like."""
    listed = [(role, _name(value)) for role, value in config.items() if role.endswith("_token")]
    return {role: name for role, name in listed if name is not None}


def chat_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Return the chat template, None if there is none: a file of its own takes precedence over the
    config, in which a list has templates by name."""
    file = folder / _TEMPLATE
    if file.is_file():
        return bounded(file).decode("utf-8")
    key = "chat_template"
    template = config.get(key) or _object(folder / _OLDER_TEMPLATE).get(key)
    if isinstance(template, list):
        template = {each.get("name"): each.get("template") for each in template}.get("default")
    return str(template) if template else None


def has_template(folder: Path) -> bool:
    """Return whether there is a chat template. Raises ModelError."""
    try:
        return chat_template(folder, read_config(folder)) is not None
    except (OSError, *MALFORMED) as error:
        raise ModelError(broken(folder, error)) from error


def _object(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    content: dict[str, Any] = read_json(file)
    return content


def _name(value: object) -> str | None:
    """Return the text of a token, which is a string or an object."""
    name = value.get("content") if isinstance(value, Mapping) else value
    return name if isinstance(name, str) else None


def _add_special(backend: Any, config: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Add the config's tokens that the file lacks, and mark all that it names as special."""
    from tokenizers import AddedToken

    present = {token.content: token for token in backend.get_added_tokens_decoder().values()}
    listed = config.get("added_tokens_decoder") or {}
    for _, fields in sorted((int(number), fields) for number, fields in listed.items()):
        token = AddedToken(**fields)
        if token.content not in present:
            backend.add_tokens([token])
            present[token.content] = token
    extra: Any = next((config[key] for key in _EXTRA if config.get(key)), [])
    extra = extra.values() if isinstance(extra, Mapping) else extra
    for name in dict.fromkeys([*names.values(), *map(_name, extra)]):
        if name is not None:
            plain = AddedToken(name, special=True, normalized=False)
            backend.add_special_tokens([present.get(name, plain)])


def broken(folder: Path, error: Exception) -> str:
    """Return the message for a tokenizer that cannot be read."""
    reason = " ".join(what_failed(error).split()).rstrip(".")
    return (
        f"The tokenizer in {folder} cannot be read: {reason}. It needs a fast tokenizer "
        "(tokenizer.json); download the model again."
    )


def _by_transformers(folder: Path) -> tuple[Any, str | None, Mapping[str, str]]:
    """Read older files. Runs no code from the folder."""
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
        backend = tokenizer.backend_tokenizer
    except Exception as error:  # transformers raises what its parsers and validators raise
        raise ModelError(broken(folder, error)) from error
    template = tokenizer.chat_template
    if isinstance(template, Mapping):
        template = template.get("default")
    return backend, template, tokenizer.special_tokens_map
