// A setting as a labelled control: a slider, a number, a text, a choice or a checkbox.

import { h } from "../dom.js";

// `changed(value, done)` is called for each key or move, and with `done` true once the value is final.
export function field(spec, value, changed) {
  const id = `field-${spec.id ?? spec.name}`;
  const make = { range, number, text, choice, check }[spec.kind];
  const { inputs, set } = make(spec, id, changed);
  const info = spec.info ? h("span", { class: "info", id: `${id}-info` }, spec.info) : null;
  for (const input of inputs) if (info) input.setAttribute("aria-describedby", info.id);
  const label = h("label", { for: id }, spec.label);
  const node = h("div", { class: `field ${spec.kind}`, id: spec.id ?? null, dataset: { field: spec.name } },
    ...(spec.kind === "check" ? [h("span", { class: "field-row" }, ...inputs, label), info] : [label, info, h("span", { class: "field-row" }, ...inputs)]));
  set(value);
  return {
    node,
    set,
    enable: (on, why) => {
      for (const input of inputs) input.disabled = !on;
      node.title = on ? "" : why;
      node.classList.toggle("off", !on);
    },
  };
}

const listen = (input, read, changed) => {
  input.addEventListener("input", () => changed(read(), false));
  input.addEventListener("change", () => changed(read(), true));
  return input;
};

function range(spec, id, changed) {
  const scale = { min: String(spec.min), max: String(spec.max), step: String(spec.step) };
  const bar = h("input", { type: "range", tabindex: "-1", "aria-hidden": "true", ...scale });
  const exact = h("input", { type: "number", id, ...scale });
  const both = (from, to) => listen(from, () => {
    to.value = from.value;
    return from.value === "" ? spec.min : Number(from.value);
  }, changed);
  both(bar, exact);
  both(exact, bar);
  return { inputs: [bar, exact], set: (value) => (bar.value = exact.value = String(value)) };
}

function number(spec, id, changed) {
  const input = h("input", { type: "number", id, step: "any" });
  listen(input, () => (input.value === "" ? null : Number(input.value)), changed);
  return { inputs: [input], set: (value) => (input.value = value ?? "") };
}

function text(spec, id, changed) {
  const input = spec.lines ? h("textarea", { id, rows: spec.lines }) : h("input", { type: "text", id });
  listen(input, () => input.value, changed);
  return { inputs: [input], set: (value) => (input.value = value ?? "") };
}

function check(spec, id, changed) {
  const input = h("input", { type: "checkbox", id });
  listen(input, () => input.checked, changed);
  return { inputs: [input], set: (value) => (input.checked = Boolean(value)) };
}

function choice(spec, id, changed) {
  const input = h("select", { id });
  const whole = () => (input.title = input.selectedOptions[0]?.label ?? ""); // it may be cut off
  input.addEventListener("change", () => (whole(), changed(input.value, true)));
  const offer = (choices) => {
    const options = choices.map((each) => (typeof each === "string" ? { id: each, label: each } : each));
    input.replaceChildren(...options.map((each) => h("option", { value: each.id, disabled: each.disabled }, each.label)));
  };
  offer(spec.choices ?? []);
  return { inputs: [input], set: (value, choices) => {
    if (choices) offer(choices);
    input.value = value;
    whole();
  } };
}
