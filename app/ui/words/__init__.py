"""What the pages say from Python. How loading goes is said in app/loading.py, the scripts' own words in
words.ts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.storage.imports.importing import Summary
from engine.api import AS_STORED
from engine.events import Started
from engine.stats import Statistics, times
from engine.values.method_titles import method_title
from engine.values.units import counted, format_bytes

TITLE = "Foretoken"
CHAT, RACE, TUNE = "Chat", "Race", "Tune"
MODELS, TRAIN, SERVER = "Models", "Train", "Server"
PLAN, SETTINGS = "Plan", "Settings"

# Chat
BUSY = "A reply is still being written in this chat. Stop it first, or wait."
NOT_LOADED = "No model is loaded. Choose one at the top, or open Models."
STILL_LOADING = "The model is still loading. Send again when it is ready."
NO_TARGET = "Choose a model first."
GONE = "This message no longer exists. Reload the page."
CANNOT_GO_ON = (
    "The loaded model cannot continue this reply: another model wrote it, or its "
    "tokens were not stored. Load the model named below the reply, or press Retry."
)
EMPTY = "The message is empty."
TOO_LATE = "Nothing to undo."
NO_FOLDER_NAME = "Enter a folder name."
NO_PROMPT_NAME = "Enter a name for the preset."
NO_PROMPT_TEXT = "The system prompt is empty. Write it first, then save it."
ATTACHMENT_BROKEN = "An attachment is not text. Remove it, or attach a PDF, Word or text file."
PRIVATE_PAGE_AWAY = (
    "Pages on the computer that runs Foretoken, or on its network, can only be added in a browser on "
    "that computer."
)
TOO_MANY_WAIT = "Too many requests are waiting for other servers. Try again in half a minute."
FORK = " (fork)"
CALLS_NOT_EDITED = "A reply that calls tools cannot be edited. Retry it, or edit your message."
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
    "Something went wrong in Foretoken; details are in its terminal. Nothing was "
    "lost. Try again, or restart Foretoken."
)


def with_draft(draft: Mapping[str, str]) -> str:
    """Return what drafts for a model, for its row in a list: a second model, or a part of its own."""
    if not draft["id"]:
        return draft["name"]
    size = re.search(r"\d+(\.\d+)?[BM]\b", draft["name"])
    return f"+ {size.group()} draft" if size else f"+ {draft['name']}"


def field_malformed(name: str) -> str:
    return f"The page sent an invalid value for {name}. Reload the page and try again."


def field_missing(name: str) -> str:
    return f"The page did not send {name}. Reload the page and try again."


# A reply as a file
WHOLE_REPLY = "Full reply"
NO_ROUNDS = (
    "No round data for this reply: it stopped before the first round, or came from "
    "a server that does not report rounds. Choose another reply, or save it as "
    "JSONL."
)

# Side panel
DRAFT = "Draft"
NO_DRAFT = "No draft"
QUANTIZATION = "Weights"
QUANTIZATIONS: dict[str, str] = {
    "auto": "Automatic",
    "fp32": "32 bits",
    "bf16": "16 bits (bf16)",
    "int8": "8 bits (int8)",
    "q4": "4 bits (q4)",
    "nf4": "4 bits (NF4)",
    "stored": "As in the GGUF file",
}
KV_CACHES: dict[str, str] = {"auto": "Same as the model", "fp8": "8 bits (fp8)"}
LOAD = "Load"
LOAD_DOWNLOAD = "Download and load"
SPECULATION = "Speculation"
CONTROLLER = "Drafting"
CONTROLLER_INFO = "auto adapts the depth; fixed uses the depth below"
DEPTH = "Depth"
DEPTH_INFO = "Drafted tokens per round"
ACCEPTANCE = "Acceptance"
ACCEPTANCE_INFO = "auto: greedy at temperature 0, else coupled"
SAMPLING = "Sampling"
TEMPERATURE = "Temperature"
TEMPERATURE_INFO = "0 = deterministic"
TOP_P = "Top-p"
TOP_K = "Top-k"
TOP_K_INFO = "0 = off"
MIN_P = "Min-p"
REPETITION = "Repetition penalty"
PRESENCE = "Presence penalty"
FREQUENCY = "Frequency penalty"
SEED = "Seed"
SEED_INFO = "Empty = random"
REPLY = "Reply"
MAX_TOKENS = "Max tokens"
MAX_TOKENS_INFO = "Empty = until the context is full"
BUDGET = "Thinking budget"
BUDGET_INFO = "Most tokens per thought. Empty = no limit"
THINKING: dict[str, str] = {
    "": "Thinking: automatic",
    "off": "Thinking: off",
    "on": "Thinking: on",
    "low": "Thinking: low",
    "medium": "Thinking: medium",
    "high": "Thinking: high",
}
STOP = "Stop strings"
STOP_INFO = "One per line"
SYSTEM = "System prompt"
BALANCED, FIXED, EXACT = "Balanced", "Deterministic", "Exact"
EXACT_INFO = "Temperature 0, drafting off: to check that Deterministic writes the same text."

# Settings
SETTING_FIXED = (
    "This is set on the command line. Start Foretoken without that option to change it here."
)
NOT_ON_THIS_SCREEN = (
    "Foretoken runs on another machine and can open folders only there. Copy the path instead."
)
NO_FILE_MANAGER = "No file manager found. Copy the path instead."
STILL_WRITING = (
    "A reply could not be stopped, so nothing was deleted. Wait until it ends and try again."
)

# Race and tune
MEASURING = (
    "Another measurement is running, and the two would slow each other down. Wait, or stop it."
)
MEASURED_PAIR_GONE = (
    "Another model was loaded, so the measurement was stopped. Its results belong "
    "to the earlier model."
)
TUNE_NO_PROMPTS = "Choose the prompts: your own, or the included set."
TUNE_NO_METHODS = "Choose at least one method."
TUNE_NOTHING = "No prompt was measured completely yet, so there is nothing to save."
TUNE_NO_VERDICT = "No method was confirmed as the fastest, so there is nothing to save. Tune again."
TUNE_OTHER_PAIR = (
    "Another model is loaded now, and these results belong to the earlier one. Tune again."
)
RACE_GONE = "This race is no longer available. Start a new one."

# Models
ADDRESS_EMPTY = "Enter a server address, such as http://127.0.0.1:8000."
FOLDER_EMPTY = "Enter the path of a model folder or a GGUF file."
PLACE_EMPTY = "Enter the path of a folder with models."
BROWSE_AWAY = (
    "Folders can be browsed only on the machine that runs Foretoken. Type the path instead."
)
DROPPED_WHERE = (
    "Browsers hide file locations, and {name} is not in the usual folders. Paste "
    "its path, or browse for it."
)
LAYOUT = "safetensors"
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

# Server
THIS_MACHINE = "this machine"

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
TRAIN_MINUTES = "Enter a number of minutes."
TRAIN_FILE = "Enter the path of a prompt file."

DOWNLOADS = "downloads"
SHIPPED = "included"
MTP_INSIDE = "MTP included"
FILES_MISSING = "Its files are missing."


def writer_gone(model: str) -> str:
    found = f"{model} was not found on this machine."
    return f"{found} Add its folder on Models, or continue with the loaded model."


def prompt_too_long(most: int) -> str:
    return f"The system prompt is longer than {most:,} characters. Shorten it."


def prompt_taken(name: str) -> str:
    return f"{name} is the name of an included preset. Choose another name."


def prompt_gone(name: str) -> str:
    return f"The preset {name} was deleted. Choose another one for this chat."


def files_too_large(most: int, megabytes: int) -> str:
    size = f"{megabytes} MB of text in total"
    return f"At most {most} files with {size} per message. Remove some."


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


def upload_too_large(megabytes: int) -> str:
    return f"This file is larger than {megabytes} MB. Choose a smaller one, or a part of it."


def upload_too_slow(seconds: float) -> str:
    return (
        f"The upload stopped: nothing arrived for {seconds:.0f} s, or too little. Check the connection "
        "and add the file again."
    )


def pages_malformed(typed: str, count: int) -> str:
    return (
        f"“{typed}” names no page from 1 to {count}, so all that fit are included. Type pages as "
        "1-3, 7."
    )


def pages_beyond(unit: str, count: int) -> str:
    return f"There {'is' if count == 1 else 'are'} only {counted(count, unit.lower())}."


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


def writer(model: str | None, method: str | None) -> str | None:
    """Return the line below a reply; None if it was not stored."""
    return " · ".join(filter(None, (model, method))) or None


def opening(pair: str, message: str) -> str:
    """Name each model by the last part of its path."""
    return f"{message} {' + '.join(map(place, pair.split(' + ')))}"


def away(name: str, download: str | None) -> str:
    return f"{name}, {download} to download" if download else f"{name}, files missing"


def architecture(name: str) -> str:
    """Return the name of transformers' class without its task."""
    return re.sub(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration)$", "", name)


def found(name: str, path: str) -> str:
    """Name another program's model by the last part of its name and of the path where it is, unless that
    is the model's own folder."""
    last, where = name.rsplit("/", 1)[-1], place(path)
    return last if last == where else f"{last} · {where}"


def place(path: str) -> str:
    """Return the last part of a path."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def other_vocabulary(name: str) -> str:
    return f"{name}, different vocabulary"


def tried(speedup: float, replies: int) -> str:
    chats = "1 reply" if replies == 1 else f"the last {replies} replies"
    return f"{times(speedup)} in {chats} here"


def raced(speedup: float) -> str:
    return f"{times(speedup)} in the last race"


def held(needed: int, quantization: str, type: str = "") -> str:
    """Return what a model takes in memory, and its weights' format: \"4.9 GB in 4 bits\", or a file's
    ``type``."""
    bits = QUANTIZATIONS[quantization].split(" (")[0]
    stored = f"in {type}" if type else "as stored"
    return f"{format_bytes(needed)} {stored if quantization == AS_STORED else f'in {bits}'}"


def too_long(context: int, longest: int, largest: int) -> str:
    """Refuse a ``context`` beyond a model's ``longest``, of which ``largest`` tokens fit now."""
    fit = "" if largest >= longest else f", of which {largest:,} fit into memory now"
    return (
        f"The context cannot be {context:,} tokens: this model has {longest:,}{fit}. "
        f"Enter {longest:,} or less."
    )


def loads_there(model: str, place: str, out: str) -> str:
    """Say that a server would load its model for the race."""
    said = f"{model} is not loaded on {place}. The race will load it"
    if not out:
        return f"{said}."
    return f"{said} and unload {out}, which others may be using."


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def no_reply(number: int | None, count: int) -> str:
    if not count:
        return "This trace has no replies. Use a file from `foretoken chat --trace`."
    return f"This trace has {counted(count, 'reply', 'replies')}, and none is number {number}."


def replay_of(model: str) -> str:
    return f"A reply by {model}, round by round" if model else "A reply, round by round"


def replay_facts(started: Started | None, statistics: Statistics) -> str:
    parts = [method_title(started.proposer), f"rule {started.acceptance}"] if started else []
    parts.append(
        f"{counted(statistics.completion_tokens, 'token')} in {counted(statistics.rounds, 'round')}"
    )
    if statistics.tokens_per_s:
        parts.append(f"{statistics.tokens_per_s:.1f} tokens/s")
    if statistics.speedup and statistics.drafted:
        parts.append(f"{times(statistics.speedup)} the speed without drafting")
    return " · ".join(parts)


def measuring_failed(error: Exception) -> str:
    return f"The measurement failed: {error!r}. Details are in the terminal. Try again."


def memory(free: str, total: str) -> str:
    return f"{free} of {total} memory free"


def weights_alone(size: str, free: str) -> str:
    return f"The weights alone need {size}; {free} of memory are free"


def disk_refused(error: OSError) -> str:
    return f"The disk reports: {error.strerror or error}. Check permissions and try again."


def count(number: int) -> str:
    """Return ``7.5 M`` for 7,500,000. A number whose three digits round up to 1000 gets the next unit."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g} {unit}"
    return str(number)
