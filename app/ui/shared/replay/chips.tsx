// A round as chips: the shape of each drafted token shows its fate, then comes the target's own.

import { explains, type Told } from "./probe";
import { agreedOf, type Round } from "./timeline";
import { words } from "./words";

const SIGNS: Record<string, string> = { "\n": "⏎", "\t": "⇥", " ": "·" };
const kinds = { a: "accepted", r: "rejected", u: "unseen", x: "accepted cut", c: "correction", b: "bonus" };

// A token's text; leading, trailing and lone whitespace is made visible.
export function TokenText({ text }: { text: string }) {
  if (text === "") return <span class="ws">∅</span>;
  return text
    .split(/(\n|\t|^ +| +$)/)
    .filter(Boolean)
    .map((part) =>
      part[0] in SIGNS && !part.trim() ? <span class="ws">{SIGNS[part[0]].repeat(part.length)}</span> : part,
    );
}

type ChipProps = { kind: keyof typeof kinds; cut?: boolean; text: string; told: Told };
function Chip({ kind, cut = false, text, told }: ChipProps) {
  return (
    <span
      class={`chip ${kinds[kind]}${cut ? " cut" : ""}`}
      tabIndex={-1}
      role="listitem"
      aria-label={`${JSON.stringify(text)} ${words.fates[kind]}`}
      ref={explains(told)}>
      <span>
        <TokenText text={text} />
      </span>
    </span>
  );
}

const agreed = (round: Round, node: number) => "ax".includes(round.d[node][1]);
const parentOf = (round: Round, node: number) => (round.b ? round.b[node] : node - 1);

// Returns the depth of each drafted token in its tree, from 0 on.
function depths(round: Round) {
  const found: number[] = [];
  for (let node = 0; node < round.d.length; node += 1) {
    const parent = parentOf(round, node);
    found.push(parent < 0 ? 0 : found[parent] + 1);
  }
  return found;
}

// Tells what became of a drafted token.
function toldOf(round: Round, node: number, deep: number[]): Told {
  const [text, fate, p, q] = round.d[node];
  const parent = round.b ? round.b[node] : -1;
  const said = [...words.guessed(text, q), ...(parent < 0 ? [] : words.follows(round.d[parent][0]))];
  if (fate === "a") return { sentence: [...said, words.accepted(p)] };
  if (fate === "x") return { sentence: [...said, words.afterEnd] };
  if (fate === "u") return { sentence: [...said, words.notChecked] };
  const sibling = round.d.find((_, other) => deep[other] === deep[node] && agreed(round, other));
  const chosen = sibling ? { text: sibling[0], p: sibling[2] } : { text: round.n[0], p: round.n[2] };
  return { sentence: [...said, ...words.refused(p, chosen.text, chosen.p)], topTokens: sibling ? [] : round.l };
}

// Tells of the target's own token.
function toldOfOwn(round: Round): Told {
  const [text, origin, p, emitted] = round.n;
  const rejected = round.d.find(([, fate]) => fate === "r")?.[0] ?? "";
  const along = agreedOf(round) < round.d.length;
  const said =
    origin === "c"
      ? words.corrected(text, p, rejected)
      : along
        ? words.addedAlong(text, p)
        : words.added(text, p, round.d.length);
  return { sentence: emitted || origin === "c" ? said : [...said, words.ended], topTokens: round.l };
}

export function Chips({ round }: { round: Round }) {
  const deep = depths(round);
  const drafted = round.d.map(([text, fate], node) => (
    <Chip key={node} kind={fate} text={text} told={toldOf(round, node, deep)} />
  ));
  const [text, origin, , emitted] = round.n;
  const own = <Chip key="own" kind={origin} cut={!emitted} text={text} told={toldOfOwn(round)} />;
  if (!round.b)
    return (
      <span class="chips ft-row" role="list">
        {drafted}
        {own}
      </span>
    );
  // A tree: one column per position, the accepted token on top.
  const places = Array.from({ length: Math.max(agreedOf(round), ...deep) + 1 }, (_, depth) =>
    drafted
      .filter((_, node) => deep[node] === depth)
      .sort((a, b) => Number(agreed(round, Number(b.key))) - Number(agreed(round, Number(a.key)))),
  );
  (places[agreedOf(round)] ??= []).unshift(own);
  return (
    <span class="chips tree ft-row" role="list">
      {places.map((place, depth) => (
        <span key={depth} class="place ft-stack">
          {place}
        </span>
      ))}
    </span>
  );
}
