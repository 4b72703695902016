// How a model is loaded: its draft and the precision of its weights, and what is remembered for it: context, threads,
// the precision of the KV cache.

import { useEffect, useState } from "preact/hooks";
import { Button, Form, NumberInput, Select } from "../../../shared/components";
import { words } from "../words";
import type { ChatPage } from "../state/page";
import type { ModelRow } from "./models";

// `onLoad` is called with the options.
type LoadOptionsProps = { page: ChatPage; row: ModelRow; status: any; onLoad: (wanted: object) => void };
export function LoadOptions({ page, row, status, onLoad }: LoadOptionsProps) {
  const [offer, setOffer] = useState<any>(null); // the fields of the pair
  const [kept, setKept] = useState<any>(null); // what is remembered
  const ask = async (wanted: object) => {
    const answer = await page.ask("pair_choices", wanted);
    if (answer) setOffer(answer);
  };
  useEffect(() => {
    ask({ target: row.id });
    page.ask("load_options", { target: row.id }).then(setKept);
  }, [row.id, row.loaded]);
  if (!offer) return null;
  const pair = Object.fromEntries(offer.fields.map(({ name, value }: any) => [name, value]));
  // Shows a choice before the offer that follows from it: Load may be pressed meanwhile.
  const choose = (name: string, value: string) => {
    const fields = offer.fields.map((field: any) => (field.name === name ? { ...field, value } : field));
    setOffer({ ...offer, fields });
    ask({ target: row.id, ...pair, [name]: value });
  };
  const submit = async () => {
    const { context, threads, kv_cache: cache } = kept ?? {};
    const own = { target: row.id, context: context?.value, threads: threads?.value, kv_cache: cache?.value };
    if (!kept || (await page.ask("keep_load_options", own))) onLoad({ target: row.id, ...pair });
  };
  const hint = (name: string, usual: string) => (kept.fixed[name] ? words.fixedBy(kept.fixed[name]) : usual);
  const change = (name: string) => (value: any) => setKept({ ...kept, [name]: { ...kept[name], value } });
  return (
    <Form class="load-options ft-fields" onSubmit={submit}>
      {offer.fields.map(({ name, label, choices, value }: any) => (
        <div key={name} id={name}>
          <Select
            label={label}
            value={value}
            options={choices.map((each: any) => ({ value: each.id, label: each.label }))}
            onChange={(now) => choose(name, now)}
          />
        </div>
      ))}
      {kept && (
        <>
          <NumberInput
            label={words.options.context}
            hint={hint("context", words.options.contextHint(kept.context))}
            value={kept.context.value}
            min={256}
            max={kept.context.longest || undefined}
            placeholder={words.options.automatic}
            disabled={Boolean(kept.fixed.context)}
            onChange={change("context")}
          />
          <NumberInput
            label={words.options.threads}
            hint={hint("threads", "")}
            value={kept.threads.value}
            min={1}
            max={kept.threads.most}
            placeholder={words.options.threadsDefault(kept.threads.default)}
            disabled={Boolean(kept.fixed.threads)}
            onChange={change("threads")}
          />
          {kept.kv_cache.choices.length > 1 && (
            <Select
              label={words.options.cache}
              hint={hint("kv_cache", "")}
              value={kept.kv_cache.value}
              options={kept.kv_cache.choices.map((each: any) => ({ value: each.id, label: each.label }))}
              disabled={Boolean(kept.fixed.kv_cache)}
              onChange={change("kv_cache")}
            />
          )}
        </>
      )}
      <Button kind="primary" type="submit" id="load-pair" disabled={Boolean(status?.opening)}>
        {row.loaded ? words.options.reload : offer.load}
      </Button>
    </Form>
  );
}
