"""Prompts for a model of any kind: code to explain, rewrite and write, and everyday questions.

The code is Python's own library on this machine, so nothing is downloaded. There are thousands of
prompts, the same for the same Python and seed.
"""

from __future__ import annotations

import ast
import random
import sysconfig
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from engine.train.data.prompts import Prompt
from engine.train.schema import subseed
from engine.values.messages import Message

_SHORTEST, _LONGEST = 160, 1600
"""Characters of a function that is asked about: more than a line, and less than a screen or two."""
_PACKAGES = (
    "", "asyncio", "collections", "concurrent/futures", "email", "html", "http", "importlib", "json",
    "logging", "multiprocessing", "unittest", "urllib", "xml/dom", "xml/etree",
)  # fmt: skip

_OF_CODE = (
    "What does this Python function do? Explain it step by step.\n\n{code}",
    "Add type hints and a docstring to this code. Answer with the whole code.\n\n{code}",
    "Rewrite this function so that it is easier to read, and keep what it does.\n\n{code}",
    "Write tests with pytest for this function.\n\n{code}",
    "Rename this function's first argument to `value` everywhere. Answer with code only.\n\n{code}",
    "Translate this function to JavaScript.\n\n{code}",
    "Which inputs would break this function? Name three, and mend the code.\n\n{code}",
    "Describe this function as a JSON object with keys name, arguments, returns and summary.\n\n{code}",
    "Translate this function to C++.\n\n{code}",
    "Add a log line at the beginning and before each return of this code, and show all of it.\n\n{code}",
)
_TO_WRITE = "Write a Python function `{head}`. Its documentation: {docstring}"
_TASKS = (
    "Explain {topic} to somebody who has never heard of it.",
    "Write a short email to a colleague about {topic}.",
    "What are the advantages and drawbacks of {topic}? Answer as a table in Markdown.",
    "Give me five facts about {topic} as a JSON array of strings.",
    "Write a Python class that models {topic}, with an example of how it is used.",
    "What are common mistakes with {topic}, and how are they avoided?",
    "Write a JSON object that describes {topic}, with at least six keys of different types.",
    "Tell a short story in which {topic} matters.",
    "Design an SQL table for data about {topic}, and write three queries on it.",
    "Make a checklist for {topic}, in numbered steps.",
    "Write an HTML page with some CSS about {topic}.",
    "Compare {topic} with an alternative of your choice.",
    "Write a command line program in Go that has to do with {topic}.",
    "Summarise {topic} in three sentences, then in one.",
)
_TOPICS = (
    "binary search", "bread baking", "a public library", "version control", "a bicycle", "hash tables",
    "a weather station", "recursion", "houseplants", "an online shop", "unit tests", "a train timetable",
    "regular expressions", "a school garden", "web caching", "chess", "a job interview", "linked lists",
    "photosynthesis", "a recipe collection", "database indexes", "the moon", "a parking garage",
    "password storage", "coffee", "a hotel booking", "sorting algorithms", "a marathon", "JSON files",
    "a music player", "garbage collection", "bees", "a to-do list", "network latency", "a museum",
    "error handling", "sleep", "an address book", "threads and locks", "a chess clock", "solar power",
    "a bank account", "graph search", "a picnic", "date and time zones", "a rental contract",
    "machine learning", "a vegetable market", "prime numbers", "a message queue", "first aid",
    "a spell checker", "backups", "a puppy", "matrix multiplication", "rain gutters", "a log file",
    "functional programming", "a board game", "noise in an office",
)  # fmt: skip


def general(seed: int) -> list[Prompt]:
    """Return all, shuffled with ``seed``: code and everyday alternate, then the rest."""
    rng = random.Random(subseed(seed, "general"))
    everyday = [task.format(topic=topic) for task, topic in product(_TASKS, _TOPICS)]
    code = [_about(number, function) for number, function in enumerate(_functions())]
    rng.shuffle(everyday)
    rng.shuffle(code)
    both = [text for pair in zip(everyday, code, strict=False) for text in pair]
    rest = everyday[len(code) :] + code[len(everyday) :]
    return [(Message("user", text),) for text in (*both, *rest)]


def _about(number: int, function: tuple[str, str | None]) -> str:
    """Return a prompt about a function; every third with a docstring is to be written from that."""
    source, docstring = function
    if docstring is not None and number % 3 == 0:
        return _TO_WRITE.format(head=source.splitlines()[0].rstrip(":"), docstring=docstring)
    return _OF_CODE[number % len(_OF_CODE)].format(code=f"```python\n{source}\n```")


def _functions() -> Iterator[tuple[str, str | None]]:
    """Yield the source of each, dedented, and the first paragraph of its docstring."""
    library = Path(sysconfig.get_path("stdlib"))
    for package in _PACKAGES:
        for file in sorted((library / package).glob("*.py")):
            try:
                text = file.read_text(encoding="utf-8")
                tree = ast.parse(text)
            except (OSError, ValueError, SyntaxError):
                continue  # a library that was cut down or packed otherwise
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    source = ast.unparse(node)
                    if _SHORTEST <= len(source) <= _LONGEST:
                        docstring = ast.get_docstring(node)
                        yield source, docstring and docstring.split("\n\n")[0].replace("\n", " ")
