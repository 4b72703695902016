// What is raced: two methods on some prompts, and under "More options" where and how.

import { useEffect, useState } from "preact/hooks";
import * as ui from "../../shared/components";
import { SIDES } from "./state";

type Method = { name: string; title?: string };
type SideChoice = { method: string; depth: string; rule: string; temperature: number | null };

// What RaceBackend.offer answers.
interface Offer {
  loaded: string | null;
  methods: Method[];
  rules: string[];
  deepest: number;
  own: SideChoice; // the chat's settings
  places: { id: string; name: string }[];
  seed: number | null;
  max_tokens: number | null;
  chats: number; // prompts of the user
  set: number; // prompts of the included set
}

interface Choices {
  source: string;
  prompt: string;
  place: string | null; // what the base runs on; null: the loaded model
  sides: [SideChoice, SideChoice];
  seed: number | null;
  max_tokens: number | null;
}

const TITLES = { base: "Baseline", rival: "Challenger" };
const PLAIN = "none";
const FASTEST = "best";
const ELSEWHERE = "elsewhere";
const WITHOUT_DEPTH = ["", PLAIN, "server"];
const USUAL = { methods: [{ name: "" }], rules: ["auto"], told: "" };

// Returns no drafting against the chat's settings; against the fastest method if these are no drafting.
export function proposed({ own, methods, seed, max_tokens }: Offer): Choices {
  const offered = methods.map(({ name }) => name);
  const rival = own.method === PLAIN ? among(offered, FASTEST) : own.method;
  return {
    source: "prompt",
    prompt: "Tell me a short story about a fox and a lantern.",
    place: null,
    sides: [
      { ...own, method: PLAIN, depth: "auto" },
      { ...own, method: rival },
    ],
    seed,
    max_tokens,
  };
}

const titleOf = ({ name, title = name }: Method) => (name ? title : "Its default");
const ownPrompts = (n: number) => (n ? `My last ${n === 1 ? "prompt" : `${n} prompts`}` : "My last prompts (none yet)");

// Returns the one that is wanted if it is offered, else the last.
const among = (offered: string[], wanted: string) => (offered.includes(wanted) ? wanted : (offered.at(-1) ?? wanted));

// Returns what can be raced at a place.
// `looked` is the same, null while it is typed.
function usePlace(place: string | null, looked: string | null) {
  const { ask, error } = ui.useServer();
  const [found, setFound] = useState({ place: null as string | null, ...USUAL, told: "" });
  useEffect(() => {
    if (!looked?.trim()) return;
    setFound({ place: looked, ...USUAL, told: "Connecting …" });
    ask("look", { place: looked }, true).then((answer) =>
      setFound((now) => (now.place !== looked ? now : { place: looked, ...USUAL, ...answer })),
    );
  }, [looked, ask]);
  const known = place !== null && found.place === place;
  return known ? { ...found, told: error ? "" : found.told, error } : { ...USUAL, error: "" };
}

// `onStart` gets the choices as they are shown.
type RaceFormProps = {
  offer: Offer;
  choices: Choices;
  choose: (changes: Partial<Choices>) => void;
  running: boolean;
  onStart: (choices: Choices) => void;
};
export function RaceForm({ offer, choices, choose, running, onStart }: RaceFormProps) {
  const { source, place } = choices;
  const [typing, setTyping] = useState(false);
  const there = usePlace(place, typing ? null : place);
  const base = place === null ? offer : there;
  const offered = [base, offer];
  const sides = choices.sides.map((side, i) => ({
    ...side,
    method: among(
      offered[i].methods.map(({ name }) => name),
      side.method,
    ),
    rule: offered[i].rules.includes(side.rule) ? side.rule : offered[i].rules[0],
  })) as [SideChoice, SideChoice];
  const change = (i: number, changes: Partial<SideChoice>) =>
    choose({ sides: sides.map((side, at) => (at === i ? { ...side, ...changes } : side)) as [SideChoice, SideChoice] });
  const move = (to: string | null) =>
    choose({ place: to, sides: [{ ...sides[0], method: to === null ? PLAIN : "" }, sides[1]] });
  const field = ui.bound(choices, choose);
  const detail = <Name extends keyof SideChoice>(i: number, name: Name) => ({
    ...ui.bound(sides[i], (changes) => change(i, changes))(name),
    name: `${SIDES[i]}-${name}`,
  });
  const depths = ["auto", ...Array.from({ length: offer.deepest }, (_, i) => String(i + 1))];
  return (
    <ui.Form
      class="ft-panel ft-stack ft-gap-3 race-form"
      aria-label="Race"
      onSubmit={() => onStart({ ...choices, sides })}>
      {offer.methods.length < 2 && (
        <p class="ft-hint">
          The server decides how it drafts. Choose another server or a local model for the other side; otherwise only
          sampling differs.
        </p>
      )}
      <div class="ft-fields">
        {SIDES.map((side, i) => (
          <ui.Select
            key={side}
            label={TITLES[side]}
            {...detail(i, "method")}
            options={offered[i].methods.map((each) => ({ id: each.name, label: titleOf(each) }))}
          />
        ))}
        <ui.Select
          label="Prompts"
          {...field("source")}
          options={[
            { id: "prompt", label: "This prompt" },
            { id: "chats", label: ownPrompts(offer.chats), disabled: !offer.chats },
            { id: "set", label: `Included set (${offer.set} prompts)` },
          ]}
        />
      </div>
      {source === "prompt" && <ui.TextInput {...field("prompt")} lines={2} aria-label="Prompt" />}
      <div class="ft-row">
        <ui.Button kind="primary" type="submit" text="Start" data-act="start" disabled={running} />
        <span class="ft-hint">
          Each side warms up once. Then both answer every prompt, at least five times in all, in turns, each with an
          empty cache.
        </span>
      </div>
      {/* What is said of an address comes below the button, which must not move under a press. */}
      <ui.Disclosure summary="More options" remember="race.more">
        <div class="race-sides">
          {SIDES.map((side, i) => (
            <fieldset key={side} class="race-side ft-stack ft-gap-3" data-side={side}>
              <legend>{TITLES[side]}</legend>
              {side === "base" && (
                <Place
                  offer={offer}
                  place={place}
                  told={there}
                  onMove={move}
                  onDone={() => setTyping(false)}
                  onType={(text) => {
                    setTyping(true);
                    choose({ place: text });
                  }}
                />
              )}
              <div class="ft-fields">
                <ui.Select
                  label="Depth"
                  {...detail(i, "depth")}
                  disabled={WITHOUT_DEPTH.includes(sides[i].method)}
                  options={depths}
                />
                <ui.Select label="Acceptance" {...detail(i, "rule")} options={offered[i].rules} />
                <ui.NumberInput label="Temperature" {...detail(i, "temperature")} min={0} max={5} step="any" />
              </div>
            </fieldset>
          ))}
        </div>
        <div class="ft-fields">
          <ui.NumberInput label="Max tokens" {...field("max_tokens")} min={1} step={1} />
          <ui.NumberInput label="Seed" {...field("seed")} step={1} placeholder="Empty = random" />
        </div>
      </ui.Disclosure>
    </ui.Form>
  );
}

// What the base runs on; `told` is what is known of that.
type PlaceProps = {
  offer: Offer;
  place: string | null;
  told: { told: string; error: string };
  onMove: (place: string | null) => void;
  onType: (text: string) => void;
  onDone: () => void;
};
function Place({ offer, place, told, onMove, onType, onDone }: PlaceProps) {
  const listed = offer.places.some(({ id }) => id === place);
  const value = place === null ? "" : listed ? place : ELSEWHERE;
  return (
    <div class="race-place ft-stack">
      <ui.Select
        label="Runs on"
        name="place"
        value={value}
        options={[
          { id: "", label: `Loaded model: ${offer.loaded}` },
          ...offer.places.map(({ id, name }) => ({ id, label: name })),
          { id: ELSEWHERE, label: "Other server or model …" },
        ]}
        onChange={(chosen) => onMove(chosen === "" ? null : chosen === ELSEWHERE ? "" : chosen)}
      />
      {value === ELSEWHERE && (
        <ui.TextInput
          label="Address or model"
          name="address"
          value={place ?? ""}
          placeholder="http://HOST:PORT#MODEL, or MODEL::DRAFT"
          onChange={onType}
          onDone={onDone}
        />
      )}
      {told.told && <ui.Status text={told.told} />}
      <ui.ErrorNote text={told.error} />
    </div>
  );
}
