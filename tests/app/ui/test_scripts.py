"""The pages' scripts by themselves, in a blank page of a real browser: marks, places, lanes, Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.ui.rounds import view
from engine.events import Emitted, Event, Finished, FinishReason, Origin, Token, Tree
from tests.app.ui.test_view import turn
from tests.support.places import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]

KINDS = {".js": "text/javascript", ".css": "text/css"}


def serve(route: Any) -> None:
    """The repository's files at their own paths, without a server; a blank page at the root."""
    path = ROOT / urlsplit(route.request.url).path.lstrip("/")
    if path == ROOT:
        route.fulfill(content_type="text/html", body="<!doctype html><div id=here></div>")
    elif path.is_file():
        route.fulfill(
            content_type=KINDS.get(path.suffix, "application/octet-stream"), body=path.read_bytes()
        )
    else:
        route.fulfill(status=404)


@pytest.fixture(scope="module")
def scripts(browser: Any) -> Iterator[Any]:
    context = browser.new_context()
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.route("**/*", serve)
    page.goto("http://scripts.test/")
    yield page
    context.close()
    assert not errors


DRAW = """async ([text, marks]) => {
  const { StreamingMarkdown, Marks } = await import("/assets/ui/app.js");
  const node = document.createElement("div");
  new StreamingMarkdown(node).render(text, marks === null ? null : new Marks(marks));
  const found = [...node.querySelectorAll(".mark")]
    .map((m) => [Number(m.dataset.token), m.className, m.textContent]);
  const leaves = node.querySelectorAll("[data-leaf]").length;
  return { text: node.textContent, html: node.innerHTML, found, leaves };
}"""


def tokens_of(*texts: str) -> list[Token]:
    """Tokens of these texts, of each origin in turn."""
    origins = (Origin.DRAFT, Origin.CORRECTION, Origin.BONUS)
    start, found = 0, []
    for i, text in enumerate(texts):
        found.append(Token(i, text, start, origins[i % 3], 0.5))
        start += len(text)
    return found


def drawn(scripts: Any, tokens: list[Token]) -> dict[str, Any]:
    text = "".join(token.text for token in tokens)
    result: dict[str, Any] = scripts.evaluate(DRAW, [text, view.marks(tokens)])
    return result


def test_each_token_is_marked_where_it_stands(scripts: Any) -> None:
    """Searching took the "1" of a list's number for the "1" behind it, and lost its way in emoji."""
    tokens = tokens_of(
        "1. ", "1", " 漢", "字", " 😀", "😀a", "\n2. ", "**", "bo", "ld", "**", " 2. 2"
    )
    found: dict[int, str] = {}
    for token, kind, text in drawn(scripts, tokens)["found"]:
        found[token] = found.get(token, "") + text
        assert kind == ("mark accepted", "mark correction", "mark bonus")[token % 3]
    assert found == {
        1: "1", 2: " 漢", 3: "字", 4: " 😀", 5: "😀a", 8: "bo", 9: "ld", 11: " 2. 2",
    }  # fmt: skip


def test_a_token_of_unknown_origin_is_not_marked_and_moves_the_next_ones(scripts: Any) -> None:
    tokens = [Token(0, "😀 one ", 0), Token(1, "two", 6, Origin.DRAFT)]
    assert drawn(scripts, tokens)["found"] == [[1, "mark accepted", "two"]]


FOLLOW = """async () => {
  const { Follow } = await import("/assets/ui/app.js");
  const box = document.createElement("div"), inner = document.createElement("div");
  box.style = "height: 200px; overflow: auto";
  box.append(inner);
  document.body.append(box);
  const follow = new Follow(box);
  const drawn = () => new Promise((over) => requestAnimationFrame(() => setTimeout(over)));
  const seen = [];
  for (const [height, up] of [[1000, 0], [700, 0], [1500, 0], [1500, 300], [2000, 0]]) {
    inner.style.height = `${height}px`;
    box.scrollTop -= up;
    await drawn();
    seen.push(follow.stuck);
  }
  const top = box.scrollTop;
  box.remove();
  return [seen, top];
}"""


def test_the_end_is_followed_until_the_reader_scrolls_up(scripts: Any) -> None:
    """A turn with calls was left when its content grew before the event of an earlier scroll."""
    stuck, top = scripts.evaluate(FOLLOW)
    assert (stuck, top) == ([True, True, True, False, False], 1000)


MARKDOWN = """# A *head* of `code`

Plain & **bold *both*** ~~gone~~ \\* &amp; &#128512; 1 < 2 <b>x</b> [link](http://a.b) http://c.d
next 漢字 😀

1. 1
   more `` a`b ``
   - in
2. - [x] done

> quoted `x`
> > deep

| a | b |
|---|---|
| *1* | 漢 |

```python
def f():
    return "<b>"  # 1
```

    indented
"""


def test_marks_change_nothing_but_the_marks(scripts: Any) -> None:
    plain = scripts.evaluate(DRAW, [MARKDOWN, None])
    marked = drawn(scripts, tokens_of(*MARKDOWN))
    assert marked["text"] == plain["text"]
    assert marked["leaves"] == 0
    for token, _, text in marked["found"]:
        if text not in "&😀":  # from entities
            assert text == MARKDOWN[token]
    letters = sum(character.isalnum() for _, _, text in marked["found"] for character in text)
    unmarked = "python" + "Copy" + "text" + "Copy"  # what stands above code
    assert letters == sum(map(str.isalnum, plain["text"])) - len(unmarked)


GROWN = """async ([texts, parts, marks]) => {
  const { StreamingMarkdown, Marks } = await import("/assets/ui/app.js");
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let i = 0; i < 150; i += 1) {
    texts.push(Array.from({ length: 1 + random(40) }, () => parts[random(parts.length)]).join(""));
  }
  const drawn = () => {
    const node = document.createElement("div");
    return [node, new StreamingMarkdown(node)];
  };
  const wrong = [];
  for (const text of texts) {
    const [whole, one] = drawn();
    const all = marks ? new Marks(Array(text.length).fill("a1").join(" ")) : null;
    one.render(text, all);
    const [grown, many] = drawn();
    for (let end = 0; end < text.length; end += 1 + random(30)) {
      const so = marks ? new Marks(Array(end).fill("a1").join(" ")) : null;
      many.render(text.slice(0, end), so, true);
    }
    const late = text.length % 2 && marks; // drawn without marks, which come when somebody looks
    many.render(text, late ? null : all, true);
    many.render(text, late ? null : all);
    if (late) many.mark(all);
    grown.normalize();
    if (grown.innerHTML !== whole.innerHTML) wrong.push([text, grown.innerHTML, whole.innerHTML]);
  }
  return wrong;
}"""

PARTS = [
    "word ",
    "two words\n",
    "\n\n",
    "- item\n",
    "1. one\n",
    "  more\n",
    "    deep\n",
    "# Head\n",
    "> said\n",
]
PARTS += [
    "```python\nx = 1\n",
    "\n```\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "**bold** ",
    "`code` ",
    "$x$ ",
]
PARTS += [
    "$$\n",
    "a^2\n",
    "[link][a] ",
    "\n[a]: http://b.c\n",
    "<b>x</b> ",
    "<your name> ",
    "<section>\n",
    "---\n",
    '{\n"a": 1\n}\n',
    "漢😀 ",
]


@pytest.mark.parametrize("marks", [False, True])
def test_a_text_that_grew_looks_as_one_that_is_drawn_at_once(scripts: Any, marks: bool) -> None:
    """Whatever its parts are, and wherever it was cut while it grew."""
    code = "Look:\n\n```python\n" + "x = [1, 2]  # a line of it\n" * 200 + "```\n\nThat was it."
    texts = [MARKDOWN, MARKDOWN.replace("\n", "\r\n"), code]
    assert scripts.evaluate(GROWN, [texts, PARTS, marks]) == []


def test_tags_that_are_not_drawn_are_shown_as_written(scripts: Any) -> None:
    """They vanished, and with a script all of its text."""
    text = "Run git clone <url>, <b>now</b>.\n\n<script>\nstart()\n</script>\n\n<!-- later -->\n"
    for marks in (None, " ".join(["a1"] * len(text))):
        html = scripts.evaluate(DRAW, [text, marks])["html"]
        for sign in ("&lt;url&gt;", "<b>", "&lt;script&gt;", "start()", "&lt;!-- later --&gt;"):
            assert sign in html


LONG = """async ([before, line, times]) => {
  const { StreamingMarkdown } = await import("/assets/ui/app.js");
  const node = document.getElementById("here");
  node.replaceChildren();
  const shown = new StreamingMarkdown(node);
  let text = before;
  shown.render(text, null, true);
  for (let i = 0; i < times; i += 1) shown.render((text += line), null, true);
  const kept = new Set(node.querySelectorAll("*"));
  let touched = 0;
  const seen = new MutationObserver((records) => (touched += records.length));
  seen.observe(node, { childList: true, characterData: true, subtree: true });
  for (let i = 0; i < 10; i += 1) shown.render((text += line), null, true);
  await new Promise((done) => setTimeout(done));
  const gone = [...kept].filter((each) => !each.isConnected).length;
  return { all: kept.size, gone, touched };
}"""


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("", "A paragraph of a few words that ends here.\n\n"),
        ("```python\n", "value = function(argument, 17)  # said\n"),
        ("", "words without an end "),
    ],
)
def test_a_long_reply_is_drawn_again_from_its_last_lines_on(
    scripts: Any, before: str, line: str
) -> None:
    found = scripts.evaluate(LONG, [before, line, 600])
    assert found["gone"] < 300  # of one piece of code; of thousands, where all of it was drawn anew
    assert found["gone"] < max(20, found["all"] / 8)
    assert found["touched"] < 200


PLACES = """async ([texts, bits]) => {
  const { Marked, place, source } = await import("/assets/ui/app.js");
  const marked = new Marked({ gfm: true, breaks: true });
  let seed = 5;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let i = 0; i < 3000; i += 1) {
    texts.push(Array.from({ length: 1 + random(14) }, () => bits[random(bits.length)]).join(""));
  }
  const result = { placed: 0, lost: 0, wrong: [] };
  const check = (token, text) => {
    const leaf = ["text", "codespan", "code", "escape"].includes(token.type) && !token.tokens;
    if (leaf && token.at) {
      result.placed += 1;
      const drawn = token.type === "text" ? token.raw : token.text;
      const same = (a, b) => a === b || ("\\n\\r ".includes(a) && "\\n\\r".includes(b)); // line breaks
      for (let i = 0; i < drawn.length; i += 1) {
        if (!same(drawn[i], text[token.at[i]])) result.wrong.push(text);
      }
    } else if (leaf) result.lost += 1;
    const cells = [token.header ?? [], ...(token.rows ?? [])].flat().flatMap((cell) => cell.tokens);
    if (token.autolink) return;
    for (const child of [...(token.tokens ?? []), ...(token.items ?? []), ...cells]) check(child, text);
  };
  for (const text of texts) {
    const tokens = marked.lexer(text);
    place(tokens, source(text));
    for (const token of tokens) check(token, text);
  }
  return result;
}"""


def test_a_place_always_holds_the_character_that_is_drawn(scripts: Any) -> None:
    """Over Markdown of every kind, and over nonsense made of its signs."""
    bits = ["a", "b ", "\n", "\n\n", "- ", "  ", "    ", "> ", "# ", "*", "**", "`", "```\n", "|"]
    bits += [
        "\n|-|-|\n",
        "1. ",
        "😀",
        "漢",
        "\\*",
        "&amp;",
        "<b>",
        "[x](u)",
        "~~",
        "\t",
        "_",
        "\r\n",
    ]
    result = scripts.evaluate(PLACES, [[MARKDOWN, MARKDOWN.replace("\n", "\r\n")], bits])
    assert result["wrong"] == []
    assert result["lost"] < result["placed"] / 20


REPLY = """async (events) => {
  const { Reply } = await import("/assets/ui/app.js");
  document.body.classList.add("show-marks");
  const node = document.createElement("div");
  const reply = new Reply(node);
  const rounds = [];
  for (const event of events) {
    rounds.push(reply.add([event]).length);
    await new Promise(requestAnimationFrame);
  }
  await new Promise(requestAnimationFrame);
  const marks = [...node.querySelectorAll(".mark")].map((m) => m.textContent);
  return { text: node.textContent, marks, rounds, running: reply.running };
}"""


def test_tokens_keep_their_places_while_a_stop_string_holds_text_back(scripts: Any) -> None:
    tokens = tokens_of("😀 a", "b ST", "", "OPP", "ED 漢", "字 ST", "OP no more")
    shown = ("😀 a", "b ", "", "", "STOPPED 漢", "字 ", "")
    events: list[Event] = [
        Emitted(text=text, tokens=(token,), round=turn(Tree(), ()), next_text=token.text)
        for token, text in zip(tokens, shown, strict=True)
    ]
    events.append(Finished(FinishReason.STOP, "", "".join(shown), tuple(range(7))))
    result = scripts.evaluate(REPLY, [view.show(event) for event in events])
    assert result["text"].strip() == "😀 ab STOPPED 漢字"
    assert result["marks"] == ["😀 a", "b ST", "OPP", "ED 漢", "字 "]
    assert result["rounds"] == [1] * 7 + [0]
    assert not result["running"]


def test_text_without_tokens_is_drawn_without_marks_and_lanes(scripts: Any) -> None:
    events = [
        Emitted(text="One "),
        Emitted(text="two"),
        Finished(FinishReason.STOP, "!", "One two!", None),
    ]
    result = scripts.evaluate(REPLY, [view.show(event) for event in events])
    assert result["text"].strip() == "One two!"
    assert (result["marks"], result["rounds"]) == ([], [0, 0, 0])


LANES = """async (rounds) => {
  const { Rounds, h, render } = await import("/assets/ui/app.js");
  const root = document.createElement("aside");
  document.body.append(root);
  render(h(Rounds, { reply: { id: 1, rounds, stats: null, running: false } }), root);
  await new Promise(requestAnimationFrame);
  root.querySelector("[data-action=words]").click();
  await new Promise(requestAnimationFrame);
  const found = [...root.querySelectorAll(".lane")].map((lane) => ({
    chips: [...lane.querySelectorAll(".chip")]
      .map((chip) => [chip.className.replace("chip ", ""), chip.textContent]),
    drafter: lane.querySelector(".drafter")?.textContent ?? null,
    places: lane.querySelectorAll(".place").length,
  }));
  render(null, root);
  root.remove();
  return found;
}"""


def test_every_fate_of_a_drafted_token_has_a_shape_of_its_own(scripts: Any) -> None:
    def lane(made: Any, *texts: str) -> dict[str, Any]:
        return view.show(Emitted(text="", round=made, drafted=texts, next_text="!"))

    chain = turn(Tree.chain([1, 2, 3]), (0,))
    ended = turn(Tree.chain([1, 2]), (0, 1), emitted=1)
    tree = replace(turn(Tree((1, 2, 3), (-1, -1, 0)), (1,)), proposer="medusa")
    rounds = [lane(chain, "a", "b", "c"), lane(ended, "a", "<b>"), lane(tree, "a", "b", "c")]
    first, second, third = scripts.evaluate(LANES, rounds)
    assert first["chips"] == [
        ["accepted", "a"], ["rejected", "b"], ["unseen", "c"], ["correction", "!"],
    ]  # fmt: skip
    assert second["chips"] == [["accepted", "a"], ["accepted cut", "<b>"], ["bonus cut", "!"]]
    # Columns, one for each place in the text; what was accepted stands on top.
    assert third["chips"] == [
        ["accepted", "b"], ["rejected", "a"], ["correction", "!"], ["unseen", "c"],
    ]  # fmt: skip
    assert third["places"] == 2
    assert [made["drafter"] for made in (first, second, third)] == [None, None, "Medusa heads"]


def test_nothing_in_a_reply_becomes_markup_that_runs_or_loads(scripts: Any) -> None:
    hostile = (
        "<img src=x onerror=alert(1)> <script>window.hacked = 1</script> <b onclick='x()'>b</b> "
        "[l](javascript:alert(1)) `<i>` 1 < 2 <span data-leaf='0'>s</span>\n\n```\n<script>\n```\n"
        "<img src='javascript:alert(1)' alt='<i>'> ![a cat](https://a.b/cat.png) "
        "<a class='away tour' href='https://a.b/'>Log in again</a>"
    )
    for marks in (None, " ".join(["a1"] * len(hostile))):
        html = scripts.evaluate(DRAW, [hostile, marks])["html"].lower()
        for sign in ("<img", "<script", "onclick", "onerror", "javascript:", "away", "tour"):
            assert sign not in html
        assert 'href="https://a.b/cat.png"' in html and "image: a cat" in html  # not lost
    assert scripts.evaluate("window.hacked") is None
