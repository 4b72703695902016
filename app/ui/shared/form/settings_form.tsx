// The settings as a form: presets, what is used most, and the rest folded.

import { Button, Disclosure, NumberInput, Select, TextInput, Toggle } from "../components";
import { useStore } from "../store";
import type { ComponentChildren } from "preact";
import type { SettingsStore } from "./settings_store";

const FIRST = ["temperature", "max_tokens", "system"]; // what is used most

// `children` belong to the open chat alone.
export function SettingsForm({ store, children }: { store: SettingsStore; children?: ComponentChildren }) {
  const { view, values, fields, undoes } = useStore(store);
  if (!view || !values) return <p class="ft-hint">Loading the settings …</p>;
  const groups = fields.filter(({ kind }) => kind === "group");
  const all = [...fields.filter(({ kind }) => kind !== "group"), ...groups.flatMap((group) => group.fields)];
  const show = (spec: any) => <Setting key={spec.name} store={store} spec={spec} />;
  return (
    <div id="settings" class="settings ft-stack ft-gap-4">
      <Presets store={store} />
      {FIRST.map((name) => all.find((spec) => spec.name === name))
        .filter(Boolean)
        .map(show)}
      {children}
      <div class="advanced">
        <Disclosure summary="Advanced" remember="advanced">
          {groups.map(({ label, fields: own }) => {
            const rest = own.filter(({ name }: any) => !FIRST.includes(name));
            return (
              rest.length > 0 && (
                <section key={label} class="settings-group ft-stack ft-gap-3">
                  <h3>{label}</h3>
                  {rest.map(show)}
                </section>
              )
            );
          })}
        </Disclosure>
      </div>
      <Button small id="defaults" onClick={() => store.toggleDefaults()}>
        {undoes ? "Undo reset" : "Reset to defaults"}
      </Button>
    </div>
  );
}

function Presets({ store }: { store: SettingsStore }) {
  const { presets } = store.view;
  const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);
  const isChosen = (preset: any) =>
    Object.entries(preset.values).every(([name, value]) => same(store.values[name], value));
  const choose = (preset: any) => {
    store.change(preset.values, false);
    store.keep(true);
  };
  return (
    <div class="presets" role="group" aria-labelledby="presets-head">
      <h3 id="presets-head">Presets</h3>
      <div class="segments ft-box">
        {presets.map((preset: any) => (
          <button
            key={preset.id}
            class="segment ft-bare"
            type="button"
            aria-pressed={isChosen(preset)}
            title={preset.about}
            data-preset={preset.id}
            onClick={() => choose(preset)}>
            {preset.label}
          </button>
        ))}
      </div>
      <p class="ft-hint">{presets.find(isChosen)?.about ?? "Your own settings"}</p>
    </div>
  );
}

// Returns why a setting has no effect beside the others; undefined if it has one.
function withoutEffect(name: string, { proposer, controller }: any): string | undefined {
  if (proposer === "none" && ["controller", "depth"].includes(name)) return "Without drafting this has no effect";
  if (name === "depth" && controller !== "fixed") return "Only fixed uses this; auto measures the best depth";
}

function Setting({ store, spec }: { store: SettingsStore; spec: any }) {
  const { view, values } = store;
  const { name } = spec;
  if (spec.kind === "options") return <Options store={store} />;
  if (name === "thinking_budget" && !view.thinking_budget) return null;
  const lacks = spec.sampling ? !view.sampling.includes(name) : name === "depth" && !view.controllers.includes("fixed");
  const found = withoutEffect(name, values);
  const off = lacks ? "Not available for this model" : found;
  const choices = { acceptance: view.rules, controller: view.controllers }[name as string];
  return (
    <div id={spec.id ?? name} class="setting" data-field={name}>
      <Control
        spec={{ ...spec, choices: choices ?? spec.choices, info: off || spec.info, stored: view.settings[name] }}
        value={values[name]}
        disabled={Boolean(off)}
        onChange={(value, done) => store.change({ [name]: value }, done)}
      />
    </div>
  );
}

// The options of the chosen proposer.
function Options({ store }: { store: SettingsStore }) {
  const { proposer, options } = store.values;
  const own = store.view.methods.find((each: any) => each.name === proposer)?.options ?? [];
  return own.map((spec: any) => (
    <div key={`${proposer}-${spec.name}`} class="setting" data-field={spec.name}>
      <Control
        spec={spec}
        value={options[proposer]?.[spec.name] ?? spec.value}
        onChange={(value, done) => store.changeOption(spec.name, value, done)}
      />
    </div>
  ));
}

// A labelled control. `onChange(value, done)` is called for each key or move, and with `done` once the value is final.
type ControlProps = { spec: any; value: any; disabled?: boolean; onChange: (value: any, done: boolean) => void };
function Control({ spec, value, disabled, onChange }: ControlProps) {
  const { kind, label, info: hint, min, max, step } = spec;
  const final = (now: any) => onChange(now, true);
  const own = { label, hint, disabled };
  const writes = { ...own, onChange: (now: any) => onChange(now, false), onDone: final };
  if (kind === "check") return <Toggle {...own} value={Boolean(value)} onChange={final} />;
  if (kind === "choice") return <Select {...own} value={value} options={spec.choices} onChange={final} />;
  if (kind === "text") return <TextInput {...writes} value={value ?? ""} lines={spec.lines} />;
  if (kind === "number") return <NumberInput {...writes} value={value} step="any" />;
  return <NumberInput {...writes} slider {...{ value, min, max, step }} onDone={(now) => final(now ?? spec.stored)} />;
}
