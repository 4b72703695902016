"""Pip's generators of guide, tale, problem and talk examples, the readers and the mixture."""

from __future__ import annotations

import functools
import random
import re
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tools.pip.corpora import corpus, guide, manners, mixture, problems, tales, talk, wording
from tools.pip.corpora.example import Example, NumberCheck, from_json, to_json

DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is absent")

EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")
topics = functools.cache(guide.load)


def guide_example(rng: random.Random, held_out: bool) -> Example:
    return guide.generate(rng, held_out, topics())


GENERATORS: dict[str, mixture.Source] = {
    "guide": guide_example,
    "tale": tales.generate,
    "problem": problems.generate,
    "talk": talk.generate,
}


def some(name: str, count: int, held_out: bool = False, seed: int = 7) -> tuple[Example, ...]:
    rng = random.Random(seed)
    return tuple(GENERATORS[name](rng, held_out) for _ in range(count))


@functools.cache
def drawn(name: str, held_out: bool = False) -> tuple[Example, ...]:
    """Once for all tests: that takes longer than what they look at."""
    return some(name, 400 if held_out else 2000, held_out)


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_seed_gives_the_same_examples(name: str) -> None:
    assert some(name, 50) == drawn(name)[:50]
    assert some(name, 50) != some(name, 50, seed=8)


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("name", GENERATORS)
def test_every_reference_reply_passes_its_check(name: str, held_out: bool) -> None:
    for example in drawn(name, held_out):
        assert example.kind == name
        assert example.check is not None and example.check.passes(example.reply), example


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("name", GENERATORS)
def test_messages_alternate_and_have_no_empty_slot(name: str, held_out: bool) -> None:
    for example in drawn(name, held_out):
        roles = [message.role for message in example.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        for message in example.messages:
            assert message.content == message.content.strip() != ""
            assert message.content.isascii()
            assert name == "guide" or not re.search(r"[{}]|\[.*\|", message.content), message


@pytest.mark.parametrize("name", ["tale", "problem"])
def test_held_out_questions_are_never_trained_on(name: str) -> None:
    trained = {example.messages[0].content.lower() for example in drawn(name)}
    asked = {example.messages[0].content.lower() for example in drawn(name, True)}
    assert not asked & trained


def test_a_held_out_guide_question_stands_word_for_word_in_the_topic_file() -> None:
    phrasings = {phrasing for topic in topics() for phrasing in topic.held_out}
    assert all(example.messages[0].content in phrasings for example in drawn("guide", True))


def test_training_never_asks_the_guide_in_a_held_out_phrasing() -> None:
    held_out = {
        phrasing.lower().rstrip("?.! ") for topic in topics() for phrasing in topic.held_out
    }
    for example in drawn("guide"):
        asked = [message.content for message in example.messages if message.role == "user"]
        assert not held_out & {text.lower().rstrip("?.! ") for text in asked}


def test_tales_have_everything_that_was_asked_for() -> None:
    animals, things = tales.grammar().animals, {thing.name for thing in tales.grammar().things}
    pattern = re.compile(r"about an? (\w+) and an? ([\w ]+)\.")
    found = 0
    for example in drawn("tale"):
        asked = pattern.search(example.messages[0].content)
        if asked and asked[1] in animals and asked[2] in things:
            found += 1
            assert re.search(rf"\b{asked[1]}\b", example.reply) and asked[2] in example.reply
    assert found > 100


def test_tales_keep_to_their_length() -> None:
    assert all(55 <= len(example.reply.split()) <= 135 for example in drawn("tale"))


def test_there_are_thirty_plots_and_each_fits_many_things() -> None:
    parts = tales.grammar()
    assert len(parts.plots) >= 30
    assert {plot.theme for plot in parts.plots} == parts.morals.keys()
    assert all(sum(plot.fits(thing) for thing in parts.things) >= 10 for plot in parts.plots)


def test_problems_are_solved_correctly() -> None:
    for example in drawn("problem"):
        equations = EQUATION.findall(example.reply)
        for left, sign, right, result in equations:
            a, b = int(left), int(right)
            assert {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[sign] == int(result)
        assert isinstance(example.check, NumberCheck)
        assert example.check.expected == int(equations[-1][3])
        assert example.reply.endswith(f"The answer is {equations[-1][3]}.")


def test_numbers_of_a_problem_stand_in_its_question() -> None:
    """Numbers that the working takes from nowhere would teach Pip to make them up."""
    known = {"2", "4", "7", "8", "20"}  # halves, legs, days of a week, legs of a spider, a note
    for example in drawn("problem"):
        given = set(re.findall(r"\d+", example.messages[0].content)) | known
        for left, _, right, result in EQUATION.findall(example.reply):
            assert left in given and right in given, example
            given.add(result)


def test_pip_recalls_the_name_it_was_told() -> None:
    recalled = 0
    for example in drawn("talk") + drawn("talk", True):
        name = re.fullmatch(r"Your name is (\w+)\.", example.reply)
        if name:
            recalled += 1
            told = " ".join(
                message.content for message in example.prompt[:-1] if message.role == "user"
            )
            assert name[1].lower() in told.lower()
    assert recalled > 200


def test_pip_does_not_recall_what_it_was_not_told() -> None:
    unknown = [example for example in drawn("talk") if "not told me your name" in example.reply]
    assert unknown
    for example in unknown:
        assert all("Your name is" not in message.content for message in example.messages)


def test_every_refusal_points_to_the_models_page() -> None:
    subjects = talk.book().refusals
    assert sum(len(subject.ask) for subject in subjects) >= 100
    assert all("Models page" in answer for subject in subjects for answer in subject.answers)


def test_every_answer_of_a_subject_has_its_keywords() -> None:
    for subject in (*talk.book().refusals, *talk.book().small_talk):
        for answer in subject.answers:
            for group in subject.keywords:
                assert any(word.lower() in answer.lower() for word in group), (subject, group)
        assert not set(subject.ask) & set(subject.held_out), subject


@pytest.mark.parametrize("make", [manners.greeting, manners.thanks, manners.goodbye])
def test_manners_reply_with_one_of_their_words(make: type) -> None:
    for seed in range(100):
        exchange = make(random.Random(seed))
        assert any(word in exchange.reply.lower() for word in exchange.words)


def test_a_typo_leaves_all_but_one_word_alone() -> None:
    text = "What does the acceptance rate of a draft mean?"
    for seed in range(50):
        typed = wording.typo(random.Random(seed), text).split()
        assert sum(a != b for a, b in zip(typed, text.split(), strict=True)) <= 1


TOPIC = """
- id: depth
  name: the depth
  about: true
  ask: ["What is the depth?"]
  held_out: [depth meaning, how deep]
  answer: The depth is the number of drafted tokens.
  keywords: [[drafted]]
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("keywords: [[drafted]]", "keywords: [[apples]]", "none of the keywords"),
        ("held_out: [depth meaning, how deep]", "held_out: [depth meaning]", "two phrasings"),
        ("about: true", "about: maybe", "about must be true or false"),
        ("about: true", "abuot: true", "missing fields"),
        ('ask: ["What is the depth?"]', "ask: [how deep]", "already used"),
        ('ask: ["What is the depth?"]', "ask: [depth: what]", "quote a text that has a colon"),
    ],
)
def test_a_broken_topic_file_is_named_with_its_topic(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    (tmp_path / "some.yaml").write_text(TOPIC.replace(old, new), encoding="utf-8")
    with pytest.raises(guide.TopicError, match=rf"some\.yaml: topic 'depth'.*{complaint}"):
        guide.load(tmp_path)


def test_two_topics_may_not_share_an_id(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TOPIC, encoding="utf-8")
    (tmp_path / "b.yaml").write_text(TOPIC, encoding="utf-8")
    with pytest.raises(guide.TopicError, match=r"b\.yaml: topic 'depth' is already in a\.yaml"):
        guide.load(tmp_path)


def test_the_mixture_is_seeded_joins_some_chats_and_gives_some_a_system_message() -> None:
    sources = mixture.sources(mixture.DataPaths(), topics())
    weights = mixture.available_weights(sources)

    def first(seed: int) -> list[Example]:
        return list(islice(mixture.examples(seed, weights, sources), 1500))

    examples = first(3)
    assert examples == first(3) != first(4)
    assert {"guide", "tale", "problem", "talk"} <= Counter(
        example.kind for example in examples
    ).keys()
    with_system = sum(example.messages[0] == mixture.SYSTEM_MESSAGE for example in examples)
    assert 0.11 < with_system / len(examples) < 0.19
    for example in examples:
        assert example.messages[-1].role == "assistant"
        assert from_json(to_json(example)) == example


def test_a_weight_without_a_source_is_refused() -> None:
    with pytest.raises(ValueError, match="no source for gsm8k"):
        next(mixture.examples(1, {"gsm8k": 1.0}, mixture.sources(mixture.DataPaths(), topics())))


def test_the_corpus_strips_header_markup_and_typography() -> None:
    header = "# Title: T\n\n## Author: A\n\n-------\n"
    text = f"{header}## THE FOX AND THE HEN\n\n\u201cWell,\u201d said _he_\u2014\u2018go\u2019.\n"
    (section,) = corpus.sections(text)
    assert section.title == "The Fox and the Hen"
    assert section.paragraphs == ("\"Well,\" said he--'go'.",)


@needs_data
def test_corpus_chunks_keep_to_their_length() -> None:
    documents = list(islice(corpus.documents(DATA / "tales"), 1000))
    lengths = [len(document.split()) for document in documents]
    assert max(lengths) <= corpus.MOST_WORDS
    assert sum(length < corpus.FEWEST_WORDS for length in lengths) < 0.02 * len(lengths)
    assert all(document.isascii() and "##" not in document for document in documents)


@needs_data
def test_old_tales_are_found_and_told() -> None:
    found = tales.read_tales(DATA / "tales")
    assert len(found) > 200
    rng = random.Random(5)
    for number in range(300):
        example = tales.generate_old(rng, number % 2 == 0, found)
        assert example.check is not None and example.check.passes(example.reply)


@needs_data
def test_gsm8k_problems_are_short_and_end_with_the_answer() -> None:
    examples = list(problems.read_gsm8k(DATA / "gsm8k" / "train.jsonl"))
    assert len(examples) > 1000
    for example in examples:
        assert "<<" not in example.reply and "####" not in example.reply
        assert example.check is not None and example.check.passes(example.reply)


@needs_data
def test_dialogues_of_others_carry_a_system_message_of_their_own() -> None:
    dialogues = DATA / "dialogues"
    sgd = list(talk.read_sgd(dialogues / "sgd-dev.jsonl"))
    soda = list(talk.read_soda(dialogues / "soda-val.txt"))
    assert len(sgd) > 1000 and len(soda) > 300
    for example in (*sgd, *soda):
        assert example.messages[0].content in {talk.SGD_SYSTEM, talk.SODA_SYSTEM}
        assert 3 <= len(example.messages) <= talk.MOST_TURNS + 1
        assert example.messages[-1].role == "assistant"
