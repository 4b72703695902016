"""The parameters of one generation as frozen, validated values. Torch-free.

Every check raises ``InvalidRequest`` that names the field, so that the page, the API and the
command line report the same mistake in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, get_args

from engine.values import (
    MAX_DEPTH,
    MAX_TOP_LOGPROBS,
    require,
    require_at_most,
    require_range,
)
from engine.values.grammar import Grammar
from engine.values.messages import MAX_IMAGES, Message
from engine.values.sampling import AcceptanceRule, Sampling, check_rule
from engine.values.tools import Tool, ToolChoice

FIXED_DEPTH = 4
"""What ``fixed`` drafts where no depth is given."""

MAX_STOPS, LONGEST_STOP = 64, 1024
"""Most stop strings of a request, and most characters of one: each is looked for at every token."""

MAX_BIASES, MAX_BIAS = 1024, 100
"""Most tokens with a bias of their own; and how large one may be, as OpenAI has it."""

PREDICTED = "predicted"
"""By what name rounds go that drafted from ``Request.predicted``."""
PLAIN = "none"
"""The proposer of plain decoding, which every pair has: it drafts nothing."""

SERVER = "server"
"""The proposer of an engine elsewhere that neither tells what drafts, nor lets anybody choose."""

MAX_TEMPLATE_VALUES, LONGEST_TEMPLATE_VALUE = 32, 8192
"""Most values that a request gives its chat template, and most characters of one."""

TEMPLATE_NAMES = frozenset(
    "messages tools documents add_generation_prompt template bos_token eos_token".split()
)
"""Variables of a chat template that a request does not set."""

Thinking = Literal["", "off", "on", "low", "medium", "high"]
"""How much a model thinks before it answers, where its chat template has a choice; "" is its default."""
THINKING: tuple[str, ...] = get_args(Thinking)

OptionValue = float | int | str | bool
"""A value of a proposer's own option."""


class Control(StrEnum):
    """Who decides the depth: measurements, the request, or nobody, because nothing is drafted."""

    AUTO = "auto"
    FIXED = "fixed"
    OFF = "off"


def controller_named(text: str) -> Control:
    """Return the controller of that name. Raises InvalidRequest."""
    require(text in set(Control), "controller", f"is {text!r}; it must be one of {_CONTROLLERS}.")
    return Control(text)


_CONTROLLERS = ", ".join(Control)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Which proposer drafts, how far, and which rule judges.

    Where neither ``controller`` nor ``depth`` is given, the depth is found by measuring (``auto``);
    a ``depth`` alone is kept to (``fixed``); both together: ``auto`` up to that depth. ``options``
    are the proposer's own, checked by its ``Options``.
    """

    proposer: str = "draft"
    depth: int | None = None
    controller: Control | None = None
    acceptance: AcceptanceRule = AcceptanceRule.AUTO
    options: dict[str, OptionValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(
            self.controller is None or isinstance(self.controller, Control),
            "controller",
            f"is {self.controller!r}; it must be one of {_CONTROLLERS}.",
        )
        require(
            self.depth is None
            or 1 <= self.depth <= MAX_DEPTH
            or (self.depth == 0 and self.control is Control.OFF),
            "depth",
            f"is {self.depth}; it must be 1 to {MAX_DEPTH} drafted tokens per round. For no "
            "drafting, choose the proposer 'none'.",
        )

    @property
    def control(self) -> Control:
        """Return the request's controller."""
        if self.proposer == PLAIN:
            return Control.OFF
        if self.controller is not None:
            return self.controller
        return Control.AUTO if self.depth is None else Control.FIXED

    @property
    def deepest(self) -> int:
        """Return the largest number of tokens that a round may draft."""
        if self.control is Control.OFF:
            return 0
        if self.depth is not None:
            return self.depth
        return MAX_DEPTH if self.control is Control.AUTO else FIXED_DEPTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One generation. Exactly one of ``messages``, ``prompt`` and ``token_ids`` is given.

    ``reuse_cache`` False starts from an empty KV cache (races and benchmarks, for equal starts).
    ``exclusive``: nothing else runs meanwhile (races and benchmarks, which are measured).
    ``ignore_eos`` decodes on to ``max_tokens`` (benchmarks).
    ``logit_bias``: what is added to the target's logits of some tokens, before penalties.
    ``top_logprobs``: how many top tokens are returned for each token of the reply.
    ``predicted``: text that the reply will likely follow, drafted from before the proposer drafts; it
    changes no words. OpenAI's Predicted Outputs.
    ``grammar``: what the reply must match; one that ``max_tokens`` cuts is the beginning of such a text.
    ``tools`` may be called by a reply to ``messages``, as ``tool_choice`` says.
    ``thinking``: see ``Thinking``. ``thinking_budget``: a thought of so many tokens is ended. That is
    part of the text's rule, like a grammar, so drafts change no words. ``template_values``: further
    variables of the chat template.
    ``reply_prefix``: tokens that the reply begins with. It continues as if it had never stopped;
    ``max_tokens`` counts new tokens.
    ``end_tokens``: tokens that end the reply besides the model's own.
    ``prefill``: text that the answer begins with and the reply goes on from: a part of the prompt.
    """

    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    token_ids: tuple[int, ...] | None = None
    sampling: Sampling = field(default_factory=Sampling)
    speculation: Speculation = Speculation()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    reuse_cache: bool = True
    exclusive: bool = False
    ignore_eos: bool = False
    predicted: str = ""
    logit_bias: tuple[tuple[int, float], ...] = ()
    top_logprobs: int = 0
    grammar: Grammar | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    thinking: str = ""
    thinking_budget: int | None = None
    template_values: tuple[tuple[str, OptionValue], ...] = ()
    reply_prefix: tuple[int, ...] = ()
    prefill: str = ""
    end_tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        given = bool(self.messages) + (self.prompt is not None) + (self.token_ids is not None)
        require(given == 1, "messages", "or prompt is required, one of the two.")
        check_rule(self.speculation.acceptance, self.sampling.temperature)
        if self.messages:
            require(
                bool(self.messages[-1].content.strip() or self.messages[-1].images)
                or self.messages[-1].role == "tool",
                "messages",
                "must not end with an empty message.",
            )
        images = sum(len(message.images) for message in self.messages)
        require(images <= MAX_IMAGES, "messages", f"have {images} images (at most {MAX_IMAGES}).")
        require_range("max_tokens", self.max_tokens, 1)
        require(
            not self.predicted or self.speculation.deepest > 0,
            "predicted",
            "is given, but this request drafts nothing. Leave it out, or choose a proposer "
            "other than 'none' and a controller other than 'off'.",
        )
        require_at_most("logit_bias", self.logit_bias, MAX_BIASES, "tokens")
        for token, bias in self.logit_bias:
            require(
                -MAX_BIAS <= bias <= MAX_BIAS,
                "logit_bias",
                f"is {bias} for token {token}; it must be {-MAX_BIAS} to {MAX_BIAS}.",
            )
        require_range("top_logprobs", self.top_logprobs, 0, MAX_TOP_LOGPROBS)
        require(bool(self.messages) or not self.tools, "tools", "need messages, not a prompt.")
        names = {tool.name for tool in self.tools}
        require(len(names) == len(self.tools), "tools", "contain a name twice.")
        require(
            (self.grammar is None and not self.tools) or not self.ignore_eos,
            "ignore_eos",
            "continues beyond the end of the text, which a grammar does not allow. Leave "
            "one of them out.",
        )
        require(
            not self.prefill
            or (bool(self.messages) and self.grammar is None and not self.tool_choice.must),
            "prefill",
            "is not possible for a completion, a structured reply or a required call. Leave one of "
            "them out.",
        )
        require(
            self.thinking in THINKING,
            "thinking",
            f"is {self.thinking!r}; it must be one of {', '.join(THINKING[1:])}.",
        )
        require_range("thinking_budget", self.thinking_budget, 0)
        require_at_most("template_values", self.template_values, MAX_TEMPLATE_VALUES, "values")
        for name, value in self.template_values:
            require(
                name.isidentifier() and not name.startswith("_") and name not in TEMPLATE_NAMES,
                "template_values",
                f"contains {name[:80]!r}, which a request cannot set.",
            )
            require(
                not isinstance(value, str) or len(value) <= LONGEST_TEMPLATE_VALUE,
                "template_values",
                f"has {name!r} with more than {LONGEST_TEMPLATE_VALUE} characters.",
            )
        require(all(self.stop), "stop", "contains an empty string, which would end every reply.")
        require_at_most("stop", self.stop, MAX_STOPS, "strings")
        require(
            all(len(stop) <= LONGEST_STOP for stop in self.stop),
            "stop",
            f"contains a string of more than {LONGEST_STOP} characters.",
        )
