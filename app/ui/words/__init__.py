"""What the pages say from Python. How loading goes is said in app/loading.py, the scripts' own words in
words.js."""

from __future__ import annotations

import re
from typing import ClassVar

from engine.api import AS_STORED
from engine.events import Started
from engine.loading.inventory import Forecast
from engine.stats import Statistics, times
from engine.values.units import format_bytes


class Words:
    """Names, hints and sentences; no logic beyond filling in figures."""

    TITLE = "Foretoken"
    CHAT, RACE, TUNE = "Chat", "Race", "Tune"
    MODELS, TRAIN, SERVER = "Models", "Train", "Server"
    PLAN, SETTINGS = "Plan", "Settings"

    # Chat
    BUSY = "This chat is still being answered. Stop that reply first, or wait for it."
    NOT_LOADED = "No model is loaded. Choose a pair above the chat and press Load, or open Models."
    STILL_LOADING = "The model is still loading. Send again once its name stands above the chat."
    NO_TARGET = "Choose a target first."
    GONE = "This message is no longer there. Reload the page to see the chat as it is."
    CANNOT_GO_ON = (
        "What is loaded cannot go on with this reply: another model wrote it, or its tokens are not "
        "known. Load the model that is named below it, or press Retry."
    )
    EMPTY = "Write something first: the message is empty."
    TOO_LATE = (
        "There is nothing to take back: what was deleted is there again, or it is too late and gone for "
        "good."
    )
    NO_FOLDER_NAME = "Give the folder a name first."
    NO_PROMPT_NAME = "Give the system prompt a name first."
    NO_PROMPT_TEXT = "The system prompt is empty. Write it first, then save it under a name."
    NO_TEXT_FILE = "Only text files can be attached. Choose one that holds text."
    SYSTEM_PROMPTS: ClassVar[dict[str, str]] = {
        "Concise": "Answer in as few words as the question allows. No introduction, no summary.",
        "Code reviewer": "You review code. Name each fault with its place, say why it is one, and show "
        "the smallest change that mends it. Say nothing of what is fine.",
        "Tutor": "You are a patient teacher. Explain one step at a time in plain words, with a small "
        "example, and end with one question that checks whether it was understood.",
    }
    """System prompts that come with the app, by name."""
    FAILED = (
        "The app failed at this, which is its own mistake; its terminal says more. "
        "Nothing was lost: try again, or restart the app."
    )

    @staticmethod
    def field_malformed(name: str) -> str:
        return f"The page sent {name} in a form that it never has. Reload the page, then try again."

    @staticmethod
    def field_missing(name: str) -> str:
        return f"The page left out {name}. Reload the page, then try again."

    # A reply as a file
    WHOLE_REPLY = "The whole reply"
    NO_ROUNDS = (
        "This reply has no rounds to play: its engine showed none, or it ended before the first. "
        "Choose another reply, or save it as JSONL."
    )

    # Side panel
    TARGET = "Target"
    TARGET_INFO = "Writes the reply"
    DRAFT = "Draft"
    DRAFT_INFO = "Guesses ahead; only fitting ones"
    NO_DRAFT = "No draft"
    QUANTIZATION = "Weights"
    QUANTIZATION_INFO = "Fewer bits take less memory"
    QUANTIZATIONS: ClassVar[dict[str, str]] = {
        "auto": "What suits the machine",
        "fp32": "32 bits",
        "bf16": "16 bits (bf16)",
        "int8": "8 bits (int8)",
        "q4": "4 bits (q4)",
        "nf4": "4 bits (NF4)",
        "stored": "As the GGUF file stores them",
    }
    KV_CACHE = "KV cache"
    KV_CACHE_INFO = "fp8 takes half the memory, on a GPU"
    KV_CACHES: ClassVar[dict[str, str]] = {"auto": "As the model computes", "fp8": "8 bits (fp8)"}
    LOAD = "Load"
    LOAD_DOWNLOAD = "Download and load"
    CONNECT = "Connect"
    SERVER_DRAFTS = "What the server drafts with"
    SERVER_HOLDS = "As the server has it"
    SPECULATION = "Speculation"
    CONTROLLER = "Drafting"
    CONTROLLER_INFO = "auto: as far as it pays, by measuring; fixed: to the depth below"
    DEPTH = "Depth"
    DEPTH_INFO = "Drafted tokens a round"
    ACCEPTANCE = "Acceptance"
    ACCEPTANCE_INFO = "auto: greedy at temperature 0, else coupled"
    SAMPLING = "Sampling"
    TEMPERATURE = "Temperature"
    TEMPERATURE_INFO = "0: always the likeliest"
    TOP_P = "Top-p"
    TOP_K = "Top-k"
    TOP_K_INFO = "0: off"
    MIN_P = "Min-p"
    REPETITION = "Repetition penalty"
    PRESENCE = "Presence penalty"
    FREQUENCY = "Frequency penalty"
    SEED = "Seed"
    SEED_INFO = "Empty: a new one each time"
    REPLY = "Reply"
    MAX_TOKENS = "Max tokens"
    MAX_TOKENS_INFO = "Empty: to the end of the context"
    BUDGET = "Thinking budget"
    BUDGET_INFO = "Tokens after which a thought is ended; empty: no limit"
    THINKING: ClassVar[dict[str, str]] = {
        "": "Thinking: model's default",
        "off": "Thinking: no",
        "on": "Thinking: yes",
        "low": "Thinking: a little",
        "medium": "Thinking: medium",
        "high": "Thinking: a lot",
    }
    STOP = "Stop strings"
    STOP_INFO = "One a line"
    SYSTEM = "System prompt"
    BALANCED, FIXED, EXACT = "Balanced", "Deterministic", "Exact"
    EXACT_INFO = (
        "Plain decoding at temperature 0: nothing is drafted. Deterministic writes the same words, "
        "sooner; this is to check it."
    )

    # Settings
    SETTING_FIXED = (
        "The command line states this, so it stays as it is. Start Foretoken without that option to "
        "choose it here."
    )
    NOT_ON_THIS_SCREEN = (
        "Folders open on the machine that Foretoken runs on, and your browser is on another one. Copy "
        "the path instead."
    )
    NO_FILE_MANAGER = "No file manager could be started here. Copy the path instead."
    STILL_WRITING = (
        "A reply could not be stopped, so nothing was forgotten. Wait for its end, then try again."
    )

    # Race and tune
    MEASURING = (
        "Something is being measured already, and two would slow each other. Wait, or stop it."
    )
    MEASURED_PAIR_GONE = (
        "Another model was loaded meanwhile, so this was ended: what was measured is of the one "
        "before."
    )
    TUNE_NO_PROMPTS = "Choose prompts to measure on: your own last ones, or the app's set."
    TUNE_NO_METHODS = "Choose at least one method that the loaded pair has."
    TUNE_NOTHING = "Nothing was measured to the end of a prompt yet, so there is nothing to keep."
    TUNE_OTHER_PAIR = (
        "Another model is loaded now; what was measured is of the one before. Tune again."
    )
    RACE_GONE = "This race is over and forgotten. Start a new one."

    # Models
    ADDRESS_EMPTY = "Give the address of a server, such as http://127.0.0.1:8000."
    FOLDER_EMPTY = "Give the path of a folder that holds a model, or of a GGUF file."
    PLACE_EMPTY = "Give the path of a folder with models."
    BROWSE_AWAY = (
        "Folders are shown to a browser on the machine that Foretoken runs on, and to no other. "
        "Type the path instead."
    )
    DROPPED_WHERE = (
        "The browser does not tell where {name} lies, and it was not found in the usual places. Type its "
        "path, or browse for it."
    )
    LAYOUT = "safetensors"
    SECRET_KEPT: ClassVar[dict[str, str]] = {
        "keyring": "The {what} is kept in this system's keyring.",
        "file": "This system has no keyring, so the {what} is kept in {file}, which you alone can read.",
    }
    TOKEN_AT: ClassVar[dict[str, str]] = {
        "nowhere": "No access token is kept. Gated models ask for one.",
        "environment": "The access token is that of HF_TOKEN.",
        "keyring": "The access token is in this system's keyring.",
        "file": "The access token is in {file}, which you alone can read.",
        "login": "The access token is that of hf auth login.",
    }

    # Server
    THIS_MACHINE = "this machine"

    # Train
    KINDS: ClassVar[dict[str, tuple[str, str]]] = {
        "medusa": (
            "Medusa heads",
            "A small head for each of the next few tokens. The simplest, and quick to learn; its later "
            "heads do not know what the earlier ones guessed.",
        ),
        "eagle3": (
            "EAGLE-3 head",
            "One layer that reads the model at three depths, then its own guesses. Published ones are "
            "accepted most often; learns longer.",
        ),
        "mlp": (
            "MLP speculator",
            "A small layer for each guess, fed by the model's last state and the guess before it. "
            "Quick to draft with; surer near than far ahead.",
        ),
        "lstm": (
            "LSTM speculator",
            "Like the MLP, with gates that decide what to remember from guess to guess. Costs a little "
            "more for each guess.",
        ),
        "block": (
            "Block drafter",
            "Guesses a whole block of tokens in one pass instead of one after the other. Pays where long "
            "blocks are accepted; needs much to learn from.",
        ),
        "draft": (
            "Draft model",
            "A small language model of its own that imitates the large one. Other engines can use it "
            "too; it needs the most training.",
        ),
    }
    TRAIN_MINUTES = "Give the minutes as a number."
    TRAIN_FILE = "Give the path of a file of prompts."

    DOWNLOADS = "downloads"
    SHIPPED = "shipped with the app"
    MTP_INSIDE = "MTP, in its file"
    FILES_MISSING = "Its files are not here."

    @staticmethod
    def writer_gone(model: str) -> str:
        found = f"{model} was not found on this machine."
        return f"{found} Add its folder on Models, or go on with what is loaded."

    @staticmethod
    def prompt_too_long(most: int) -> str:
        return (
            f"The system prompt has more than {most:,} characters, which are the most. Shorten it."
        )

    @staticmethod
    def prompt_taken(name: str) -> str:
        return f"A system prompt that comes with the app is called {name}. Choose another name."

    @staticmethod
    def prompt_gone(name: str) -> str:
        return f"The system prompt {name} was deleted. Choose another one for this chat."

    @staticmethod
    def files_too_large(most: int, kilobytes: int) -> str:
        size = f"{kilobytes} KB of text together"
        return f"At most {most} files with {size} go with a message. Attach less."

    @staticmethod
    def writer(model: str | None, method: str | None) -> str | None:
        """Return the line below a reply; None if it was not stored."""
        return " · ".join(filter(None, (model, method))) or None

    @staticmethod
    def opening(pair: str, message: str) -> str:
        """Name each model by the last part of its path."""
        return f"{message} {' + '.join(map(Words.place, pair.split(' + ')))}"

    @staticmethod
    def away(name: str, download: str | None) -> str:
        return f"{name}, {download} to download" if download else f"{name}, files missing"

    @staticmethod
    def architecture(name: str) -> str:
        """Return the name of transformers' class without its task."""
        return re.sub(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration)$", "", name)

    @staticmethod
    def found(name: str, place: str) -> str:
        """Name another program's model by the last part of its name and the place, unless the place is
        the model's own folder."""
        last, where = name.rsplit("/", 1)[-1], Words.place(place)
        return last if last == where else f"{last} · {where}"

    @staticmethod
    def place(place: str) -> str:
        """Return the last part of a path."""
        return re.split(r"[/\\]", place.rstrip("/\\"))[-1]

    @staticmethod
    def other_vocabulary(name: str) -> str:
        return f"{name}, another vocabulary"

    @staticmethod
    def on_server(name: str) -> str:
        return f"{name} · server"

    @staticmethod
    def tried(speedup: float, replies: int) -> str:
        chats = "1 reply" if replies == 1 else f"the last {replies} replies"
        return f"{times(speedup)} in {chats} here"

    @staticmethod
    def raced(speedup: float) -> str:
        return f"{times(speedup)} in the last race"

    @staticmethod
    def held(found: Forecast, type: str = "") -> str:
        """Return size and format of a target's weights: \"4.9 GB in 4 bits\", or a file's ``type``."""
        bits = Words.QUANTIZATIONS[found.quantization].split(" (")[0]
        stored = f"in {type}" if type else "as stored"
        held = stored if found.quantization == AS_STORED else f"in {bits}"
        return f"{format_bytes(found.memory_fit.models[0].weights)} {held}"

    @staticmethod
    def loads_there(model: str, place: str, out: str) -> str:
        """Say that a server would load its model for the race."""
        said = f"{model} is not in the memory of {place}. The race has it loaded there"
        if not out:
            return f"{said}."
        return f"{said}, in the place of {out}, which others may be using."

    @staticmethod
    def duration(seconds: float) -> str:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"

    @staticmethod
    def no_reply(number: int | None, count: int) -> str:
        if not count:
            return "The trace holds no reply. Give a file that `foretoken chat --trace` wrote."
        return f"The trace holds {count} replies, so there is no number {number}."

    @staticmethod
    def replay_of(model: str) -> str:
        return f"A reply by {model}, round by round" if model else "A reply, round by round"

    @staticmethod
    def replay_facts(started: Started | None, statistics: Statistics) -> str:
        parts = [f"drafted by {started.proposer}", f"rule {started.acceptance}"] if started else []
        parts.append(f"{statistics.completion_tokens} tokens in {statistics.rounds} rounds")
        if statistics.tokens_per_s:
            parts.append(f"{statistics.tokens_per_s:.1f} tokens/s")
        if statistics.speedup and statistics.drafted:
            parts.append(f"{statistics.speedup:.1f} times as fast as plain decoding")
        return " · ".join(parts)

    @staticmethod
    def measuring_failed(error: Exception) -> str:
        return f"Measuring broke off: {error!r}. The terminal has the details; try again."

    @staticmethod
    def memory(free: str, total: str) -> str:
        return f"{free} of {total} memory are free"

    @staticmethod
    def weights_alone(size: str, free: str) -> str:
        return f"{size} for the weights alone, {free} of memory are free"

    @staticmethod
    def disk_refused(error: OSError) -> str:
        return f"The disk refused: {error.strerror or error}. Check permissions, then try again."


def count(number: int) -> str:
    """Return ``7.5 M`` for 7,500,000. A number whose three digits round up to 1000 gets the next unit."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g} {unit}"
    return str(number)
