// The Plan page: a form, and the plan for it. Nothing is started.

import { useEffect, useRef, useState } from "preact/hooks";
import {
  bound,
  Button,
  Copyable,
  Disclosure,
  ErrorNote,
  Form,
  NumberInput,
  PageFrame,
  Panel,
  register,
  Select,
  Table,
  TextInput,
  useAnswer,
} from "../../shared/components";
import { words, type LaunchPlan } from "./words";

// What can be chosen.
interface Offer {
  targets: { id: string }[];
  gpus: string[];
  engines: { id: string; name: string }[];
  methods: { id: string; title: string; engines: string[] }[];
  formats: string[];
  kv_cache_dtypes: string[];
  tasks: string[];
}

type Choices = typeof FIRST;

const DYNAMO = "dynamo"; // it has one of the other engines compute
const FIRST = {
  target: "llama-3.1-8b",
  count: 1 as number | null,
  kind: "H100",
  engine: "vllm",
  backend: "vllm",
  method: "eagle3",
  draft: "",
  depth: null as number | null,
  users: null as number | null,
  context: null as number | null,
  quantization: "auto",
  kv_cache_dtype: "auto",
  acceptance: null as number | null,
  task: "",
  rps: null as number | null,
  ttft: null as number | null,
  itl: null as number | null,
  isl: null as number | null,
  osl: null as number | null,
  price: null as number | null,
  server: "",
};

function PlanPage() {
  const { ask, answer: offer, error } = useAnswer("offer");
  const [plan, setPlan] = useState<LaunchPlan | null>(null);
  const make = async ({ count, kind, backend, ...choices }: Choices) => {
    const computes = choices.engine === DYNAMO ? backend : "";
    setPlan(await ask("make", { ...choices, backend: computes, gpus: `${count ?? 1}x${kind}` }));
  };
  return (
    <PageFrame title={words.title} intro={words.intro}>
      {offer && <PlanForm offer={offer} onMake={make} />}
      <ErrorNote text={error} />
      <div class="plan-result ft-stack ft-gap-4" aria-live="polite">
        {plan && <Plan plan={plan} />}
      </div>
    </PageFrame>
  );
}

function PlanForm({ offer, onMake }: { offer: Offer; onMake: (choices: Choices) => void }) {
  const [choices, setChoices] = useState(FIRST);
  const engines = offer.engines.map((each) => ({ value: each.id, label: each.name }));
  const methodsOf = (engine: string) => offer.methods.filter((each) => each.engines.includes(engine));
  const change = (changed: Partial<Choices>) => setChoices((before) => ({ ...before, ...changed }));
  const field = bound(choices, change);
  const chooseEngine = (engine: string) => {
    const methods = methodsOf(engine);
    const method = methods.some((each) => each.id === choices.method) ? choices.method : methods[0].id;
    change({ engine, method });
  };
  const number = (name: "rps" | "ttft" | "itl" | "isl" | "osl" | "price") => (
    <NumberInput
      label={words.targets[name]}
      {...field(name)}
      min={0}
      step="any"
      placeholder={name === "isl" || name === "osl" ? "1024" : words.optional}
    />
  );
  return (
    <Form class="ft-panel ft-stack ft-gap-3" aria-label={words.form} onSubmit={() => onMake(choices)}>
      <datalist id="plan-targets">
        {offer.targets.map(({ id }) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      <div class="ft-fields">
        <TextInput
          label={words.target}
          class="wide"
          {...field("target")}
          list="plan-targets"
          placeholder={words.targetHint}
          required
        />
        <NumberInput label={words.gpuCount} {...field("count")} min={1} required />
        <Select label={words.gpuKind} {...field("kind")} options={offer.gpus} />
        <Select label={words.engine} {...field("engine")} onChange={chooseEngine} options={engines} />
        {choices.engine === DYNAMO && (
          <Select
            label={words.backend}
            {...field("backend")}
            options={engines.filter((each) => each.value !== DYNAMO).slice(0, 3)}
          />
        )}
        <Select
          label={words.method}
          {...field("method")}
          options={methodsOf(choices.engine).map((each) => ({ value: each.id, label: each.title }))}
        />
        <TextInput label={words.draft} {...field("draft")} placeholder={words.automatic} />
        <NumberInput label={words.depth} {...field("depth")} min={1} placeholder={words.automatic} />
        <NumberInput label={words.users} {...field("users")} min={1} placeholder="8" />
        <NumberInput label={words.context} {...field("context")} min={1} placeholder="8192" />
      </div>
      <Disclosure summary={words.more}>
        <div class="ft-fields">
          <Select label={words.quantization} {...field("quantization")} options={offer.formats} />
          <Select label={words.kv} {...field("kv_cache_dtype")} options={offer.kv_cache_dtypes} />
          <NumberInput
            label={words.acceptance}
            hint={words.acceptanceHint}
            {...field("acceptance")}
            min={0}
            max={1}
            step="any"
            placeholder={words.automatic}
          />
          <Select
            label={words.task}
            {...field("task")}
            options={[
              { value: "", label: words.automatic },
              ...offer.tasks.map((task) => ({ value: task, label: task })),
            ]}
          />
          <TextInput
            label={words.server}
            hint={words.serverHint}
            class="wide"
            {...field("server")}
            placeholder="http://127.0.0.1:8000"
          />
        </div>
      </Disclosure>
      <Disclosure summary={words.service}>
        <div class="ft-fields">
          {number("rps")}
          {number("ttft")}
          {number("itl")}
          {number("isl")}
          {number("osl")}
          {number("price")}
        </div>
      </Disclosure>
      <div class="ft-row">
        <Button kind="primary" type="submit" text={words.make} />
      </div>
    </Form>
  );
}

function Plan({ plan }: { plan: LaunchPlan }) {
  const root = useRef<HTMLDivElement>(null);
  useEffect(() => root.current?.scrollIntoView({ block: "nearest" }), [plan]);
  const drafts = plan.method !== "none";
  const stops = plan.estimate.stops_at;
  return (
    <div class="plan-result ft-stack ft-gap-4" ref={root}>
      <Panel title={words.planTitle(plan)}>
        <p>{words.layout(plan)}</p>
        <div class="plan-tables">
          <MemoryTable memory={plan.memory_of_a_gpu} />
          {plan.estimate.has_ground && <SpeedTable rows={plan.estimate.by_users} drafts={drafts} />}
        </div>
        <p class="ft-hint">{plan.assumptions.ground}</p>
        {plan.service && <p>{words.reached(plan.service)}</p>}
        {plan.estimate.cost_of_a_million && <p>{words.cost(plan.estimate.cost_of_a_million)}</p>}
        {drafts && (
          <p class="ft-hint">
            {words.assumes(plan)} {stops !== null && words.stops(stops)}
          </p>
        )}
      </Panel>
      {plan.notes.length > 0 && (
        <Panel title={words.notes}>
          <ul>
            {plan.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </Panel>
      )}
      {Object.entries(plan.files).map(([name, text]) => (
        <Copyable key={name} file={name} code={text} />
      ))}
      <Copyable title={words.command} code={plan.command} />
    </div>
  );
}

function MemoryTable({ memory }: { memory: Record<string, number> }) {
  const parts = Object.entries(words.parts).filter(([part]) => memory[part]);
  return (
    <table class="ft-table">
      <caption>{words.memory}</caption>
      <tbody>
        {parts.map(([part, name]) => (
          <tr key={part}>
            <th scope="row">{name}</th>
            <td>{words.gigabytes(memory[part])}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function SpeedTable({ rows, drafts }: { rows: LaunchPlan["estimate"]["by_users"]; drafts: boolean }) {
  const { users, plain, drafted, times } = words.columns;
  return (
    <Table caption={words.speed} columns={[users, plain, ...(drafts ? [drafted, times] : [])]}>
      <tbody>
        {rows.map((row) => (
          <tr key={row.users}>
            <th scope="row">{words.count(row.users)}</th>
            <td>{words.tokens(row.plain)}</td>
            {drafts && <td>{words.tokens(row.drafted)}</td>}
            {drafts && <td>{words.times(row.drafted / row.plain)}</td>}
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

register("plan", PlanPage);
