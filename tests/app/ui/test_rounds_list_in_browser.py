"""The list of rounds by itself, of rounds made here: how much is drawn, how often, and what folds."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]


@pytest.fixture
def page(same_page):
    return same_page


LONG = """async (rounds) => {
  const { RoundsView } = await import("/foretoken/app/ui/pages/chat/drawer/rounds.js");
  const frame = () => new Promise(requestAnimationFrame);
  const root = document.createElement("aside");
  root.className = "rounds";
  root.style.cssText = "position: fixed; inset: 0 0 0 auto; width: 400px; height: 700px; z-index: 90";
  document.querySelector(".gradio-container").append(root);
  const view = new RoundsView(root);
  let draws = 0;
  const draw = view.draw.bind(view);
  view.draw = () => { draws += 1; draw(); };
  await frame();
  // Many packets between two frames, as 1,000 tokens a second and more would bring.
  for (let from = 0; from < rounds.length; from += 10) view.add(rounds.slice(from, from + 10));
  const before = draws;
  await frame();
  await frame();
  const nodes = () => root.querySelectorAll("*").length;
  const found = { draws: draws - before, drawn: nodes() };
  view.finish();
  await frame();
  const shown = [...root.querySelectorAll(".lane")].map((lane) => Number(lane.dataset.round));
  found.atEnd = Math.max(...shown);
  found.inOrder = shown.every((round, i) => !i || round > shown[i - 1]);
  view.openAll();
  await frame();
  await frame();
  found.opened = nodes();
  view.lanes.scrollTop = view.lanes.scrollHeight / 2;
  await frame();
  await frame();
  found.half = nodes();
  view.lanes.scrollTop = 0;
  await frame();
  await frame();
  found.first = root.querySelector(".lane").dataset.round;
  view.drawer.open = true;
  const { clock } = view.replay;
  for (const share of [0.1, 0.9, 0.5, 1]) clock.seek(share * clock.duration);
  await frame();
  found.replay = nodes();
  found.tokens = root.querySelector("[data-figure=tokens] dd").textContent;
  found.lit = view.lit;
  root.remove();
  return found;
}"""


def long_reply(rounds: int) -> list[dict]:
    """Synthetic rounds of four tokens each."""
    return [
        {
            "t": "round", "i": i, "g": 4, "o": "draft", "c": [0.01, 0.02, 0.04],
            "d": [[f" a{i}", "a", 0.9, 0.8], [f" b{i}", "a", 0.9, 0.8], [f" c{i}", "a", 0.9, 0.8],
                  [f" d{i}", "r", 0.1, 0.6]],
            "n": [f" e{i}", "c", 0.7, True], "k": "a3 a3 a3 c3", "s": f" a{i} b{i} c{i} e{i}",
        }
        for i in range(rounds)
    ]  # fmt: skip


def test_ten_thousand_tokens_stay_few_nodes_and_packets_are_drawn_once_a_frame(page):
    """What is in the page does not grow with the reply; a frame draws whatever came before it, once."""
    found = page.evaluate(LONG, long_reply(2500))
    assert found["draws"] == 1
    assert found["atEnd"] == 2499  # it follows what is newest
    assert found["inOrder"]
    for name in ("drawn", "opened", "half", "replay"):
        assert found[name] < 1500, name
    assert found["first"] == "0"
    assert found["tokens"] == "10000"
    assert found["lit"] == 2499


FOLDED = """async (rounds) => {
  const { RoundsView } = await import("/foretoken/app/ui/pages/chat/drawer/rounds.js");
  const root = document.createElement("aside");
  document.querySelector(".gradio-container").append(root);
  const view = new RoundsView(root);
  for (const round of rounds) { view.add([round]); view.draw(); }
  view.list.render();
  const found = [...root.querySelectorAll(".lane")].map((lane) => [lane.dataset.rounds, lane.innerText]);
  view.finish();
  const told = rounds.map((_, i) => view.timeline.after(i + 1).why);
  root.remove();
  return [found, told, view.replay.pane.why.textContent];
}"""


def test_rounds_without_a_draft_fold_into_one_row_with_the_reason(page):
    pause = "drafting paused: needs 58% acceptance, expects 41%"
    plain = {"d": [], "n": [" x", "b", 0.9, True], "k": "b2", "s": " x"}
    rounds = long_reply(1)
    rounds += [{**rounds[0], **plain, "i": 1, "g": 0, "w": [pause, 0]}]
    rounds += [{**rounds[0], **plain, "i": i, "g": 0} for i in range(2, 9)]
    rounds += [{**rounds[0], **plain, "i": 9, "g": 2}]  # a try for which nothing was found
    rounds += [{**rounds[0], "i": 10, "w": ["drafting 4 tokens a round", 4]}]
    rounds += [{**rounds[0], "i": 11, "g": 15}]  # so deep nobody announced
    found, told, last = page.evaluate(FOLDED, rounds)
    assert [count for count, _ in found] == ["1", "8", "1", "1", "1"]
    assert f"8 rounds without a draft: {pause}" in found[1][1]
    assert "1 round without a draft: no guess was found, or none was sure enough" in found[2][1]
    assert "drafting 4 tokens a round" in found[3][1]
    # The replay says the same of each, and nothing of a depth that was not announced.
    none = "no guess was found, or none was sure enough"
    assert told == [None, *[pause] * 8, none, "drafting 4 tokens a round", None]
    assert last == ""
