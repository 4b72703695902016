"""The titles of drafting methods. People read titles; the API and the command line take the names."""

from __future__ import annotations

METHOD_TITLES = {
    "none": "No drafting",
    "draft": "Draft model",
    "ngram": "N-gram",
    "suffix": "Suffix",
    "medusa": "Medusa heads",
    "mtp": "MTP layer",
    "eagle3": "EAGLE-3 head",
    "assistant": "Assistant layers",
    "block": "Block drafter (DFlash)",
    "mlp": "MLP speculator",
    "lstm": "LSTM speculator",
    "hybrid": "Hybrid",
    "best": "Fastest",
    "server": "Server default",
    "predicted": "Earlier reply",
}


def method_title(name: str) -> str:
    """Return the title of a proposer; a name that this version does not know is its own title."""
    return METHOD_TITLES.get(name, name)


def head_title(kind: str, name: str) -> str:
    """Return the title of a head of this kind, with its name where that says more."""
    return method_title(kind) if name == kind else f"{method_title(kind)} ({name})"
