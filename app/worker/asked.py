"""A request as Dynamo's frontend hands it on, as one of the engine's.

Field by field as in ``lib/llm/src/protocols/common.rs`` and ``common/preprocessor.rs`` of
ai-dynamo/dynamo (1.6.1): the prompt in tokens, and options of which most are null. One that this engine
does not have is refused by name; none is quietly left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pydantic import ValidationError

from app.server.fields.schemas import in_words
from app.server.fields.structured import StructuredOutputsBody, grammar_of
from engine.errors import InvalidRequest
from engine.request import Request, Speculation
from engine.values.grammar import Grammar
from engine.values.sampling import Sampling

_ALL_TOKENS = -1
"""What stands for "no top-k"."""

_NEUTRAL: Mapping[str, Mapping[str, Collection[object]]] = {
    "sampling_options": {
        "n": (1,),
        "best_of": (1,),
        "use_beam_search": (False,),
        "length_penalty": (1,),
        "allowed_token_ids": (),
        "bad_words_token_ids": (),
    },
    "stop_conditions": {"min_tokens": (0,), "max_thinking_tokens": ()},
    "output_options": {"prompt_logprobs": ()},
}
"""Options that this engine does not have, and the values that ask for nothing."""

_OTHER_INPUT = ("prompt_embeds", "multi_modal_data", "prefill_result", "encoder_result")
_GUIDED = ("json", "regex", "choice", "grammar")


@dataclass(frozen=True, slots=True)
class Asked:
    """``logprobs``: how many top tokens are told beside each token's own, None for not even that.

    ``worded``: whether the engine's own text goes with the tokens. Where not, the frontend decodes them:
    it is asked for special tokens or stop strings in the text, which replies here never hold.

    ``whole``: whether the prompt is a chat's, up to where its reply begins. Any other may hold what
    another worker wrote of the reply: where one dies, the frontend hands on its tokens behind the prompt,
    and says nothing of it.
    """

    request: Request
    logprobs: int | None
    worded: bool
    whole: bool = False


def asked_of(
    body: Mapping[str, Any],
    speculation: Speculation,
    eos: Collection[int],
    opening: tuple[int, ...] = (),
) -> Asked:
    """Raises InvalidRequest for what cannot be done here. ``eos`` and ``opening`` as in ``Card``."""
    _refuse(body, eos)
    stops, output = _part(body, "stop_conditions"), _part(body, "output_options")
    sampling = _part(body, "sampling_options")
    logprobs = output.get("logprobs")
    request = Request(
        token_ids=tuple(body["token_ids"]),
        sampling=_sampling(sampling),
        speculation=speculation,
        max_tokens=stops.get("max_tokens"),
        stop=tuple(stops.get("stop") or ()),
        ignore_eos=bool(stops.get("ignore_eos")),
        top_logprobs=logprobs or 0,
        grammar=_grammar(sampling.get("guided_decoding")),
    )
    worded = output.get("skip_special_tokens") is not False
    prompt = request.token_ids or ()
    return Asked(
        request,
        logprobs,
        worded and not sampling.get("include_stop_str_in_output"),
        bool(opening) and prompt[-len(opening) :] == opening,
    )


def _part(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return body.get(name) or {}


def _refuse(body: Mapping[str, Any], eos: Collection[int]) -> None:
    for part, neutral in _NEUTRAL.items():
        for name, value in _part(body, part).items():
            if value and name in neutral and value not in neutral[name]:
                raise InvalidRequest(
                    name,
                    f"{name} is {value!r}, which this worker's engine does not have. Leave it out.",
                )
    for name in _OTHER_INPUT:
        if body.get(name):
            raise InvalidRequest(name, f"{name} is given; this worker answers text alone.")
    strange = set(_part(body, "stop_conditions").get("stop_token_ids") or ()) - set(eos)
    if strange:
        raise InvalidRequest(
            "stop_token_ids",
            f"stop_token_ids holds {min(strange)}; replies of this worker end at the model's own tokens "
            "and at stop strings. Give its text as a stop string.",
        )


def _sampling(given: Mapping[str, Any]) -> Sampling:
    known = {each.name: given.get(each.name) for each in fields(Sampling)}
    if known["top_k"] == _ALL_TOKENS:
        known["top_k"] = 0
    return Sampling(**{name: value for name, value in known.items() if value is not None})


def _grammar(guided: Mapping[str, Any] | None) -> Grammar | None:
    """Dynamo's ``guided_decoding``, which has the fields of vLLM's ``structured_outputs``."""
    given = {name: value for name, value in (guided or {}).items() if value is not None}
    given.pop("backend", None)  # whose library compiles it: here it is always the same
    if not given:
        return None
    unknown = given.keys() - set(_GUIDED)
    if unknown:
        raise InvalidRequest(
            "guided_decoding",
            f"guided_decoding has {', '.join(sorted(unknown))}; this worker knows {', '.join(_GUIDED)}.",
        )
    try:
        return grammar_of(None, StructuredOutputsBody.model_validate(given))
    except ValidationError as error:
        raise InvalidRequest(
            "guided_decoding", f"guided_decoding is wrong: {in_words(error.errors()[0])}."
        ) from error
