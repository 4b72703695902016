"""What one generation is asked to do: frozen, validated values. Torch-free.

Every check raises ``InvalidRequest`` that names the field, so that the page, the API and the
command line report the same mistake in the same words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from engine.errors import InvalidRequest
from engine.tool_calls.values import Tool, ToolCall, ToolChoice

MAX_DEPTH = 15
"""Most tokens that a round drafts."""
MAX_ROWS = MAX_DEPTH + 1
"""With the pending token: the rows that every kernel verifies in one pass, with the bits of one row."""

FIXED_DEPTH = 4
"""What ``fixed`` drafts where no depth is given."""

MAX_STOPS, LONGEST_STOP = 64, 1024
"""Most stop strings of a request, and most characters of one: each is looked for at every token."""

LEAST_PENALTY = 1e-3
"""Of repetition: logits are divided by it, and must stay numbers."""

MAX_BIASES, MAX_BIAS = 1024, 100
"""Most tokens with a bias of their own; and how large one may be, as OpenAI has it."""

MAX_ALTERNATIVES = 20
"""Most likeliest tokens told for each place, as OpenAI has it."""

PREDICTED = "predicted"
"""By what name rounds go that drafted from ``Request.predicted``."""
LONGEST_GRAMMAR = 2**20
"""Most characters of a grammar: it is compiled before anything is written."""

PLAIN = "none"
"""The proposer of plain decoding, which every pair has: it drafts nothing."""

SERVER = "server"
"""The proposer of an engine elsewhere that neither tells what drafts, nor lets anybody choose."""

OptionValue = float | int | str | bool
"""A value of a proposer's own option."""


class AcceptanceRule(StrEnum):
    """How drafted tokens are judged; ``AUTO`` is greedy at temperature 0, else coupled."""

    AUTO = "auto"
    GREEDY = "greedy"
    COUPLED = "coupled"
    REJECTION = "rejection"
    BLOCK = "block"

    @property
    def weighs_q(self) -> bool:
        """Whether p is weighed against the q that a token was drawn from.

        Words then depend on what was drafted, only their distribution does not; and drafts must not know
        the noise that judges them.
        """
        return self in (AcceptanceRule.REJECTION, AcceptanceRule.BLOCK)


class Control(StrEnum):
    """Who decides how far to draft: measurements, the request, or nobody, for nothing is drafted."""

    AUTO = "auto"
    FIXED = "fixed"
    OFF = "off"


def controller_named(text: str) -> Control:
    """The controller of that name. Raises InvalidRequest."""
    _check(text in set(Control), "controller", f"is {text!r}; it must be one of {_CONTROLLERS}.")
    return Control(text)


def rule_named(text: str) -> AcceptanceRule:
    """The acceptance rule of that name. Raises InvalidRequest."""
    _check(text in set(AcceptanceRule), "acceptance", f"is {text!r}; it must be one of {_RULES}.")
    return AcceptanceRule(text)


_COLD = 1e-5
"""Below this temperature float32 overflows before anything but the likeliest token is drawn."""


def resolve_rule(rule: AcceptanceRule, temperature: float) -> AcceptanceRule:
    """``auto`` to a rule; at temperature 0 always greedy, which needs no noise."""
    if temperature < _COLD or rule is AcceptanceRule.GREEDY:
        return AcceptanceRule.GREEDY
    return AcceptanceRule.COUPLED if rule is AcceptanceRule.AUTO else rule


_CONTROLLERS, _RULES = ", ".join(Control), ", ".join(AcceptanceRule)


def _check(condition: bool, name: str, message: str) -> None:
    if not condition:
        raise InvalidRequest(name, f"{name} {message}")


def _field(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingValues:
    """The fields of ``Sampling``, unchecked. API, command line and settings take them from here."""

    temperature: float = _field(0.0, "0: always the likeliest token.")
    top_k: int = _field(0, "0: off.")
    top_p: float = _field(1.0, "1: off.")
    min_p: float = _field(0.0, "0: off.")
    repetition_penalty: float = _field(1.0, "1: off.")
    presence_penalty: float = _field(0.0, "0: off.")
    frequency_penalty: float = _field(0.0, "0: off.")
    seed: int | None = _field(None, "The same seed, the same words.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(SamplingValues):
    """How the next token is chosen from the logits.

    ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 switch the truncations off. ``seed`` None draws one.
    """

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
            _check(math.isfinite(getattr(self, name)), name, "must be a finite number.")
        _check(
            0 <= self.temperature <= 5,
            "temperature",
            f"is {self.temperature}; it must be 0 (always the likeliest token) to 5.",
        )
        _check(self.top_k >= 0, "top_k", f"is {self.top_k}; it must be 0 (off) or more.")
        _check(
            0 < self.top_p <= 1,
            "top_p",
            f"is {self.top_p}; it must be above 0 and at most 1 (off).",
        )
        _check(0 <= self.min_p < 1, "min_p", f"is {self.min_p}; it must be 0 (off) to below 1.")
        _check(
            LEAST_PENALTY <= self.repetition_penalty <= 10,
            "repetition_penalty",
            f"is {self.repetition_penalty}; it must be {LEAST_PENALTY} to 10 (1 is off).",
        )
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            _check(
                math.isfinite(value) and -2 <= value <= 2,
                name,
                f"is {value}; it must be -2 to 2 (0 is off).",
            )
        _check(
            self.seed is None or -(2**63) <= self.seed < 2**64,
            "seed",
            f"is {self.seed}; it must fit 64 bits.",
        )


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
        _check(
            self.controller is None or isinstance(self.controller, Control),
            "controller",
            f"is {self.controller!r}; it must be one of {_CONTROLLERS}.",
        )
        _check(
            self.depth is None
            or 1 <= self.depth <= MAX_DEPTH
            or (self.depth == 0 and self.control is Control.OFF),
            "depth",
            f"is {self.depth}; it must be 1 to {MAX_DEPTH} drafted tokens a round. "
            "For decoding without speculation choose the proposer 'none'.",
        )

    @property
    def control(self) -> Control:
        """The controller that is meant."""
        if self.proposer == PLAIN:
            return Control.OFF
        if self.controller is not None:
            return self.controller
        return Control.AUTO if self.depth is None else Control.FIXED

    @property
    def deepest(self) -> int:
        """Most tokens that a round may draft."""
        if self.control is Control.OFF:
            return 0
        if self.depth is not None:
            return self.depth
        return MAX_DEPTH if self.control is Control.AUTO else FIXED_DEPTH


class GrammarKind(StrEnum):
    """In what notation a reply's structure is given.

    A JSON schema, of which no text is needed where any JSON object will do; a regular expression in the
    syntax of Rust's regex; a grammar in llguidance's dialect of Lark, or in llama.cpp's GBNF.
    """

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    REGEX = "regex"
    LARK = "lark"
    GBNF = "gbnf"


@dataclass(frozen=True, slots=True)
class Grammar:
    """What the whole reply must match. ``strict``: a keyword of a schema that cannot be enforced is
    refused, where else it is left out."""

    kind: GrammarKind
    text: str = ""
    strict: bool = True

    def __post_init__(self) -> None:
        _check(
            bool(self.text) != (self.kind is GrammarKind.JSON_OBJECT),
            "grammar",
            f"of the kind {self.kind.value} {'has no text' if self.text else 'needs a text'}.",
        )
        _check(
            len(self.text) <= LONGEST_GRAMMAR,
            "grammar",
            f"has {len(self.text)} characters; {LONGEST_GRAMMAR} are the most.",
        )


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat: role ``system``, ``user``, ``assistant`` or ``tool``.

    ``reasoning``: what an assistant thought before; the chat template decides what of it is told again.
    ``tool_calls`` are an assistant's; ``tool_call_id`` says which of them a tool's message answers, and
    ``name`` which tool that was.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One generation. Exactly one of ``messages``, ``prompt`` and ``token_ids`` is given.

    ``reuse_cache`` False starts from an empty KV cache (races and benchmarks, for equal starts).
    ``alone``: nothing else runs meanwhile (races and benchmarks, which are measured).
    ``ignore_eos`` decodes on to ``max_tokens`` (benchmarks).
    ``logit_bias``: what is added to the target's logits of some tokens, before penalties.
    ``alternatives``: how many of the likeliest tokens are told in the place of each token of the reply.
    ``predicted``: text that the reply will likely follow, drafted from before the proposer drafts; it
    changes no words. OpenAI's Predicted Outputs.
    ``grammar``: what the reply must match; one that ``max_tokens`` cuts is the beginning of such a text.
    ``tools`` may be called by a reply to ``messages``, as ``tool_choice`` says.
    ``begun``: tokens of the reply that stand already. It goes on behind them as if it had never stopped;
    ``max_tokens`` counts those that are new.
    """

    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    token_ids: tuple[int, ...] | None = None
    sampling: Sampling = Sampling()
    speculation: Speculation = Speculation()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    reuse_cache: bool = True
    alone: bool = False
    ignore_eos: bool = False
    predicted: str = ""
    logit_bias: tuple[tuple[int, float], ...] = ()
    alternatives: int = 0
    grammar: Grammar | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    begun: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        given = bool(self.messages) + (self.prompt is not None) + (self.token_ids is not None)
        _check(given == 1, "messages", "or prompt must be given: there is nothing to answer.")
        if self.messages:
            _check(
                bool(self.messages[-1].content.strip()) or self.messages[-1].role == "tool",
                "messages",
                "must not end in an empty message: write something first.",
            )
        _check(
            self.max_tokens is None or self.max_tokens >= 1,
            "max_tokens",
            f"is {self.max_tokens}; it must be 1 or more.",
        )
        _check(
            not self.predicted or self.speculation.deepest > 0,
            "predicted",
            "is text to draft from, but this request drafts nothing. Leave it out, or choose another "
            "proposer than 'none' and another controller than 'off'.",
        )
        _check(
            len(self.logit_bias) <= MAX_BIASES,
            "logit_bias",
            f"names {len(self.logit_bias)} tokens; {MAX_BIASES} are the most.",
        )
        for token, bias in self.logit_bias:
            _check(
                -MAX_BIAS <= bias <= MAX_BIAS,
                "logit_bias",
                f"is {bias} for token {token}; it must be {-MAX_BIAS} to {MAX_BIAS}.",
            )
        _check(
            0 <= self.alternatives <= MAX_ALTERNATIVES,
            "alternatives",
            f"is {self.alternatives}; it must be 0 to {MAX_ALTERNATIVES}.",
        )
        _check(
            bool(self.messages) or not self.tools,
            "tools",
            "are offered in a chat alone. Send messages, not a prompt.",
        )
        _check(
            len({tool.name for tool in self.tools}) == len(self.tools),
            "tools",
            "hold a name twice.",
        )
        _check(
            (self.grammar is None and not self.tools) or not self.ignore_eos,
            "ignore_eos",
            "decodes beyond the end of a text, which a grammar does not. Leave one of them out.",
        )
        _check(
            all(self.stop), "stop", "holds an empty string, which would end every reply at once."
        )
        _check(
            len(self.stop) <= MAX_STOPS,
            "stop",
            f"holds {len(self.stop)} strings; {MAX_STOPS} are the most.",
        )
        _check(
            all(len(stop) <= LONGEST_STOP for stop in self.stop),
            "stop",
            f"holds a string of more than {LONGEST_STOP} characters, which are the most.",
        )
