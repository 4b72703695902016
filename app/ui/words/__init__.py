"""What the pages say from Python. How loading goes is said in app/loading.py; what a script says stands
in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.storage.imports.importing import Summary
from engine.api import AS_STORED
from engine.events import Started
from engine.loading.inventory import Forecast
from engine.stats import Statistics, times
from engine.values.method_titles import method_title
from engine.values.units import counted, format_bytes

# Chat
NOT_LOADED = "No model is loaded. Choose one at the top, or open Models."
GONE = "This message no longer exists. Reload the page."
EMPTY = "The message is empty."
NO_FOLDER_NAME = "Enter a folder name."
TOO_MANY_WAIT = "Too many requests are waiting for other servers. Try again in half a minute."
ATTACHMENT_GONE = "An attachment is no longer stored. Remove it, then attach the file again."
SYSTEM_PROMPTS: dict[str, str] = {
    "Concise": "Answer in as few words as the question allows. No introduction, no summary.",
    "Code reviewer": "You review code. Name each problem and where it is, say why it is one, and "
    "show the smallest change that fixes it. Skip what is fine.",
    "Tutor": "You are a patient teacher. Explain one step at a time in plain words, with a "
    "small example. End with one question that checks understanding.",
}
"""System prompts that come with the app, by name."""
FAILED = (
    "Something went wrong in Foretoken. Try again, or restart it. Diagnostics on the Settings page "
    "shows the error; please report it."
)


def with_draft(draft: Mapping[str, str]) -> str:
    """Return what drafts for a model, for its row in a list: a second model, or a part of its own."""
    if not draft["id"]:
        return draft["name"]
    size = re.search(r"\d+(\.\d+)?[BM]\b", draft["name"])
    return f"+ {size.group()} draft" if size else f"+ {draft['name']}"


def field_malformed(name: str) -> str:
    return f"The page sent an invalid value for {name}. Reload the page and try again."


# Side panel
NO_DRAFT = "No draft"
QUANTIZATIONS: dict[str, str] = {
    "auto": "Automatic",
    "fp32": "32 bits",
    "bf16": "16 bits (bf16)",
    "int8": "8 bits (int8)",
    "q4": "4 bits (q4)",
    "nf4": "4 bits (NF4)",
    "stored": "As in the GGUF file",
}
DRAFT_DEVICES: dict[str, str] = {"auto": "Automatic", "cuda": "GPU", "cpu": "CPU"}
KV_CACHES: dict[str, str] = {"auto": "Same as the model", "fp8": "8 bits (fp8)"}
LOAD = "Load"
THINKING: dict[str, str] = {
    "": "Thinking: automatic",
    "off": "Thinking: off",
    "on": "Thinking: on",
    "low": "Thinking: low",
    "medium": "Thinking: medium",
    "high": "Thinking: high",
}

# Race and tune
MEASURED_PAIR_GONE = (
    "Another model was loaded, so the measurement was stopped. Its results belong "
    "to the earlier model."
)

# Models
ADDRESS_EMPTY = "Enter a server address, such as http://127.0.0.1:8000."
BROWSE_AWAY = (
    "Folders can be browsed only on the machine that runs Foretoken. Type the path instead."
)
SECRET_KEPT: dict[str, str] = {
    "keyring": "The {what} is stored in the system keyring.",
    "file": "This system has no keyring, so the {what} is stored in {file}, readable only by you.",
}
TOKEN_AT: dict[str, str] = {
    "nowhere": "No access token is stored. Gated models need one.",
    "environment": "Using the access token from HF_TOKEN.",
    "keyring": "The access token is in the system keyring.",
    "file": "The access token is in {file}, readable only by you.",
    "login": "Using the access token of hf auth login.",
}

# Train
KINDS: dict[str, str] = {
    "medusa": "One small head for each of the next tokens. The simplest and fastest to train; later "
    "heads do not see earlier guesses.",
    "eagle3": "One layer that reads the model at three depths, then its own guesses. Highest "
    "acceptance; slower to train.",
    "mlp": "One small layer per guess. Fast to draft with; best for the next 1-2 tokens.",
    "lstm": "Like the MLP speculator, with memory between guesses. Slightly slower to draft with.",
    "block": "Guesses a whole block of tokens in one pass. Best if long blocks are accepted; needs "
    "lots of data.",
    "draft": "A small language model that imitates the large one. Works in other engines too; needs "
    "the most training.",
}

DOWNLOADS = "downloads"
SHIPPED = "included"


def imported(found: Summary) -> list[str]:
    """Return what came of an import, and what did not."""
    chats = counted(len(found.chats), "chat")
    where = f" from {found.source}" if found.source else ""
    told = f", {counted(found.messages, 'message')}" if found.messages else ""
    said = [f"Imported {chats}{where}{told}."] if found.chats else []
    if found.known:
        they = "they are" if len(found.known) > 1 else "it is"
        said.append(f"Skipped {counted(len(found.known), 'chat')}{where}: {they} here already.")
    if found.left_out:
        parts = ", ".join(f"{kind} ({n:,})" for kind, n in sorted(found.left_out.items()))
        said.append(f"Left out: {parts}. The messages say where a picture or file was.")
    if found.failures:
        said.append(f"Not imported: {found.failures:,}.")
        said += [f"{title or 'A chat without a title'}: {why}" for title, why in found.failed]
    return said


def pages_given(unit: str, given: str, count: int, left_out: str, to_fit: bool) -> str:
    many = "s" if "-" in given or "," in given else ""
    if not to_fit:
        return f"{unit}{many} {given} of {count}, without {left_out}."
    verb = "do" if "-" in left_out or "," in left_out else "does"
    return f"{unit}{many} {given} of {count}; {left_out} {verb} not fit the context."


def too_many_tokens(over: int, context: int, used: int) -> str:
    taken = f", and this chat takes {used:,}" if used > 99 else ""
    return (
        f"Too long by {counted(over, 'token')}: the context holds {context:,}{taken}. Choose fewer "
        "pages or remove an attachment."
    )


def found(name: str, path: str) -> str:
    """Name another program's model by the last part of its name and of the path where it is, unless that
    is the model's own folder."""
    last, where = name.rsplit("/", 1)[-1], place(path)
    return last if last == where else f"{last} · {where}"


def place(path: str) -> str:
    """Return the last part of a path."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def held(forecast: Forecast, type: str = "") -> str:
    """Return what a model takes in memory, its weights' format or a file's ``type``, and where it is if
    the machine has a GPU: "4.9 GB in 4 bits on the GPU"."""
    bits = QUANTIZATIONS[forecast.quantization].split(" (")[0]
    stored = f"in {type}" if type else "as stored"
    kind = stored if forecast.quantization == AS_STORED else f"in {bits}"
    return f"{format_bytes(forecast.memory_fit.needed)} {kind} {forecast.where}".rstrip()


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def replay_facts(started: Started, statistics: Statistics) -> str:
    parts = [
        method_title(started.proposer),
        f"rule {started.acceptance}",
        f"{counted(statistics.completion_tokens, 'token')} in {counted(statistics.rounds, 'round')}",
    ]
    if statistics.tokens_per_s:
        parts.append(f"{statistics.tokens_per_s:.1f} tokens/s")
    if statistics.telling_speedup:
        parts.append(f"{times(statistics.telling_speedup)} the speed without drafting")
    return " · ".join(parts)


def count(number: int) -> str:
    """Return ``7.5 M`` for 7,500,000. A number whose three digits round up to 1000 gets the next unit."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g} {unit}"
    return str(number)
