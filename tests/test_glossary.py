"""The glossary's names exist, and names that it replaced do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT, python_files

GLOSSARY = ROOT / "docs" / "glossary.md"
RETIRED = {
    "Turns": "Scheduler", "Lane": "Slot", "Lanes": "Slots", "Passes": "Batcher", "Wait": "WorkItem",
    "Chore": "YieldWork", "Together": "BatchController", "Beside": "BatchMember",
    "Narrator": "OutputProcessor", "Judge": "Verifier", "Judgement": "VerifierOutput",
    "Ending": "StoppingCriteria", "Place": "Device", "Features": "AuxHiddenStates",
    "TappableModel": "HiddenStateModel", "TokenMap": "TrimmedVocabulary",
    "KeptTokens": "VocabularyTrimmer", "Narrowed": "TrimmedHead", "Lexicon": "TokenTable",
    "Transcript": "RetokenizedText", "Recorded": "TracedOperations", "Withheld": "Unavailable",
    "Experience": "ProposerStatistics", "Share": "OtherRequests", "Shelf": "ResponseStore",
    "Course": "RaceSession", "Racing": "RaceRun", "crop": "rewind", "borrow": "copy_prefix",
    "new_cache": "new_state", "KeptTimes": "StoredTimes", "KeptSettings": "StoredSettings",
    "ServerTrouble": "ServerError", "Counters": "ServerMetrics",
    "Chunks": "OutputChunks", "Card": "ModelCard", "Offer": "ServedModel", "Patience": "Retry",
    "Writing": "LiveReply", "OpeningWatcher": "LoadWatcher", "UnrolledTrainer": "SpeculatorTrainer",
    "RunFolder": "RunDirectory", "CrossVocabulary": "OtherVocabulary",
    "read_lexicon": "read_token_table", "likeliest": "top_tokens", "by_sizes": "estimate",
    "patiently": "with_retries", "kept_for": "resolve_stored",
    "Learning": "ControllerFactory", "Foresight": "RecallAccuracy", "Leading": "LeadingSpace",
    "Products": "LinearLibrary", "BlockedLinear": "TiledLinear", "SingleLinear": "RowwiseLinear",
    "Nf4Product": "Nf4Linear", "BulkProduct": "BulkLinear", "Held": "UnfusedLinear",
    "hold": "convert_weight", "Said": "Content", "Called": "CallStart",
    "Asked": "PlanOptions", "Wanted": "TrainingOptions", "Described": "ModelDescription",
    "WritingModel": "GeneratingModel", "first_block": "first_page", "write_on": "generate",
    "forward_among": "forward_trimmed", "side_by_side": "interleave", "PlacedTensor": "LocatedTensor",
    "known_tensor": "role_of", "attend_singly": "attend_rowwise", "decoder_layer": "feed_forward",
}  # fmt: skip
"""Names of classes and functions that nobody outside this project would know, and their successors."""


def defined() -> Iterator[tuple[Path, str]]:
    """Every class, function and method of the shipped code."""
    for folder in ("app", "engine"):
        for path in python_files(ROOT / folder):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield path, node.name


@pytest.fixture(scope="module")
def names() -> dict[str, Path]:
    return {name: path for path, name in defined()}


def test_retired_names_do_not_come_back(names: dict[str, Path]) -> None:
    back = {
        f"{path.relative_to(ROOT)}: {name} is called {RETIRED[name]}"
        for name, path in names.items()
        if name in RETIRED
    }
    assert not back, "\n".join(sorted(back))


def test_names_of_the_glossary_exist(names: dict[str, Path]) -> None:
    rows = re.findall(r"^\| [^|]+ \| ([^|]*) \|", GLOSSARY.read_text(encoding="utf-8"), re.M)
    told = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(told) > 25
    for name in told:
        assert (ROOT / name).exists() if "/" in name else name in names, f"{name} is not there"


def test_what_replaced_a_name_exists(names: dict[str, Path]) -> None:
    assert not set(RETIRED.values()) - set(names)
