// How to draft: three choices, and the rest under More, with the reason of those that the loaded model lacks.

import { PageLink, Tag } from "../../../shared/components";
import { words } from "../words";
import type { ChatPage } from "../state/page";

interface Method {
  name: string;
  title?: string;
  about: string;
  why: string | null; // it cannot be chosen
  speed?: string | null;
  default?: boolean;
}

const FASTEST = "best";
const OFF = "none";
const FROM_TEXT = [FASTEST, OFF, "ngram", "suffix", "hybrid"]; // these need no model beside the target

export function Methods({ page, view }: { page: ChatPage; view: any }) {
  const methods: Method[] = view?.methods ?? [];
  if (!methods.length) return <p class="ft-hint">{words.noPair}</p>;
  const named = (name: string) => methods.find((each) => each.name === name);
  const own = methods.filter(({ name, why }) => !why && !FROM_TEXT.includes(name));
  const drafting = own.find((each) => each.default) ?? own[0] ?? named("draft");
  const first = [named(FASTEST), drafting, named(OFF)].filter((each) => each !== undefined);
  const rest = methods.filter((each) => !first.includes(each));
  const chosen = view.settings.proposer;
  const show = (method: Method) => (
    <MethodRow key={method.name} page={page} method={method} chosen={method.name === chosen} />
  );
  const [before, between, after] = words.others;
  return (
    <div class="methods ft-stack ft-gap-1" role="radiogroup" aria-label={words.methods}>
      {view.changes.length > 0 && <p class="ft-hint changes">{view.changes.join(" ")}</p>}
      {first.map(show)}
      {rest.length > 0 && (
        <details class="ft-disclosure" open={rest.some(({ name }) => name === chosen)}>
          <summary>{words.moreMethods}</summary>
          {rest.map(show)}
        </details>
      )}
      {methods.some(({ why }) => why) && (
        <p class="ft-hint">
          {before}
          <PageLink page="models" />
          {between}
          <PageLink page="train" />
          {after}
        </p>
      )}
    </div>
  );
}

function MethodRow({ page, method, chosen }: { page: ChatPage; method: Method; chosen: boolean }) {
  const { name, title, about, why, speed } = method;
  const id = `method-${name}`;
  return (
    <div class={why ? "method off" : "method"} data-method={name}>
      <input
        type="radio"
        name="method"
        id={id}
        value={name}
        disabled={Boolean(why)}
        checked={chosen}
        aria-describedby={`${id}-about`}
        onChange={() => page.settings.change({ proposer: name }, true)}
      />
      <label for={id}>
        <b>{title ?? name}</b>
        {method.default && <Tag text={words.isDefault} />}
        <span class="about ft-fine" id={`${id}-about`}>
          {why ?? [about, speed].filter(Boolean).join(" · ")}
        </span>
      </label>
    </div>
  );
}
