// The Plan page: a form, and the plan for it. Nothing is started.

import { useEffect, useRef, useState } from "preact/hooks";
import * as ui from "../../shared/components";
import { count, several, speed, times } from "../../shared/format";

// What can be chosen.
interface Offer {
  targets: string[];
  gpus: string[];
  engines: { id: string; label: string }[];
  methods: { id: string; label: string; engines: string[] }[];
  formats: string[];
  kv_cache_dtypes: string[];
  tasks: string[];
}

// What PlanBackend.make answers.
interface LaunchPlan {
  target: { id: string; loads: string; format: string };
  gpus: string; // as "2xH100"
  method: string;
  draft: string | null;
  layout: { replicas: number; tensor: number; pipeline: number; nodes_of_a_copy: number };
  memory_of_a_gpu: Record<string, number>; // in bytes
  estimate: {
    has_ground: boolean;
    stops_at: number | null;
    by_users: { users: number; plain: number; drafted: number }[];
    cost_of_a_million?: number | null;
  };
  service: Service | null;
  assumptions: { acceptance: number; acceptance_from: string; ground: string };
  notes: string[];
  files: Record<string, string>; // texts by name
  command: string;
}

// What is reached of the targets; times in milliseconds.
type Service = { layout: { replicas: number; tensor: number }; users: number; ttft: number; itl: number; rps: number };

const DYNAMO = "dynamo"; // it has one of the other engines compute
const TEXTS = {
  target: "llama-3.1-8b",
  kind: "H100",
  engine: "vllm",
  backend: "vllm",
  method: "eagle3",
  draft: "",
  quantization: "auto",
  kv_cache_dtype: "auto",
  task: "",
  server: "",
};
type Numbers =
  "count" | "depth" | "users" | "context" | "acceptance" | "rps" | "ttft" | "itl" | "isl" | "osl" | "price";
type Choices = typeof TEXTS & { [Name in Numbers]?: number | null };

function PlanPage() {
  const { ask, answer: offer, error } = ui.useAnswer<Offer>("offer");
  const [plan, setPlan] = useState<LaunchPlan | null>(null);
  const make = async ({ count: n, kind, backend, ...choices }: Choices) => {
    const computes = choices.engine === DYNAMO ? backend : "";
    setPlan(await ask("make", { ...choices, backend: computes, gpus: `${n ?? 1}x${kind}` }));
  };
  return (
    <ui.PageFrame title="Plan" intro="Plan a GPU deployment: commands, memory and expected speed.">
      {offer && <PlanForm offer={offer} onMake={make} />}
      <ui.ErrorNote text={error} />
      <div class="plan-result ft-stack ft-gap-4" aria-live="polite">
        {plan && <Plan plan={plan} />}
      </div>
    </ui.PageFrame>
  );
}

function PlanForm({ offer, onMake }: { offer: Offer; onMake: (choices: Choices) => void }) {
  const [choices, setChoices] = useState<Choices>({ ...TEXTS, count: 1 });
  const methodsOf = (engine: string) => offer.methods.filter((each) => each.engines.includes(engine));
  const change = (changed: Partial<Choices>) => setChoices((before) => ({ ...before, ...changed }));
  const field = ui.bound(choices, change);
  const number = (name: Numbers, label: string, placeholder = "optional", more = {}) => (
    <ui.NumberInput label={label} {...field(name)} min={0} step="any" placeholder={placeholder} {...more} />
  );
  const whole = { min: 1, step: 1 };
  const chooseEngine = (engine: string) => {
    const methods = methodsOf(engine);
    const method = methods.some((each) => each.id === choices.method) ? choices.method : methods[0].id;
    change({ engine, method });
  };
  return (
    <ui.Form class="ft-panel ft-stack ft-gap-3" aria-label="Deployment" onSubmit={() => onMake(choices)}>
      <datalist id="plan-targets">
        {offer.targets.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      <div class="ft-fields">
        <ui.TextInput
          label="Model"
          class="wide"
          {...field("target")}
          list="plan-targets"
          placeholder="Catalog name, Hugging Face repository, or folder"
          required
        />
        {number("count", "GPUs", "", { ...whole, required: true })}
        <ui.Select label="GPU type" {...field("kind")} options={offer.gpus} />
        <ui.Select label="Engine" {...field("engine")} onChange={chooseEngine} options={offer.engines} />
        {choices.engine === DYNAMO && (
          <ui.Select
            label="Backend"
            {...field("backend")}
            options={offer.engines.filter(({ id }) => id !== DYNAMO).slice(0, 3)}
          />
        )}
        <ui.Select label="Method" {...field("method")} options={methodsOf(choices.engine)} />
        <ui.TextInput label="Draft model" {...field("draft")} placeholder="automatic" />
        {number("depth", "Depth", "automatic", whole)}
        {number("users", "Concurrent users", "8", whole)}
        {number("context", "Context length", "8192", whole)}
      </div>
      <ui.Disclosure summary="Precision and acceptance">
        <div class="ft-fields">
          <ui.Select label="Weights" {...field("quantization")} options={offer.formats} />
          <ui.Select label="KV cache" {...field("kv_cache_dtype")} options={offer.kv_cache_dtypes} />
          {number("acceptance", "Acceptance per token", "automatic", {
            max: 1,
            hint: "0 to 1: chance that the next drafted token is accepted",
          })}
          <ui.Select
            label="Kind of replies"
            {...field("task")}
            options={[{ id: "", label: "automatic" }, ...offer.tasks]}
          />
          <ui.TextInput
            label="Running server"
            hint="Plan with its acceptance and step time"
            class="wide"
            {...field("server")}
            placeholder="http://127.0.0.1:8000"
          />
        </div>
      </ui.Disclosure>
      <ui.Disclosure summary="Service targets and cost">
        <div class="ft-fields">
          {number("rps", "Requests per second")}
          {number("ttft", "Time to first token, ms")}
          {number("itl", "Time between tokens, ms")}
          {number("isl", "Prompt tokens", "1024")}
          {number("osl", "Reply tokens", "1024")}
          {number("price", "Price per GPU hour")}
        </div>
      </ui.Disclosure>
      <div class="ft-row">
        <ui.Button kind="primary" type="submit" text="Make plan" />
      </div>
    </ui.Form>
  );
}

function layoutOf({ layout, target, draft }: LaunchPlan) {
  const { replicas, tensor, pipeline, nodes_of_a_copy: nodes } = layout;
  const each = pipeline > 1 ? "each stage " : replicas > 1 ? "each " : "";
  const split = tensor > 1 ? `tensor parallel over ${tensor} GPUs` : `${each}on one GPU`;
  const stages = pipeline > 1 ? `, ${pipeline} pipeline stages` : "";
  const over = nodes > 1 ? `, over ${nodes} nodes` : "";
  const loads = `Loads ${target.loads} in ${target.format}${draft ? ` with draft ${draft}` : ""}.`;
  return `${several(replicas, "replica")}, ${split}${stages}${over}. ${loads}`;
}

function Plan({ plan }: { plan: LaunchPlan }) {
  const root = useRef<HTMLDivElement>(null);
  useEffect(() => root.current?.scrollIntoView({ block: "nearest" }), [plan]);
  const { assumptions, estimate, service } = plan;
  const drafts = plan.method !== "none";
  const stops = estimate.stops_at;
  return (
    <div class="plan-result ft-stack ft-gap-4" ref={root}>
      <ui.Panel title={`${plan.target.id} on ${plan.gpus}`}>
        <p>{layoutOf(plan)}</p>
        <div class="plan-tables">
          <MemoryTable memory={plan.memory_of_a_gpu} />
          {estimate.has_ground && <SpeedTable rows={estimate.by_users} drafts={drafts} />}
        </div>
        <p class="ft-hint">{assumptions.ground}</p>
        {service && (
          <p>
            Reaches {service.rps.toFixed(1)} requests/s with {count(service.users)} at once: {Math.round(service.ttft)}{" "}
            ms to the first token, {service.itl.toFixed(1)} ms between tokens.
          </p>
        )}
        {estimate.cost_of_a_million && <p>{estimate.cost_of_a_million.toFixed(2)} per million reply tokens.</p>}
        {drafts && (
          <p class="ft-hint">
            Assumes an acceptance of {Math.round(100 * assumptions.acceptance)} % per token (
            {assumptions.acceptance_from}). {stops === 1 && "Drafting is not expected to help here."}
            {stops !== null && stops !== 1 && `Drafting stops helping at ${count(stops)} users per replica.`}
          </p>
        )}
      </ui.Panel>
      {plan.notes.length > 0 && (
        <ui.Panel title="Before you start">
          <ul>
            {plan.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </ui.Panel>
      )}
      {Object.entries(plan.files).map(([name, text]) => (
        <ui.Copyable key={name} file={name} code={text} />
      ))}
      <ui.Copyable title="Same plan on the command line" code={plan.command} />
    </div>
  );
}

const PARTS = {
  weights: "weights",
  drafter: "draft",
  cache: "KV cache",
  work: "CUDA graphs, activations, logits",
  needed: "total",
  available: "available",
};

function MemoryTable({ memory }: { memory: Record<string, number> }) {
  return (
    <table class="ft-table">
      <caption>Memory on the fullest GPU</caption>
      <tbody>
        {Object.entries(PARTS)
          .filter(([part]) => memory[part])
          .map(([part, name]) => (
            <tr key={part}>
              <th scope="row">{name}</th>
              <td>{(memory[part] / 1e9).toFixed(1)} GB</td>
            </tr>
          ))}
      </tbody>
    </table>
  );
}

function SpeedTable({ rows, drafts }: { rows: LaunchPlan["estimate"]["by_users"]; drafts: boolean }) {
  const columns = ["users", "without drafting", ...(drafts ? ["with drafting", "speed-up"] : [])];
  return (
    <ui.Table caption="Estimated tokens/s" columns={columns}>
      <tbody>
        {rows.map(({ users, plain, drafted }) => (
          <tr key={users}>
            <th scope="row">{count(users)}</th>
            <td>{speed(plain)}</td>
            {drafts && <td>{speed(drafted)}</td>}
            {drafts && <td>{times(drafted / plain)}</td>}
          </tr>
        ))}
      </tbody>
    </ui.Table>
  );
}

ui.register("plan", PlanPage);
