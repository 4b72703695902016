// What is raced: two methods on some prompts, and under "More options" where and how.

import { useEffect, useState } from "preact/hooks";
import {
  bound,
  Button,
  Disclosure,
  ErrorNote,
  Form,
  NumberInput,
  Select,
  Status,
  TextInput,
  useServer,
} from "../../shared/components";
import { SIDES } from "./state";
import { words } from "./words";

type Method = { name: string; title?: string };
type SideChoice = { method: string; depth: string; rule: string; temperature: number | null };

// What RaceBackend.offer answers.
interface Offer {
  loaded: string | null;
  methods: Method[];
  rules: string[];
  deepest: number;
  own: SideChoice; // the chat's settings
  places: { kind: "pair" | "server"; id: string; name: string }[];
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

const PLAIN = "none";
const FASTEST = "best";
const ELSEWHERE = "elsewhere";
const WITHOUT_DEPTH = ["", PLAIN, "server"];
const USUAL = { methods: [{ name: "" }], rules: ["auto"], told: "" };

// Returns no drafting against the fastest method, with the chat's settings.
export function proposed({ own, methods, seed, max_tokens }: Offer): Choices {
  const fastest = methods.some(({ name }) => name === FASTEST) ? FASTEST : own.method;
  const rival = fastest === PLAIN ? (methods.at(-1)?.name ?? PLAIN) : fastest;
  return {
    source: "prompt",
    prompt: words.example,
    place: null,
    sides: [
      { ...own, method: PLAIN, depth: "auto" },
      { ...own, method: rival },
    ],
    seed,
    max_tokens,
  };
}

const titleOf = ({ name, title = name }: Method) => ({ "": words.usual, [PLAIN]: words.none })[name] ?? title;
// Returns the one that is wanted if it is offered, else the last.
const among = (offered: string[], wanted: string) => (offered.includes(wanted) ? wanted : (offered.at(-1) ?? wanted));

// Returns what can be raced at a place.
// `looked` is the same, null while it is typed.
function usePlace(place: string | null, looked: string | null) {
  const { ask, error } = useServer();
  const [found, setFound] = useState({ place: null as string | null, ...USUAL, told: "" });
  useEffect(() => {
    if (!looked?.trim()) return;
    setFound({ place: looked, ...USUAL, told: words.asking });
    ask("look", { place: looked }).then((answer) =>
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
  const listed = offer.places.some(({ id }) => id === place);
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
  const field = bound(choices, choose);
  return (
    <Form
      class="ft-panel ft-stack ft-gap-3 race-form"
      aria-label={words.form}
      onSubmit={() => onStart({ ...choices, sides })}>
      {offer.methods.length < 2 && <p class="ft-hint">{words.oneMethod}</p>}
      <div class="ft-fields">
        {SIDES.map((side, i) => (
          <Select
            key={side}
            label={words.sides[side]}
            name={`${side}-method`}
            value={sides[i].method}
            options={offered[i].methods.map((each) => ({ value: each.name, label: titleOf(each) }))}
            onChange={(method) => change(i, { method })}
          />
        ))}
        <Select
          label={words.prompts}
          {...field("source")}
          options={[
            { value: "prompt", label: words.one },
            { value: "chats", label: words.chats(offer.chats), disabled: !offer.chats },
            { value: "set", label: words.set(offer.set) },
          ]}
        />
      </div>
      {source === "prompt" && <TextInput {...field("prompt")} lines={2} aria-label={words.prompt} />}
      <div class="ft-row">
        <Button kind="primary" type="submit" text={words.start} data-act="start" disabled={running} />
        <span class="ft-hint">{words.startHint}</span>
      </div>
      {/* What is said of an address comes below the button, which must not move under a press. */}
      <Disclosure summary={words.more} remember="race.more">
        <div class="race-sides">
          {SIDES.map((side, i) => (
            <fieldset key={side} class="race-side ft-stack ft-gap-3" data-side={side}>
              <legend>{words.sides[side]}</legend>
              {side === "base" && (
                <Place
                  offer={offer}
                  place={place}
                  listed={listed}
                  told={there}
                  onMove={move}
                  onDone={() => setTyping(false)}
                  onType={(text) => {
                    setTyping(true);
                    choose({ place: text });
                  }}
                />
              )}
              <Details
                side={side}
                value={sides[i]}
                rules={offered[i].rules}
                deepest={offer.deepest}
                onChange={(changes) => change(i, changes)}
              />
            </fieldset>
          ))}
        </div>
        <div class="ft-fields">
          <NumberInput label={words.max} {...field("max_tokens")} min={1} step={1} />
          <NumberInput label={words.seed} {...field("seed")} step={1} placeholder={words.seedHint} />
        </div>
      </Disclosure>
    </Form>
  );
}

// What the base runs on.
type PlaceProps = {
  offer: Offer;
  place: string | null;
  listed: boolean;
  told: { told: string; error: string };
  onMove: (place: string | null) => void;
  onType: (text: string) => void;
  onDone: () => void;
};
function Place({ offer, place, listed, told, onMove, onType, onDone }: PlaceProps) {
  const value = place === null ? "" : listed ? place : ELSEWHERE;
  const options = [
    { value: "", label: words.onLoaded(offer.loaded ?? "") },
    ...offer.places.map(({ id, name }) => ({ value: id, label: name })),
    { value: ELSEWHERE, label: words.elsewhere },
  ];
  return (
    <div class="race-place ft-stack">
      <Select
        label={words.runsOn}
        name="place"
        value={value}
        options={options}
        onChange={(chosen) => onMove(chosen === "" ? null : chosen === ELSEWHERE ? "" : chosen)}
      />
      {value === ELSEWHERE && (
        <TextInput
          label={words.address}
          name="address"
          value={place ?? ""}
          placeholder={words.addressHint}
          onChange={onType}
          onDone={onDone}
        />
      )}
      {told.told && <Status text={told.told} />}
      <ErrorNote text={told.error} />
    </div>
  );
}

type DetailsProps = {
  side: string;
  value: SideChoice;
  rules: string[];
  deepest: number;
  onChange: (changes: Partial<SideChoice>) => void;
};
function Details({ side, value, rules, deepest, onChange }: DetailsProps) {
  const depths = ["auto", ...Array.from({ length: deepest }, (_, i) => String(i + 1))];
  const withoutDepth = WITHOUT_DEPTH.includes(value.method);
  const bind = bound(value, onChange);
  const field = <Name extends keyof SideChoice>(name: Name) => ({ ...bind(name), name: `${side}-${name}` });
  return (
    <div class="ft-fields">
      <Select label={words.depth} {...field("depth")} disabled={withoutDepth} options={depths} />
      <Select label={words.rule} {...field("rule")} options={rules} />
      <NumberInput label={words.temperature} {...field("temperature")} min={0} max={5} step="any" />
    </div>
  );
}
