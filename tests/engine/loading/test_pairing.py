"""Which draft fits which target, or drafts across vocabularies, and which tokenizers are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.loading import drafts
from engine.loading.catalog import load_catalog, local_spec
from engine.loading.drafts import best_draft, break_even, judge_draft
from engine.loading.planning.pairing import caution, compare, vocabularies
from engine.loading.specs import ModelSpec, bytes_read
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.tokenizer_files import tokenizer_signature
from tests.support.checkpoints import write_tokenizer
from tests.support.folders import tokenizer_json, write_files, write_model
from tests.support.places import ROOT
from tests.support.vocabularies import write_sentencepiece


def test_merges_in_both_notations_are_the_same_tokenizer(tmp_path: Path) -> None:
    tokens = ["a", "b", "ab"]
    old = write_files(
        tmp_path / "old", {"tokenizer.json": tokenizer_json(tokens, ["a b"]).encode()}
    )
    content = json.loads(tokenizer_json(tokens))
    content["model"]["merges"] = [["a", "b"]]
    new = write_files(tmp_path / "new", {"tokenizer.json": json.dumps(content).encode()})
    assert tokenizer_signature(old).difference(tokenizer_signature(new), below=3) is None


def test_a_changed_tokenizer_file_is_read_again(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    before = tokenizer_signature(folder)
    (folder / "tokenizer.json").write_text(tokenizer_json(["another"]))
    assert tokenizer_signature(folder).vocabulary != before.vocabulary


def test_older_tokenizer_files_are_compared_as_a_whole(tmp_path: Path) -> None:
    one = write_files(tmp_path / "one", {"tokenizer.model": b"sentencepiece"})
    same = write_files(tmp_path / "same", {"tokenizer.model": b"sentencepiece"})
    other = write_files(tmp_path / "other", {"tokenizer.model": b"different"})
    assert tokenizer_signature(one).difference(tokenizer_signature(same), below=9) is None
    assert tokenizer_signature(one).difference(tokenizer_signature(other), below=9) is not None


def pair_verdict(target: Path, draft: Path) -> str | None:
    return compare(inspect(target), inspect(draft)).reason


def test_a_smaller_model_with_the_same_tokenizer_fits(tmp_path: Path) -> None:
    target = write_model(tmp_path / "target", hidden=16)
    assert pair_verdict(target, write_model(tmp_path / "draft", hidden=8)) is None


def test_padding_rows_may_differ_when_the_tokenizer_is_the_same(tmp_path: Path) -> None:
    tokens = [f"t{number}" for number in range(30)]
    target = write_model(tmp_path / "target", hidden=16, vocabulary=40, tokens=tokens)
    draft = write_model(tmp_path / "draft", hidden=8, vocabulary=32, tokens=tokens)
    assert pair_verdict(target, draft) is None


def test_an_added_token_without_a_row_in_the_draft_does_not_matter(tmp_path: Path) -> None:
    tokens = [f"t{number}" for number in range(32)]
    image = {32: "<image_soft_token>"}
    target = write_model(tmp_path / "t", hidden=16, vocabulary=40, tokens=tokens, added=image)
    draft = write_model(tmp_path / "d", hidden=8, vocabulary=32, tokens=tokens, added=image)
    assert pair_verdict(target, draft) is None
    bare = write_model(tmp_path / "bare", hidden=8, vocabulary=32, tokens=tokens)
    assert pair_verdict(target, bare) is None


def test_different_vocabularies_fit_across_with_their_share(gptneo: Path, stories: Path) -> None:
    found = compare(inspect(gptneo), inspect(stories))
    assert found.reason is None
    assert found.cross_vocabulary is not None
    assert (
        "3\u00a0% of the target's 14,019 tokens are among the draft's 512" in found.cross_vocabulary
    )
    assert "the target's tokens" in found.cross_vocabulary


def written(folder: Path, hidden: int, **options: Any) -> Path:
    """A folder of zeros whose vocabulary is as large as its tokenizer's."""
    write_model(folder, hidden=hidden, vocabulary=options.pop("vocabulary", 320))
    options.pop("tokenizer", write_tokenizer)(folder)
    return folder


def test_two_kinds_of_tokenizers_fit_across(tmp_path: Path) -> None:
    target = inspect(written(tmp_path / "target", 16))
    draft = inspect(written(tmp_path / "d", 8, vocabulary=400, tokenizer=write_sentencepiece))
    found = compare(target, draft)
    assert found.reason is None and found.shared is not None
    assert "split into the target's tokens" in str(found.cross_vocabulary)
    both = vocabularies(target, draft)
    assert both is not None and both.shared == found.shared
    assert vocabularies(target, target) is None


def test_without_tokenizer_json_nothing_is_drafted_across(tmp_path: Path) -> None:
    target = written(tmp_path / "target", 16)
    draft = write_model(tmp_path / "draft", hidden=8, vocabulary=64)
    (draft / "tokenizer.json").rename(draft / "tokenizer.model")
    reason = pair_verdict(target, draft)
    assert reason is not None
    assert "320 tokens, the draft 64" in reason
    assert f"{draft} has no tokenizer.json" in reason


def test_tokenizers_of_another_kind_are_named(tmp_path: Path) -> None:
    target = written(tmp_path / "target", 16)
    reason = pair_verdict(target, write_model(tmp_path / "draft", hidden=8, vocabulary=64))
    assert reason is not None
    assert "neither byte-level BPE nor SentencePiece" in reason


def test_a_tokenizer_that_cannot_be_parsed_is_told_when_the_pair_is_loaded(tmp_path: Path) -> None:
    """It was told in the midst of the first reply."""
    target = inspect(written(tmp_path / "target", 16))
    draft = inspect(written(tmp_path / "d", 8, vocabulary=400, tokenizer=write_sentencepiece))
    file = draft.path / "tokenizer.json"
    content = json.loads(file.read_text())
    content["model"]["merges"].append(["no such", "tokens"])
    file.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        vocabularies(target, draft)


def test_an_empty_intersection_is_refused(tmp_path: Path) -> None:
    """The draft knows whole words only, and none of the target's."""
    target = written(tmp_path / "target", 16)
    draft = write_model(tmp_path / "draft", hidden=8, vocabulary=64)
    file = draft / "tokenizer.json"
    content = json.loads(file.read_text())
    content["decoder"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never"}
    file.write_text(json.dumps(content))
    reason = pair_verdict(target, draft)
    assert reason is not None
    assert "no token has the same text" in reason


def test_equal_sizes_do_not_hide_different_tokens(tmp_path: Path) -> None:
    swapped = [f"t{number}" for number in range(32)]
    swapped[4], swapped[5] = swapped[5], swapped[4]
    target = write_model(tmp_path / "target", hidden=16)
    reason = pair_verdict(target, write_model(tmp_path / "draft", tokens=swapped))
    assert reason is not None
    assert "2 token ids differ, first 4" in reason


def test_a_different_special_token_is_named(tmp_path: Path) -> None:
    tokens = [f"t{number}" for number in range(30)]
    target = write_model(tmp_path / "t", hidden=16, tokens=tokens, added={30: "<|eot|>"})
    draft = write_model(tmp_path / "d", hidden=8, tokens=tokens, added={30: "<|im_end|>"})
    reason = pair_verdict(target, draft)
    assert reason is not None
    assert "special token 30 is '<|eot|>' in the target and '<|im_end|>' in the draft" in reason


def test_a_reserved_slot_may_have_a_name_unless_it_ends_replies(tmp_path: Path) -> None:
    tokens = [f"t{number}" for number in range(30)]
    reserved, named = {30: "<|reserved_special_token_0|>"}, {30: "<tool>"}
    target = write_model(tmp_path / "t", hidden=16, tokens=tokens, added=named)
    draft = write_model(tmp_path / "d", hidden=8, tokens=tokens, added=reserved)
    assert pair_verdict(target, draft) is None
    ending = write_model(tmp_path / "e", hidden=16, tokens=tokens, added=named, eos=30)
    reason = pair_verdict(ending, draft)
    assert reason is not None
    assert "special token 30" in reason


def test_a_draft_must_be_smaller(tmp_path: Path) -> None:
    target = write_model(tmp_path / "target", hidden=8)
    reason = pair_verdict(target, write_model(tmp_path / "draft", hidden=16))
    assert reason is not None
    assert "not smaller" in reason
    assert f"{inspect(target).parameters:,}" in reason


def test_a_draft_with_hardly_any_context_is_refused(tmp_path: Path) -> None:
    target = write_model(tmp_path / "target", hidden=16, context=4096)
    reason = pair_verdict(target, write_model(tmp_path / "draft", context=64))
    assert reason is not None
    assert "64 tokens" in reason
    assert "4,096" in reason


def test_a_shorter_context_is_a_caution_only(tmp_path: Path) -> None:
    target = inspect(write_model(tmp_path / "target", hidden=16, context=4096))
    draft = inspect(write_model(tmp_path / "draft", hidden=8, context=1024))
    assert compare(target, draft).reason is None
    assert "drafting stops after 1,024" in str(caution(target, draft))
    assert caution(draft, draft) is None


def spec(name: str, size: int) -> ModelSpec:
    return ModelSpec(id=name, name=name, path=Path(name), bytes=size)


@pytest.mark.parametrize(
    ("sizes", "paired", "best"),
    [
        ({"tiny": 2, "small": 9, "half": 45}, (), "small"),  # the largest of a tenth or less
        ({"third": 33, "half": 45}, (), "third"),  # else the smallest of half or less
        ({"most": 60, "bigger": 200}, (), None),
        ({"tiny": 2, "small": 9}, ("tiny",), "tiny"),  # the catalog knows better
        ({"small": 9, "broken": 8}, (), "small"),
        ({"broken": 8}, (), None),
        ({"unknown": 0}, (), None),
    ],
)
def test_the_best_draft_is_large_enough_to_be_right_and_small_enough_to_pay(
    sizes: dict[str, int], paired: tuple[str, ...], best: str | None
) -> None:
    known = [spec(name, size) for name, size in sizes.items()]
    found = best_draft(spec("target", 100), known, lambda one: one.id != "broken", paired)
    assert (found and found.id) == best


def test_a_draft_of_a_few_of_the_targets_tokens_is_not_proposed_and_still_runs_when_asked_for(
    gptneo: Path, stories: Path
) -> None:
    """Pip, which knows 4,096 tokens of tales, stood as fitting beside a coder's own small model."""
    target, draft = local_spec(gptneo), local_spec(stories)
    choice = judge_draft(target, draft)
    assert not choice.fits and "% of the target's" in str(choice.reason)
    assert "own family" in str(choice.reason)
    assert drafts.why_not(target, draft) is None


def test_of_a_mixture_only_what_a_token_reads_counts() -> None:
    """A dense 27B model was said to pay for one of 35B that reads 3B for a token."""
    models = load_catalog(ROOT / "model_catalog.yaml").model
    mixture, dense = models("qwen3.5-35b-a3b"), models("qwen3.5-27b")
    assert "token the draft reads" in str(drafts.why_not(mixture, dense))
    assert drafts.why_not(mixture, models("qwen3.5-0.8b")) is None
    assert 0.2 < (break_even(mixture, models("qwen3.5-0.8b")) or 0) < 0.4
    reads = bytes_read(mixture) / mixture.bytes * mixture.parameters
    assert 2.5e9 < reads < 3.5e9, "A3B"
    assert bytes_read(dense) == dense.bytes
