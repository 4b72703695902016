"""The shipped catalog, a user's own one, and what pairs and heads people name resolve to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.errors import CatalogError, IncompatiblePair, ModelError
from engine.loading.catalog import Catalog, load_catalog, local_spec, open_catalog
from engine.loading.drafts import why_not
from engine.loading.inventory import choose_file
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec
from tests.engine.loading.catalog_texts import GOOD, MODEL, write
from tests.support.folders import write_model
from tests.support.places import ROOT

SHIPPED = ROOT / "model_catalog.yaml"


@pytest.fixture
def shipped() -> Catalog:
    return load_catalog(SHIPPED)


# -- what ships


def test_the_embedded_pair_comes_first(shipped: Catalog) -> None:
    first = shipped.pairs[0]
    assert first.id == "pip"
    assert first.target.path == ROOT / "assets" / "pip" / "target"
    assert first.draft is not None
    assert first.draft.path == ROOT / "assets" / "pip" / "draft"


@pytest.mark.parametrize("family", ["Llama-3.", "Qwen3", "gemma-3", "SmolLM", "Mistral"])
def test_the_known_families_are_there(shipped: Catalog, family: str) -> None:
    assert any(family in (pair.target.repository or "") for pair in shipped.pairs)


def test_there_are_at_least_ten_real_pairs_with_a_draft(shipped: Catalog) -> None:
    assert (
        sum(pair.draft is not None and pair.target.repository is not None for pair in shipped.pairs)
        >= 10
    )


def test_every_real_model_tells_what_people_need_to_know(shipped: Catalog) -> None:
    for spec in shipped.models:
        if spec.repository is None:
            continue
        assert spec.licence != "unknown", spec.id
        assert spec.revision, spec.id
        heavy = spec.files[-1] if spec.files else spec
        assert heavy.bytes >= spec.parameters / 2, spec.id
        assert min(spec.context, spec.vocabulary, spec.layers, spec.kv_heads, spec.head_dim) > 0


def test_what_people_run_is_there_at_four_bits_from_small_to_large(shipped: Catalog) -> None:
    """A file for eight gigabytes was a bf16 download of 16, where every rival had one of 5."""
    targets = [spec for spec in shipped.models if spec.files]
    assert len(targets) >= 60
    assert min(spec.parameters for spec in targets) < 0.3e9
    assert max(spec.parameters for spec in targets) > 230e9
    for spec in targets:
        four_bits, *_, heavy = spec.files
        assert spec.file == four_bits.file
        assert 0.48 < four_bits.bytes / spec.parameters < 0.8, spec.id
        assert heavy.format == "safetensors"
        assert not heavy.file
        assert len({one.id for one in spec.files}) == len(spec.files)
        assert all(shipped.spec(one.id) == one for one in (*spec.files, *spec.drafters))


def test_this_year_s_models_bring_their_drafters(shipped: Catalog) -> None:
    qwen, gemma = shipped.model("qwen3.5-4b"), shipped.model("gemma-4-12b")
    assert qwen.mtp and shipped.model("qwen3.6-35b-a3b").mtp
    assert qwen.companions == ()  # they are in its file
    assert qwen.repository == "unsloth/Qwen3.5-4B-MTP-GGUF"
    (assistant,) = gemma.companions
    assert assistant.repository == "google/gemma-4-12B-it-assistant"
    heads = {one.method: one.repository for one in shipped.model("qwen3-8b").drafters}
    assert heads == {
        "eagle3": "Tengyunw/qwen3_8b_eagle3",
        "dflash": "z-lab/Qwen3-8B-DFlash-b16",
        "dspark": "deepseek-ai/dspark_qwen3_8b_block7",
    }


@pytest.mark.parametrize(
    ("gigabytes", "here", "chosen"),
    [
        (16, "", "Q4_K_M"),
        (6, "", "Q3_K_M"),
        (5, "", "Q2_K"),
        (1, "", "Q4_K_M"),
        (64, "", "Q4_K_M"),
        (6, "safetensors", "safetensors"),
        (6, "Q8_0", "Q8_0"),
    ],
)
def test_the_file_is_the_one_that_is_here_or_the_four_bit_one_if_it_fits(
    shipped: Catalog, gigabytes: int, here: str, chosen: str
) -> None:
    spec = shipped.model("qwen3-8b")

    def locate(one: ModelSpec) -> Path | None:
        return Path("there") if one.format == here else None

    file = choose_file(spec, locate, gigabytes * 10**9)
    assert file.format == chosen
    assert (file.id, file.name, file.files) == (spec.id, spec.name, spec.files)


def test_every_pair_fits(shipped: Catalog) -> None:
    for pair in shipped.pairs:
        if pair.draft is not None and pair.target.repository is not None:
            assert why_not(pair.target, pair.draft) is None, pair.id


def test_a_pair_without_a_draft_says_why(shipped: Catalog) -> None:
    assert all(pair.note for pair in shipped.pairs if pair.draft is None)


def test_every_draft_that_does_not_fit_has_a_reason_with_sizes(shipped: Catalog) -> None:
    choices = shipped.drafts_for(shipped.model("llama-3.1-8b"))
    assert len(choices) == len(shipped.models) - 1
    reasons = {choice.spec.id: choice.reason for choice in choices}
    assert reasons["llama-3.2-1b"] is None
    assert re.search("128,256.*151,936", str(reasons["qwen3-0.6b"]))
    assert "not smaller" in str(reasons["llama-3.3-70b"])
    fits = [choice.fits for choice in choices]
    assert fits == sorted(fits, reverse=True)


def test_one_family_with_other_special_tokens_does_not_fit(shipped: Catalog) -> None:
    choices = {choice.spec.id: choice for choice in shipped.drafts_for(shipped.model("smollm3-3b"))}
    assert not choices["llama-3.2-1b"].fits


# -- resolving


def test_a_pair_id_resolves(shipped: Catalog) -> None:
    assert shipped.resolve(LoadRequest.parse(" qwen3-8b ")) is shipped.pair("qwen3-8b")


def test_model_ids_resolve_to_a_free_combination(shipped: Catalog) -> None:
    pair = shipped.resolve(LoadRequest.parse("qwen3-8b::qwen3-1.7b"))
    assert (pair.target.id, pair.draft and pair.draft.id) == ("qwen3-8b", "qwen3-1.7b")
    assert shipped.resolve(LoadRequest.parse("qwen3-1.7b")).draft is None


def test_folders_resolve(shipped: Catalog, tmp_path: Path) -> None:
    target = write_model(tmp_path / "target", hidden=16)
    draft = write_model(tmp_path / "draft", hidden=8)
    pair = shipped.resolve(LoadRequest.parse(f"{target}::{draft}"))
    assert pair.name == "target + draft"
    assert pair.target.path == target
    assert pair.target.vocabulary == 32
    assert pair.draft is not None
    assert pair.draft.parameters < pair.target.parameters
    assert shipped.resolve(LoadRequest.parse(str(target))).draft is None


def test_folders_that_do_not_fit_are_refused_with_sizes(shipped: Catalog, tmp_path: Path) -> None:
    target = write_model(tmp_path / "target", hidden=16)
    draft = write_model(tmp_path / "draft", vocabulary=48)
    with pytest.raises(IncompatiblePair, match=r"32 tokens, the draft 48"):
        shipped.resolve(LoadRequest.parse(f"{target}::{draft}"))


def test_catalog_models_that_do_not_fit_are_refused(shipped: Catalog) -> None:
    with pytest.raises(IncompatiblePair, match=r"cannot draft for Qwen3 8B.*151,936.*128,256"):
        shipped.resolve(LoadRequest.parse("qwen3-8b::llama-3.2-1b"))


def test_a_folder_that_is_no_model(shipped: Catalog, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        shipped.resolve(LoadRequest.parse(str(tmp_path)))
    with pytest.raises(ModelError, match="There is no folder"):
        shipped.resolve(LoadRequest.parse("./nowhere/at/all"))


@pytest.mark.parametrize(("text", "hint"), [("qwen3-8", "qwen3-8b"), ("", "Known: pip")])
def test_unknown_names_get_a_hint(shipped: Catalog, text: str, hint: str) -> None:
    with pytest.raises(CatalogError, match=hint):
        shipped.resolve(LoadRequest.parse(text))


@pytest.mark.parametrize("text", ["127.0.0.1:8742", "localhost:8742", "gpu.office:80/v1#qwen3"])
def test_an_address_without_http_is_told_how_to_write_it(shipped: Catalog, text: str) -> None:
    with pytest.raises(CatalogError, match=f"write http://{text}"):
        shipped.resolve(LoadRequest.parse(text))


def test_few_of_many_known_names_are_listed(shipped: Catalog) -> None:
    with pytest.raises(CatalogError, match=r"Known: (\S+, ){4}\S+ and \d+ more\.") as caught:
        shipped.resolve(LoadRequest.parse("nonsense"))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text", ["n" * 300, f"pip::{'n' * 300}", f"/{'n' * 300}", f"{'n' * 300}.gguf"]
)
def test_a_name_too_long_for_a_path_is_no_model(shipped: Catalog, text: str) -> None:
    """The system's refusal to look it up was a traceback, as that of another user's folder."""
    with pytest.raises(
        (CatalogError, ModelError), match=r"There is no (pair or model|folder|file)"
    ):
        shipped.resolve(LoadRequest.parse(text))
    with pytest.raises(ModelError, match="There is no"):
        LoadRequest.parse(f"pip::/{'n' * 300}::pip")


def test_an_unknown_pair_or_model_id(shipped: Catalog) -> None:
    with pytest.raises(CatalogError, match="no pair 'pipp'"):
        shipped.pair("pipp")
    with pytest.raises(CatalogError, match="no model 'gpt'"):
        shipped.model("gpt")


# -- folders against the catalog


def test_a_folder_is_compared_by_its_files_with_models_on_disk(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, GOOD))
    target = local_spec(write_model(tmp_path / "mine", hidden=16))
    downloaded = write_model(tmp_path / "small", hidden=8)

    def locate(spec: ModelSpec) -> Path | None:
        return spec.path or (downloaded if spec.id == "small" else None)

    reasons = {choice.spec.id: choice.reason for choice in catalog.drafts_for(target, locate)}
    assert reasons["small"] is None
    assert "Download the model to see" in str(reasons["big"])


def test_a_model_whose_files_are_absent_is_unknown_not_fitting(tmp_path: Path) -> None:
    text = GOOD + "  - {id: p, name: P, target: big}\n"
    text = text.replace(
        "pairs:", "  - {id: ghost, name: Ghost, path: nowhere, licence: mit}\npairs:"
    )
    catalog = load_catalog(write(tmp_path, text))
    assert catalog.model("ghost").parameters == 0
    reasons = {choice.spec.id: choice.reason for choice in catalog.drafts_for(catalog.model("big"))}
    assert "are missing" in str(reasons["ghost"])


def test_paths_are_relative_to_the_catalog(tmp_path: Path) -> None:
    write_model(tmp_path / "models" / "mine", vocabulary=32)
    text = "models:\n  - {id: mine, name: Mine, path: models/mine, licence: mit}\n"
    spec = load_catalog(write(tmp_path, text)).model("mine")
    assert spec.path == tmp_path / "models" / "mine"
    assert (spec.vocabulary, spec.context) == (32, 256)


# -- a user's own file


def test_own_entries_are_added_and_replace(tmp_path: Path) -> None:
    base = write(tmp_path, GOOD)
    own = write(
        tmp_path,
        "models:\n"
        + MODEL.format(id="tiny", parameters=10)
        + "pairs:\n  - {id: pair, name: Mine, target: big, draft: tiny}\n"
        + "  - {id: other, name: Other, target: small}\n",
        "own.yaml",
    )
    catalog = load_catalog(base, own)
    assert [pair.id for pair in catalog.pairs] == ["pair", "other"]
    draft = catalog.pair("pair").draft
    assert draft is not None
    assert draft.id == "tiny"


def test_what_is_not_in_the_apps_own_catalog_did_not_come_with_the_app(tmp_path: Path) -> None:
    entry = f"models:\n  - {{id: mine, name: Mine, path: {tmp_path}, licence: mit}}\n"
    catalog = open_catalog(SHIPPED, write(tmp_path, entry, "own.yaml"))
    assert catalog.model("pip").shipped and not catalog.model("mine").shipped
    assert open_catalog(tmp_path / "absent.yaml").model("pip").shipped
    folder = write_model(tmp_path / "model")
    assert not catalog.spec(str(folder)).shipped


def test_an_absent_own_file_is_no_mistake(tmp_path: Path) -> None:
    assert load_catalog(write(tmp_path, GOOD), tmp_path / "own.yaml").pairs


def test_an_empty_own_file_is_no_mistake(tmp_path: Path) -> None:
    assert load_catalog(write(tmp_path, GOOD), write(tmp_path, "# nothing yet\n", "own.yaml")).pairs


def test_a_mistake_in_the_own_file_names_that_file(tmp_path: Path) -> None:
    own = write(tmp_path, "pairs:\n  - {id: x, name: X, target: nobody}\n", "own.yaml")
    with pytest.raises(CatalogError, match=r"own\.yaml, line 2, key 'pairs\[0\]\.target'"):
        load_catalog(write(tmp_path, GOOD), own)


def test_the_app_goes_on_without_a_broken_own_file(tmp_path: Path) -> None:
    own = write(tmp_path, "models: [\n", "own.yaml")
    catalog = open_catalog(write(tmp_path, GOOD), own)
    assert catalog.pair("pair")
    assert "own.yaml" in catalog.problems[0]


def test_the_embedded_pair_survives_a_broken_catalog(tmp_path: Path) -> None:
    write_model(tmp_path / "assets" / "pip" / "target", hidden=16)
    write_model(tmp_path / "assets" / "pip" / "draft", hidden=8)
    catalog = open_catalog(write(tmp_path, "models: 3\n"))
    assert catalog.pair("pip").target.vocabulary == 32
    assert catalog.problems


# -- heads


@pytest.fixture
def head(tmp_path: Path) -> Path:
    folder = tmp_path / "pip-medusa"
    folder.mkdir()
    (folder / "config.json").write_text('{"medusa_num_heads": 3}')
    return folder


def test_a_head_replaces_the_pairs_own_of_its_kind_and_keeps_its_draft(
    shipped: Catalog, head: Path
) -> None:
    own = shipped.pair("pip").heads
    pair = shipped.resolve(LoadRequest.parse(f"pip::{head}"))
    assert pair.draft is not None and pair.draft.id == "pip-draft"
    assert pair.heads == (*(one for one in own if one.name != "medusa"), head)
    assert len(pair.heads) == len(own)
    assert pair.name == "Pip + Pip's draft + pip-medusa"


def test_a_head_may_stand_beside_another_draft_or_none(shipped: Catalog, head: Path) -> None:
    beside = shipped.resolve(LoadRequest.parse(f"qwen3-8b::qwen3-1.7b::{head}"))
    assert beside.draft is not None and beside.draft.id == "qwen3-1.7b"
    assert beside.heads == (head,)
    assert shipped.resolve(LoadRequest.parse(f"pip::::{head}")).draft is None


def test_two_drafts_are_refused(shipped: Catalog) -> None:
    with pytest.raises(IncompatiblePair, match="both draft models"):
        shipped.resolve(LoadRequest.parse("qwen3-8b::qwen3-1.7b::qwen3-0.6b"))


def test_a_catalogs_heads_lie_beside_its_file(tmp_path: Path, head: Path) -> None:
    file = tmp_path / "catalog.yaml"
    text = """
models:
  - {id: one, name: One, path: one, licence: mit}
pairs:
  - {id: one, name: One, target: one, heads: [pip-medusa]}
"""
    file.write_text(text)
    assert load_catalog(file).pair("one").heads == (head,)
    file.write_text(text.replace("[pip-medusa]", "pip-medusa"))
    with pytest.raises(CatalogError, match=r"pairs\[0\]\.heads.*must be a list of texts"):
        load_catalog(file)
    file.write_text(text.replace("[pip-medusa]", "[pip-medusa, 3]"))
    with pytest.raises(CatalogError, match=r"heads\[1\].*must be a text"):
        load_catalog(file)
