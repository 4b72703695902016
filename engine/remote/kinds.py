"""The kinds of servers and what each accepts, with the versions that were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from engine.values.grammar import GrammarKind
from engine.values.sampling import Sampling


class Kind(StrEnum):
    """A program that serves models, by the name that people call it."""

    FORETOKEN = "Foretoken"
    VLLM = "vLLM"
    SGLANG = "SGLang"
    TENSORRT_LLM = "TensorRT-LLM"
    DYNAMO = "Dynamo"
    LLAMA_SERVER = "llama-server"
    OLLAMA = "Ollama"
    LM_STUDIO = "LM Studio"
    OTHER = "an OpenAI-compatible server"


SGLANG_INFO = ("/server_info", "/get_server_info")
"""SGLang's description of itself; the second path is that of earlier versions and deprecated."""

ENGINE_DATA = "engine_data"
"""What Dynamo (1.6) calls what a worker says beside a reply: of ours, ``timings`` as llama-server's."""

_OPENAI = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed")
_JSON = frozenset({GrammarKind.JSON_SCHEMA, GrammarKind.JSON_OBJECT})


def _named(*names: str, **others: str) -> Mapping[str, str]:
    return {**{name: name for name in names}, **others}


_ALL = _named(*(each.name for each in fields(Sampling)))
_LLAMA = {**_ALL, "repetition_penalty": "repeat_penalty"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a kind of server takes in a body.

    ``sampling``: its names of the fields of ``Sampling`` that it has. ``says_all``: whether those are
    sent where they are neutral too, for the server has defaults of its own for them (llama-server's
    ``top_k`` 40; vLLM's from the model's generation_config.json), so that what is shown is what was used.
    ``grammars``: kinds it can hold a reply to. ``token_ids``: whether a prompt may be given in tokens;
    ``ignore_eos``: whether a reply may go on behind its end. ``unlimited``: what stands for no limit of
    a completion, which some servers else cut at 16 tokens.
    """

    sampling: Mapping[str, str] = field(default_factory=lambda: _named(*_OPENAI))
    says_all: bool = True
    grammars: frozenset[GrammarKind] = _JSON
    tools: bool = True
    logit_bias: bool = True
    token_ids: bool = False
    ignore_eos: bool = False
    unlimited: int | None = None


TRAITS: Mapping[Kind, Traits] = {
    # vLLM 0.32: entrypoints/openai/chat_completion/protocol.py, completion/protocol.py.
    Kind.VLLM: Traits(
        sampling=_ALL, grammars=frozenset(GrammarKind), token_ids=True, ignore_eos=True
    ),
    # SGLang 0.5.16: srt/entrypoints/openai/protocol.py.
    Kind.SGLANG: Traits(sampling=_ALL, token_ids=True, ignore_eos=True),
    # TensorRT-LLM 1.3: serve/openai_protocol.py, whose bodies refuse fields that they do not know.
    Kind.TENSORRT_LLM: Traits(sampling=_ALL, token_ids=True, ignore_eos=True),
    # Dynamo 1.6: what its frontend hands on is its workers' affair.
    Kind.DYNAMO: Traits(says_all=False),
    # llama.cpp as of llama-cpp-python 0.3.36: tools/server/server-schema.cpp.
    Kind.LLAMA_SERVER: Traits(
        sampling=_LLAMA,
        grammars=_JSON | {GrammarKind.GBNF},
        token_ids=True,
        ignore_eos=True,
        unlimited=-1,
    ),
    # Ollama's own API, docs/api.md of 2025-10.
    Kind.OLLAMA: Traits(sampling=_LLAMA, logit_bias=False),
    # LM Studio's REST API v0 (0.3.10 and later), endpoints.md.
    Kind.LM_STUDIO: Traits(
        sampling=_named(*_OPENAI, "top_k", repetition_penalty="repeat_penalty"), unlimited=-1
    ),
    Kind.OTHER: Traits(says_all=False),
}
"""For all kinds but Foretoken, which states its own capabilities."""
