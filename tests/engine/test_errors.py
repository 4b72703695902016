"""What errors of other libraries are called for people."""

from __future__ import annotations

import pytest
from huggingface_hub.errors import (
    StrictDataclassClassValidationError,
    StrictDataclassFieldValidationError,
)

from engine.errors import what_failed

WRONG_FIELD = TypeError("Field 'hidden_size' expected int, got str (value: 'a')")
ODD_HEADS = ValueError("The hidden size (5) is not a multiple of the number of heads (2).")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            StrictDataclassFieldValidationError("hidden_size", WRONG_FIELD),
            "key 'hidden_size' has an invalid value",
        ),
        (StrictDataclassClassValidationError("heads", ODD_HEADS), str(ODD_HEADS).rstrip(".")),
        (FileNotFoundError(2, "No such file or directory", "/x"), "No such file or directory"),
        (TypeError("'NoneType' object is not iterable"), "it has an invalid value"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_reasons_are_for_people(error: Exception, said: str) -> None:
    """A config.json with a wrong value was answered with "expected int, got str"."""
    assert what_failed(error) == said
