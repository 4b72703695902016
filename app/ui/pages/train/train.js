// The train page: a form, or the progress of a run.

import { pageLink } from "../../shared/addresses.js";
import { copy, fixed, h, percent } from "../../shared/dom.js";
import { choice, field, propose, select } from "../../shared/figures/measuring.js";
import { Page, register } from "../../shared/frame/pages.js";
import { answered, reason } from "../../shared/frame/server.js";
import { status } from "../../shared/frame/status.js";
import { words } from "../../shared/words.js";
import { chart } from "./chart.js";
import { say } from "./words.js";

const STEP = { recording: 1, learning: 2, measuring: 2, done: 2 };
const EVERY_MS = 1000;
const PIP = "pip"; // the model that comes with the app

class TrainPage extends Page {
  constructor({ element, server }) {
    super(server);
    this.root = element.querySelector(".ft-train");
    this.body = h("div", { class: "train-body" });
    this.root.replaceChildren(h("p", { class: "ft-intro" }, say.intro), this.alert, this.body);
    this.shown = null; // what the body was built for
    new IntersectionObserver((entries) => {
      this.visible = entries[0].isIntersecting;
      if (this.visible) this.refresh(this.shown === "form" && !this.touched);
      else clearTimeout(this.timer);
    }).observe(this.root);
    status.watch(() => this.markLoaded(), server.status);
  }

  // `anew`: redraw the form, whose choices may have changed.
  async refresh(anew = false) {
    clearTimeout(this.timer);
    if (anew) this.shown = null;
    try {
      await this.show(await answered(this.server.training({})));
    } catch (error) {
      if (reason(error) !== words.lost) this.fail(reason(error));
      this.again(3 * EVERY_MS); // the app may be restarting
    }
  }

  back() {
    if (this.visible) return this.refresh();
  }

  again(after) {
    clearTimeout(this.timer);
    if (this.visible) this.timer = setTimeout(() => this.refresh(), after);
  }

  async act(question, data = {}) {
    const rest = (yes) => this.body.querySelectorAll("button").forEach((button) => (button.disabled = yes));
    rest(true);
    try {
      const answer = await answered(question(data));
      rest(false);
      await this.show(answer);
      this.fail(answer.error);
    } catch (error) {
      rest(false);
      this.fail(reason(error));
    }
  }

  async show({ run }) {
    const wanted = run ? `${run.name} ${run.state}` : "form";
    if (this.shown !== wanted) {
      this.fail("");
      this.shown = wanted;
      this.root.dataset.state = run ? run.state : "empty";
      this.body.replaceChildren(run ? this.runView(run) : await this.form());
    }
    this.markLoaded();
    if (!run) return;
    this.fill(run);
    if (run.state === "running" || run.state === "stopping") this.again(EVERY_MS);
  }

  // ---- nothing is trained

  async form() {
    const offer = await answered(this.server.training_choices({}));
    if (!offer.targets.length) return h("p", { class: "panel hint" }, say.noTargets);
    const target = select("target", offer.targets.map(({ id, name }) => [id, name]), offer.target);
    const file = h("input", { type: "text", name: "file", placeholder: say.filePath, spellcheck: "false", "aria-label": say.fileLabel });
    const few = offer.questions < 2;
    const own = offer.target === PIP;
    const sources = [
      choice("radio", "prompts", "general", say.general, say.generalHint, { checked: !own }),
      choice("radio", "prompts", "pip", say.pip, say.pipHint, { checked: own }),
      choice("radio", "prompts", "chats", say.chats, say.chatsHint(offer.questions), { disabled: few }),
      choice("radio", "prompts", "file", say.file, say.fileHint, {}),
    ];
    const hint = h("p", { class: "hint", role: "status" });
    const estimate = () => {
      const given = new FormData(form);
      hint.textContent = say.estimate(Number(given.get("minutes")), given.get("target") === offer.target ? offer.speed : null);
    };
    const send = (event) => {
      event.preventDefault();
      const given = new FormData(event.target);
      const from = given.get("prompts");
      this.act(this.server.train, { target: given.get("target"), kind: given.get("kind"), minutes: given.get("minutes"), prompts: from === "file" ? given.get("file") : from });
    };
    this.touched = false;
    const changed = () => {
      this.touched = true;
      estimate();
    };
    const form = h("form", { class: "panel", on: { submit: send, input: changed } },
      h("div", { class: "train-line" },
        field(say.model, target),
        field(say.minutes, h("input", { type: "number", name: "minutes", value: own ? "10" : "60", min: "0.1", step: "any", required: true }), "short")),
      hint,
      h("fieldset", {}, h("legend", {}, say.kind), h("div", { class: "choices kinds" },
        ...offer.kinds.map((kind, at) => choice("radio", "kind", kind.id, kind.name, kind.sentence, { checked: at === 0 })))),
      h("fieldset", {}, h("legend", {}, say.from), h("div", { class: "choices" }, ...sources), file),
      h("div", { class: "train-buttons" }, h("button", { class: "ft-button primary", type: "submit", dataset: { act: "start" } }, say.start), h("span", { class: "hint" }, say.idleHint)));
    estimate();
    return form;
  }

  // ---- a run

  runView(run) {
    const from = say.sources[run.prompts] ?? say.source(run.prompts);
    this.steps = h("ol", { class: "steps" }, ...say.steps.map((step) => h("li", {}, step)));
    this.bar = h("progress", { max: 1, "aria-label": say.title(run.kind, run.target) });
    this.caption = h("p", { class: "hint caption", role: "status" });
    this.charts = h("div", { class: "run-charts" });
    return h("section", { class: "panel", dataset: { run: run.name } },
      h("header", {}, h("div", {}, h("h2", {}, say.title(run.kind, run.target)), h("p", { class: "hint" }, `${from}, ${say.budget(run.minutes)}`)),
        h("span", { class: `run-state ${run.state}` }, say.states[run.state])),
      run.error ? h("p", { class: "ft-error" }, run.error) : null,
      this.steps, this.bar, this.caption, this.ending(run), this.charts, this.buttons(run));
  }

  ending(run) {
    if (run.state === "stopped") return h("p", { class: "run-end" }, say.stopped(run));
    if (run.state !== "done") return null;
    return h("div", { class: "run-end" },
      run.length.length ? h("p", {}, h("b", {}, say.doneText(run.length.at(-1)[1]))) : null,
      h("p", { class: "hint" }, run.length.length ? say.weak(run.length.at(-1)[1]) : "", say.inCatalog(run.pair), " ", say.where, " ", h("code", {}, run.drafter), " ", this.copyButton(run.drafter)));
  }

  copyButton(text) {
    const button = h("button", { class: "ft-link", type: "button", on: { click: () => copy(text, button, words.copied) } }, words.copy);
    return button;
  }

  buttons(run) {
    const button = (name, text, act, look = "") => h("button", { class: `ft-button ${look}`, type: "button", dataset: { act: name }, on: { click: act } }, text);
    const { server } = this;
    if (run.state === "running") return h("div", { class: "train-buttons" }, button("stop", say.stop, () => this.act(server.stop_training)), h("span", { class: "hint" }, say.idleHint));
    if (run.state === "stopping") return h("p", { class: "hint" }, say.stopping);
    if (run.state === "done") {
      this.loadButton = button("load", say.load, () => this.act(server.open_trained).then(() => status.refresh()), "primary");
      this.loadNote = h("span", { class: "hint", role: "status" });
      this.next = h("span", { class: "loaded-next", hidden: true }, pageLink("chat", say.chatWith), " · ", this.raceLink(run.race));
      this.pair = run.pair;
      return h("div", { class: "train-buttons" }, this.loadButton, button("another", say.another, () => this.act(server.put_training_away)), this.loadNote, this.next);
    }
    const discard = button("discard", say.discard, () => {
      if (discard.classList.contains("sure")) return this.act(server.discard_training);
      discard.classList.add("sure");
      discard.textContent = say.discardSure;
    });
    discard.addEventListener("blur", () => {
      discard.classList.remove("sure");
      discard.textContent = say.discard;
    });
    return h("div", { class: "train-buttons" }, button("resume", run.state === "failed" ? say.again : say.goOn, () => this.act(server.resume_training), "primary"), discard);
  }

  // Makes a link to a race with both sides filled in.
  raceLink(race) {
    const link = pageLink("race", say.race);
    link.addEventListener("click", () => propose(race));
    return link;
  }

  fill(run) {
    const last = run.phase === "measuring" && run.share >= 1; // it measures while it learns, too
    const at = last ? 3 : STEP[run.phase] ?? (run.share > 0 ? 2 : run.done > 0 ? 1 : 0);
    const going = run.state === "running" || run.state === "stopping";
    [...this.steps.children].forEach((step, number) => {
      step.className = run.state === "done" || number < at ? "past" : number === at ? "current" : "";
      step.ariaCurrent = number === at && going ? "step" : null;
    });
    const value = { recording: run.of ? run.done / run.of : 0, learning: run.share, measuring: run.share || 1 }[run.phase];
    const waits = value === undefined || run.phase === "measuring";
    this.bar.hidden = !going || value === undefined;
    this.bar.value = value ?? 0;
    this.caption.hidden = !going;
    const text = { recording: say.recording(run), learning: say.learning(run), measuring: say.measuring }[run.phase] ?? say.loading;
    if (this.caption.textContent !== text) this.caption.replaceChildren(...(waits ? [h("span", { class: "spinner", "aria-hidden": true })] : []), text);
    this.charts.hidden = !run.loss.length && !run.length.length && (at < 2 || !going);
    this.charts.replaceChildren(
      this.figure(say.loss, say.lossUnit, run.loss, say.lossEmpty, {}),
      this.figure(say.length, say.lengthUnit, run.length, say.lengthEmpty, { from: 1 }),
      ...(run.positions.length ? [h("dl", { class: "positions", "aria-label": say.positions },
        ...run.positions.map((share, number) => h("div", {}, h("dt", {}, say.position(number + 1)), h("dd", {}, percent(share)))))] : []));
  }

  figure(title, unit, points, empty, options) {
    return h("figure", {}, h("figcaption", {}, h("b", {}, title), h("span", { class: "hint" }, unit), points.length ? h("span", { class: "latest" }, fixed(points.at(-1)[1])) : null),
      points.length ? chart(points, { label: title, at: say.at, ...options }) : h("p", { class: "hint nothing" }, empty));
  }

  // Shows whether the trained pair is being loaded, or is loaded.
  markLoaded() {
    if (this.root.dataset.state !== "done" || !this.loadNote || !status.latest) return;
    const { loaded, opening, failed } = status.latest;
    const here = loaded?.name === this.pair;
    this.loadButton.disabled = here || Boolean(opening);
    this.next.hidden = !here || Boolean(opening);
    this.loadNote.textContent = opening ?? (here ? say.loaded : failed ?? say.anotherHint);
  }
}

register("train", TrainPage);
