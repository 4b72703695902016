"""The compiled decoder: the eager one's results, and the same bits however rows are split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from app.ui.controls.settings import Settings
from engine.backends.native import build, sampling, support
from engine.backends.native.decoder import NativeDecoder, TrimmedHead
from engine.backends.torch.decoder import TorchDecoder
from engine.events import Finished
from engine.kernels.native.library import BLOCKS, KINDS, Library
from engine.local.session import Session
from engine.models.base import MixtureModel, Model
from engine.models.trimmed_vocabulary import TrimmedVocabulary
from engine.noise import Draws
from engine.request import Request, Speculation
from engine.values.sampling import Sampling
from tests.support.checkpoints import VOCABULARY, open_session, write_perturbed
from tests.support.families import LONGROPE, MODELS, OTHERS, write_family
from tests.support.loading import load_model
from tests.support.places import PIP
from tests.support.sameness import (
    check_parts,
    check_rollback,
    check_rows,
    check_together,
    check_tree,
    go_back,
)

WIDTHS: dict[str, Any] = {"hidden_size": 64, "head_dim": 16, "intermediate_size": 80}
"""What the compiled step takes: multiples of sixteen."""
OWN: dict[str, dict[str, Any]] = {
    "head_dim 64, untied": {"head_dim": 64, "hidden_size": 128},
    "groups of 3, head_dim not hidden / heads": {"hidden_size": 48},
    "gemma4": {"hidden_size_per_layer_input": 64, "global_head_dim": 32},
    "gemma4, experts": {"moe_intermediate_size": 64},
    "phi3, longrope": {
        "rope_parameters": {
            **LONGROPE,
            "short_factor": LONGROPE["short_factor"] * 2,
            "long_factor": LONGROPE["long_factor"] * 2,
        }
    },
}

pytestmark = pytest.mark.usefixtures("library")


def tokens(count: int, seed: int = 3) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (count,), generator=generator).tolist()


def write(folder: Path, name: str, kind: str = "") -> Any:
    """One of ``MODELS``; with a ``kind``, of widths that it can be in."""
    blocks = {"intermediate_size": 128} if kind == "nf4" else {}
    return write_family(folder, name, **{**WIDTHS, **OWN.get(name, {}), **blocks})


def compiled(folder: Path, dtype: str) -> NativeDecoder:
    model = load_model(folder, quantization=dtype)
    assert isinstance(model, NativeDecoder)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """A whole prompt, one token at a time, and 5 together, across groups and windows."""
    reference = write(tmp_path, name)
    model = compiled(tmp_path, "fp32")
    text = tokens(300)
    with torch.inference_mode():
        expected = reference(torch.tensor([text])).logits[0].float()
    cache = model.new_state(512)
    assert near(model.forward(text, cache, last=300), expected)
    go_back(model, cache, text, 270)
    for index in range(270, 280):
        assert near(model.forward([text[index]], cache, last=1), expected[index : index + 1])
    for start in (278, 100):
        go_back(model, cache, text, start)
        assert near(
            model.forward(text[start : start + 5], cache, last=5), expected[start : start + 5]
        )


WITH_STEPS = {
    # A recurrence passes its errors on, as do Gemma 4's unscaled scores; transformers in bf16 is 0.08
    # and 0.11 off.
    **dict.fromkeys((name for name in OTHERS if name.startswith("gemma4")), (0.08, 0.2, 1.0)),
    # Nearly equal experts: attention in bf16 changes who is chosen.
    "qwen3-moe": (0.05, 0.06, 0.6),
    "qwen3.5": (0.08, 0.2, 1.0),
    "qwen3-next": (0.15, 0.4, 1.3),
    "qwen3.5-moe": (0.15, 0.4, 1.3),
}
"""The most that a format may change logits, where small errors grow."""


def near(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return float((ours - theirs).abs().max()) < 1e-4


@pytest.mark.parametrize("name", OTHERS)
def test_fewer_bits_are_near_the_original(name: str, tmp_path: Path) -> None:
    assert {**WIDTHS, **OWN.get(name, {})}["hidden_size"] % 64 == 0  # NF4's whole blocks
    write(tmp_path, name, "nf4")
    text = tokens(100)
    exact, *ours = (
        model.forward(text, model.new_state(512), last=100)
        for model in (compiled(tmp_path, kind) for kind in ("fp32", "bf16", "int8", "nf4"))
    )
    limits = WITH_STEPS.get(name, (0.03, 0.06, 0.6))
    for found, most in zip(ours, limits, strict=True):
        # The median: where experts score alike, a row chooses others and is far off.
        off = (found - exact).norm(dim=1) / exact.norm(dim=1)
        assert off.median() < most, most


@pytest.fixture(
    scope="module",
    params=[
        *(f"{kind} {name}" for kind in KINDS for name in ("llama", "pip")),
        # Caps, norms of heads and windows belong to the attention, which is that of all kinds.
        *(
            "fp32 gemma2",
            "int8 gemma2",
            "fp32 gemma4",
            "bf16 gemma4",
            "int8 gemma4, experts",
            "bf16 qwen3",
            "nf4 qwen3",
            "fp32 mistral",
            "bf16 mistral",
        ),
        *("fp32 qwen3.5", "int8 qwen3.5", "int8 lfm2"),
        *("fp32 cohere2", "int8 olmo3", "bf16 hunyuan", "fp32 starcoder2", "int8 ministral3"),
        *("fp32 mixtral", "bf16 qwen3-moe", "nf4 qwen3-moe", "int8 qwen3.5-moe", "fp32 gpt-oss"),
    ],
)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, library: Library
) -> Model:
    kind, name = request.param.split(maxsplit=1)
    if name == "pip":
        return compiled(PIP / "target", kind)
    folder = tmp_path_factory.mktemp("model")
    write(folder, "head_dim 64, untied" if name == "llama" else name, kind)
    return compiled(folder, kind)


def test_1_to_16_rows_give_the_bits_of_single_rows(model: Model) -> None:
    for start in (250, 300):
        check_rows(model, tokens(start + 16), start)


def test_after_a_rollback_the_bits_are_those_of_a_fresh_cache(model: Model) -> None:
    check_rollback(model, tokens(270), [tokens(15, seed) for seed in range(3)])


def test_a_prompt_prefilled_in_any_parts_gives_the_same_bits(model: Model) -> None:
    check_parts(model, tokens(120), (1, 7, 16, 100, 110))


def test_rows_beside_those_of_others_have_the_bits_they_have_alone(
    model: Model, request: pytest.FixtureRequest
) -> None:
    check_together(model, seed=request.node.callspec.indices["model"])


def test_rows_of_a_tree_have_the_bits_of_their_branch(model: Model) -> None:
    for start in (14, 250):
        check_tree(model, tokens(start), seed=start)


def test_the_last_rows_are_those_of_all(model: Model) -> None:
    for rows, asked in ((1, (0, 1)), (16, (5, 16)), (17, (0, 16)), (40, (1, 16, 30))):
        text = tokens(rows)
        everything = model.forward(text, model.new_state(512), last=rows)
        for last in asked:
            cache = model.new_state(512)
            assert torch.equal(model.forward(text, cache, last=last), everything[rows - last :])
            assert cache.length == rows


def test_a_step_tells_how_many_experts_it_read(tmp_path: Path) -> None:
    """Of 8 experts three rows choose 3 each; the shared one does not count."""
    write(tmp_path, "qwen3.5-moe")
    counted = []
    for native in (True, False):
        model = load_model(tmp_path, quantization="fp32", native=native)
        assert isinstance(model, MixtureModel)
        for text in ([5], [5, 9, 11]):
            model.forward(text, model.new_state(512), last=1)
            counted.append(model.experts_read())
    assert counted[0] == 1.0 < counted[1] <= 8 / 3
    assert counted[2:] == counted[:2]


@pytest.mark.parametrize("name", ["gpt-oss", "qwen3-moe"])
def test_drafts_change_no_words_of_a_mixture(name: str, tmp_path: Path) -> None:
    """Rejected rows route on their own, beside those that stay."""
    target = write(tmp_path / "target", name)
    write_perturbed(target, tmp_path / "draft")
    session = open_session(tmp_path / "target", tmp_path / "draft")
    assert isinstance(session.target.model, NativeDecoder)
    for how in (Sampling(), Sampling(temperature=1.0, seed=5)):
        said = [
            finished(session, how, Speculation(proposer=proposer, depth=depth))
            for proposer, depth in (("none", 0), ("ngram", 5), ("draft", 2), ("draft", 7))
        ]
        assert len(set(said)) == 1


def finished(session: Session, how: Sampling, speculation: Speculation) -> tuple[int, ...]:
    request = Request(
        token_ids=tuple([7, 3, 9, 11, 4] * 8),
        max_tokens=60,
        ignore_eos=True,
        sampling=how,
        speculation=speculation,
    )
    *_, last = session.run(request, lambda: False)
    assert isinstance(last, Finished)
    return last.token_ids


def test_a_draft_at_the_pages_settings_is_one_call(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their top-p took a call and a dozen operations of torch for each drafted token."""
    session, fed = open_session(PIP / "target", PIP / "draft"), list[int]()
    for name in ("forward", "forward_trimmed"):
        method = getattr(NativeDecoder, name)

        def counted(
            model: Model, new: list[int], *args: Any, method: Any = method, **kw: Any
        ) -> Any:
            if model is session.resources.draft:
                fed.append(len(new))
            return method(model, new, *args, **kw)

        monkeypatch.setattr(NativeDecoder, name, counted)
    how = replace(Settings().sampling(), seed=5)
    assert how.truncates
    finished(session, how, Speculation(proposer="draft", depth=4))
    assert fed == [39]  # the prompt


def test_writing_on_by_itself_is_asking_for_each_token(library: Library) -> None:
    model = compiled(PIP / "draft", "fp32")
    prompt = tokens(20)
    one, other = model.new_state(512), model.new_state(512)
    chosen, likely = model.generate(prompt, one, 7, model.info.vocabulary)
    new, expected = prompt, []
    for _ in range(7):
        p = torch.softmax(model.forward(new, other, last=1)[0], dim=-1)
        new = [int(p.argmax())]
        expected.append((new[0], float(p[new[0]])))
    assert chosen == [token for token, _ in expected]
    assert likely == pytest.approx([p for _, p in expected], rel=1e-5)
    assert one.end == other.length


def test_writing_on_by_chance_is_drawing_each_token(library: Library) -> None:
    model = compiled(PIP / "draft", "fp32")
    prompt, limit = tokens(20), 3000
    one, other = model.new_state(512), model.new_state(512)
    draws = Draws(Sampling(temperature=1.3, top_k=90, top_p=0.9), tuple(range(50, 59)))
    chosen, likely = model.generate(prompt, one, 9, limit, draws)
    new, expected, p = prompt, list[int](), list[float]()
    for number in draws.keys:
        logits = model.forward(new, other, last=1)[:, :limit]
        found = sampling.sample(library, logits, Draws(draws.sampling, (number,)))
        expected += found.tokens
        p += found.probabilities([(0, found.tokens[0])])
        new = found.tokens
    assert chosen == expected
    assert likely == pytest.approx(p, rel=1e-5)
    assert one.end == other.length


@pytest.mark.parametrize("draws", [None, Draws(Sampling(temperature=2.0), tuple(range(9)))])
def test_writing_on_keeps_to_the_vocabulary_it_is_told(
    library: Library, draws: Draws | None
) -> None:
    model = compiled(PIP / "draft", "fp32")
    chosen, likely = model.generate(tokens(20), model.new_state(512), 9, 100, draws)
    assert max(chosen) < 100 and all(0 < p <= 1 for p in likely)


@pytest.mark.parametrize(
    ("weights", "frequent", "others"),
    [("fp32", 5, {9}), ("int8", 64, {64, 65, 70, 200, 255}), ("fp32", 1, set(range(2, 256, 2)))],
)
def test_logits_among_some_tokens_have_the_bits_that_they_have_among_all(
    library: Library, weights: str, frequent: int, others: set[int]
) -> None:
    model = compiled(PIP / "draft", weights)
    among = TrimmedVocabulary.of(frequent, others)
    ids = TrimmedHead(among, model.info.vocabulary).ids
    text = tokens(20)
    one, other = model.new_state(512), model.new_state(512)
    some = model.forward_trimmed(text, one, among)
    assert torch.equal(some[:, ids], model.forward(text, other, last=1)[:, ids])
    assert one.length == other.length == len(text)
    left_out = torch.ones(model.info.vocabulary, dtype=torch.bool).index_fill(0, ids, False)
    assert bool((some[:, left_out] == float("-inf")).all())


def test_a_vocabulary_that_ends_within_a_panel_is_chosen_among_to_its_end(tmp_path: Path) -> None:
    name, sizes = next(iter(MODELS)), {**WIDTHS, "vocab_size": 330}
    write_family(tmp_path, name, **sizes)
    model = compiled(tmp_path, "fp32")
    among = TrimmedVocabulary.of(2, {20})
    text = tokens(20)
    whole = model.forward(text, model.new_state(64), last=1)
    kept = [*range(32), *range(320, 330)]
    some = model.forward_trimmed(text, model.new_state(64), among)
    assert torch.equal(some[:, kept], whole[:, kept])
    chosen, _ = model.generate(text, model.new_state(64), 1, 330, None, 0.0, among)
    assert chosen == [kept[int(whole[0, kept].argmax())]]


@pytest.mark.parametrize(
    ("draws", "limit"),
    [
        (None, 900),
        (Draws(Sampling(temperature=1.3), tuple(range(50, 59))), 1025),
        (Draws(Sampling(temperature=1.3), tuple(range(50, 59))), 4096),
    ],
)
def test_writing_on_among_some_tokens_is_drawing_each_as_if_others_could_not_be(
    library: Library, draws: Draws | None, limit: int
) -> None:
    """By the noise of the tokens themselves, not of their places among those that are kept."""
    model = compiled(PIP / "draft", "fp32")
    among = TrimmedVocabulary.of(40, {64, 65, 70, 200, 255})
    text, expected, p = tokens(20), list[int](), list[float]()
    one, other = model.new_state(512), model.new_state(512)
    chosen, likely = model.generate(text, one, 9, limit, draws, 0.0, among)
    new = text
    for number in range(9):
        logits = model.forward_trimmed(new, other, among)[:, :limit]
        draw = draws and Draws(draws.sampling, (draws.keys[number],))
        found = sampling.sample(library, logits, draw)
        new = found.tokens
        expected += new
        p += found.probabilities([(0, new[0])])
    assert chosen == expected
    assert likely == pytest.approx(p, rel=1e-5)
    assert one.end == other.length


def test_threads_change_nothing(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tokens(100)
    found = []
    for threads in (1, 2, 3, 5):
        other = Library(build.build(), threads)
        monkeypatch.setattr(
            "engine.loading.planning.choices.build.ready", lambda _, other=other: other
        )
        model = compiled(PIP / "target", "fp32")
        found.append(model.forward(text, model.new_state(128), last=16))
    assert all(torch.equal(one, found[0]) for one in found[1:])


def test_weights_stored_in_bf16_give_the_bits_of_wide_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = tokens(100)
    stored = compiled(PIP / "target", "fp32")
    monkeypatch.setattr("engine.loading.loader.takes_file_dtype", lambda *_: False)
    wide = compiled(PIP / "target", "fp32")
    assert torch.equal(
        stored.forward(text, stored.new_state(128), last=100),
        wide.forward(text, wide.new_state(128), last=100),
    )


def test_widths_that_do_not_fit_are_interpreted(tmp_path: Path) -> None:
    write_family(tmp_path, "qwen2")  # heads of 8
    assert isinstance(load_model(tmp_path, quantization="fp32"), TorchDecoder)


@pytest.mark.parametrize("cached", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("weights", [*KINDS, *BLOCKS])
def test_every_format_passes_its_trial(weights: str, cached: torch.dtype, library: Library) -> None:
    if weights not in (*library.kinds, *BLOCKS):
        pytest.skip(f"this processor has no instructions for {weights}")
    assert support.is_row_independent(library, weights, cached)


def test_a_passed_trial_is_kept_and_a_failed_one_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results, tried = iter([False, True, True]), list[str]()

    def independent(_: Library, weights: str, __: torch.dtype) -> bool:
        tried.append(weights)
        return next(results)

    monkeypatch.setattr(support, "is_row_independent", independent)
    built = cast(Library, SimpleNamespace(path=tmp_path / "step.so"))
    found = [
        support.passes.__wrapped__(built, weights) for weights in ["q4_0", "q4_0", "q4_0", "q8_0"]
    ]
    assert found == [False, True, True, True]
    assert tried == ["q4_0", "q4_0", "q8_0"]


def test_a_step_that_is_not_row_independent_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    forward = NativeDecoder.forward

    def careless(self: NativeDecoder, tokens: Any, state: Any, **rest: Any) -> torch.Tensor:
        return forward(self, tokens, state, **rest) + 1e-6 * len(tokens)

    assert load_model(PIP / "draft", quantization="fp32").info.compiled
    monkeypatch.setattr(support, "passes", support.passes.__wrapped__)  # asks anew
    monkeypatch.setattr(support, "_read", lambda _: {})
    monkeypatch.setattr(support, "write_private", lambda *_: None)
    monkeypatch.setattr(NativeDecoder, "forward", careless)
    model = load_model(PIP / "draft", quantization="fp32")
    assert isinstance(model, TorchDecoder) and not model.info.compiled
    assert model.info.quantization == "fp32"
    assert "They are not used" in caplog.text


def test_turned_off_the_model_is_interpreted() -> None:
    assert isinstance(load_model(PIP / "draft", quantization="fp32"), NativeDecoder)
    assert isinstance(load_model(PIP / "draft", quantization="fp32", native=False), TorchDecoder)


def test_a_cache_is_rewound_to_what_it_holds() -> None:
    cache = compiled(PIP / "draft", "fp32").new_state(64)
    with pytest.raises(ValueError, match="cannot rewind"):
        cache.rewind(1)
