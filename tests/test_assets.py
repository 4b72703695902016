"""What ships in assets: the embedded pair's tokenizers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.support.places import PIP

FILES = sorted(PIP.rglob("tokenizer.json"))
NAMES = [file.parent.name for file in FILES]

# What the weights were trained on: other numbers for these texts would make another model of Pip.
ENCODED = {
    "Once upon a time there was a key.": [1367, 973, 264, 554, 528, 346, 264, 1474, 19],
    "  3,141 = 2+2\n\tEnd": [226, 226, 24, 17, 22, 25, 22, 598, 226, 23, 16, 23, 204, 203, 42, 272],
    "Señor 漢字 and 😀": [
        *(3602, 133, 115, 282, 226, 168, 126, 101, 167, 261, 251, 287, 226, 178, 259, 252, 228),
    ],
    "<|bos|><|user|>Hello<|end|>": [0, 4, 983, 1],
}


def test_the_target_and_the_draft_have_one() -> None:
    assert NAMES == ["draft", "target"]


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_it_encodes_as_it_did_when_the_weights_were_trained(file: Path) -> None:
    tokenizer = Tokenizer.from_file(str(file))
    assert tokenizer.get_vocab_size() == 4096
    for text, ids in ENCODED.items():
        assert tokenizer.encode(text).ids == ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_it_is_written_for_people(file: Path) -> None:
    """As ``tokenizers`` writes it: one token and one merge after the other, so that changes show."""
    written = file.read_text(encoding="utf-8")
    assert written == Tokenizer.from_file(str(file)).to_str(pretty=True)
