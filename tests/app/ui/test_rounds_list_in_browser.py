"""The list of rounds by itself, of rounds made here: how much is drawn, and what folds."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]


@pytest.fixture
def page(same_page):
    return same_page


LONG = """async (text) => {
  const rounds = JSON.parse(text);
  const { Rounds, h, render } = await import(document.querySelector("script[src$='/app.js']").src);
  const frames = async (n = 2) => { while (n--) await new Promise(requestAnimationFrame); };
  const root = document.createElement("aside");
  root.className = "rounds";
  root.style.cssText = "position: fixed; inset: 0 0 0 auto; width: 400px; height: 700px; z-index: 90";
  document.querySelector(".ft-chat").append(root);
  const reply = { id: 1, rounds: [], stats: null, running: true };
  const lit = [];
  const onLight = (...tokens) => lit.push(tokens);
  const draw = () => render(h(Rounds, { reply: { ...reply }, onLight }), root);
  draw();
  await frames();
  const nodes = () => root.querySelectorAll("*").length;
  const lanes = root.querySelector(".lanes");
  // As 1,000 tokens a second and more would bring them.
  let touched = 0;
  const watcher = new MutationObserver((records) => (touched += records.length));
  watcher.observe(root, { childList: true, subtree: true });
  for (let from = 0; from < rounds.length; from += 50) {
    reply.rounds.push(...rounds.slice(from, from + 50));
    draw();
    await frames(1);
  }
  await frames();
  const found = { touched, drawn: nodes() };
  watcher.disconnect();
  reply.running = false;
  draw();
  await frames();
  const shown = [...root.querySelectorAll(".lane")].map((lane) => Number(lane.dataset.round));
  found.atEnd = Math.max(...shown);
  found.inOrder = shown.every((round, i) => !i || round > shown[i - 1]);
  root.querySelector("[data-action=words]").click();
  await frames();
  found.opened = nodes();
  found.chips = root.querySelectorAll(".lane .chip").length;
  lanes.scrollTop = lanes.scrollHeight / 2;
  await frames();
  found.half = nodes();
  lanes.scrollTop = 0;
  await frames();
  found.first = root.querySelector(".lane").dataset.round;
  root.querySelector("summary").click();
  await frames(4);
  const range = root.querySelector(".scrubber");
  const move = async (share) => {
    range.value = share * range.max;
    range.dispatchEvent(new Event("input", { bubbles: true }));
    await frames();
  };
  for (const share of [0.1, 0.9, 0.5, 1]) await move(share);
  found.replay = nodes();
  found.tokens = root.querySelector("[data-figure=tokens] dd").textContent;
  found.litRound = root.querySelector(".lane.lit").dataset.round;
  found.litTokens = lit.at(-1);
  render(null, root);
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


def test_ten_thousand_tokens_stay_few_nodes(page):
    """What is in the page, and what a packet changes there, does not grow with the reply."""
    found = page.evaluate(LONG, json.dumps(long_reply(2500)))  # as values it takes seconds to send
    assert found["touched"] < 50 * 120, "50 packets of 50 rounds, of which a screen is drawn"
    assert found["atEnd"] == 2499  # it follows what is newest
    assert found["inOrder"]
    for name in ("drawn", "opened", "half", "replay"):
        assert found[name] < 1500, name
    assert found["chips"] > 20
    assert found["first"] == "0"
    assert found["tokens"] == "10,000"
    assert found["litRound"] == "2499"
    assert found["litTokens"] == [9996, 10000]


FOLDED = """async (rounds) => {
  const { Rounds, h, render } = await import(document.querySelector("script[src$='/app.js']").src);
  const frames = async (n = 3) => { while (n--) await new Promise(requestAnimationFrame); };
  const root = document.createElement("aside");
  root.style.height = "600px";
  document.querySelector(".ft-chat").append(root);
  render(h(Rounds, { reply: { id: 1, rounds, stats: null, running: false } }), root);
  await frames();
  const found = [...root.querySelectorAll(".lane")].map((lane) => [
    lane.dataset.rounds,
    lane.innerText,
    lane.querySelector(".row-head").ariaLabel,
  ]);
  root.querySelector("summary").click();
  await frames();
  const told = [root.querySelector(".replay-why").textContent];
  for (let i = 1; i < rounds.length; i += 1) {
    root.querySelector("[data-transport=before]").click();
    await frames(1);
    told.unshift(root.querySelector(".replay-why").textContent);
  }
  render(null, root);
  root.remove();
  return [found, told];
}"""


def test_rounds_without_a_draft_fold_into_one_row_with_the_reason(page):
    pause = "drafting paused: needs 58 % accepted, expecting 41 %"
    plain = {"d": [], "n": [" x", "b", 0.9, True], "k": "b2", "s": " x"}
    rounds = long_reply(1)
    rounds += [{**rounds[0], **plain, "i": 1, "g": 0, "w": [pause, 0]}]
    rounds += [{**rounds[0], **plain, "i": i, "g": 0} for i in range(2, 9)]
    rounds += [{**rounds[0], **plain, "i": 9, "g": 2}]  # a try for which nothing was found
    rounds += [{**rounds[0], "i": 10, "w": ["drafting 4 tokens per round", 4]}]
    rounds += [{**rounds[0], "i": 11, "g": 15}]  # so deep nobody announced
    found, told = page.evaluate(FOLDED, rounds)
    assert [count for count, _, _ in found] == ["1", "8", "1", "1", "1"]
    assert "8 rounds not drafted" in found[1][1] and pause not in found[1][1]
    assert found[1][2] == f"8 rounds not drafted: {pause}"
    assert found[2][2] == "1 round not drafted: no confident guess"
    assert found[3][2].endswith(": drafting 4 tokens per round")
    # The replay gives the same reasons, and none for a depth that was not announced.
    none = "no confident guess"
    assert told == ["", *[pause] * 8, none, "drafting 4 tokens per round", ""]
