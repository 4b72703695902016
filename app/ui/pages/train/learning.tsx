// What drafters learn from chats while the app is idle: the switch, the figures, and the way back.

import { Button, ErrorNote, Panel, SureButton, Toggle, useAnswer, useTimer } from "../../shared/components";
import { count, fixed, several } from "../../shared/format";
import { Chart } from "./chart";

// What the backend's `learning` returns.
interface LearnedHead {
  id: string;
  name: string; // of the model, and the kind of drafter
  used: boolean; // the learned version drafts
  version: boolean; // there is one
  replies: number;
  rounds: number;
  days: [string, number][]; // ISO date, mean tokens per round
  trials: number;
  last: Trial | null;
  taken: Trial | null;
}
interface Trial {
  at: string;
  replies: number;
  tokens: number;
  before: number; // mean tokens per round on the newest replies
  after: number;
  others_before: number; // the same on general prompts
  others_after: number;
  taken: boolean;
}
type LearningView = { on: boolean; doing: boolean; size: string; heads: LearnedHead[] };

const change = (before: number, after: number) => `${fixed(before)} → ${fixed(after)}`;
const trialOf = ({ at, replies, tokens, before, after, others_before, others_after }: Trial) =>
  `${at}, from ${count(replies)} replies (${count(tokens)} tokens): ` +
  `${change(before, after)} tokens per round on the newest ones, ${change(others_before, others_after)} on general prompts`;

function stateOf({ doing, heads }: LearningView) {
  if (doing) return "Learning now. A new message interrupts it.";
  const when = "It learns after 2,000 new reply tokens, when nobody has asked for 4 seconds.";
  return heads.length ? `On. ${when}` : `On. No reply is stored yet. ${when}`;
}

function learnedFrom({ replies, rounds, days, last, taken, trials }: LearnedHead) {
  const span = days.length ? `, ${days[0][0]} to ${days.at(-1)?.[0]}` : "";
  return [
    `${count(replies)} stored ${replies === 1 ? "reply" : "replies"}, ${several(rounds, "drafted round")}${span}.`,
    taken && `Learned ${trialOf(taken)}.`,
    last && last !== taken && !last.taken && `The last update was no better, so it is not used: ${trialOf(last)}.`,
    !trials && "Not tried yet.",
  ]
    .filter(Boolean)
    .join(" ");
}

const EVERY_MS = 5000; // while it is on: a head may have learned meanwhile

export function Learning({ shown }: { shown: boolean }) {
  const { act, answer: view, error, refresh } = useAnswer<LearningView>("learning", shown);
  useTimer(shown && view?.on && EVERY_MS, () => void refresh(), [shown, view]);
  if (!view) return <ErrorNote text={error} />;
  return (
    <Panel title="Learn from your chats" class="training" data-part="learning">
      <Toggle
        name="learn"
        label="Let the drafter learn while the app is idle"
        hint="Stores your latest prompts and replies as token ids (chats and API, at most 8 MB per drafter) and the learned drafter in the data folder. Nothing leaves this machine. Replies keep their words; only the speed changes. Works for EAGLE-3, Medusa, LSTM and MLP drafters."
        value={view.on}
        onChange={(on) => act("switch_learning", { on })}
      />
      <ErrorNote text={error} />
      {view.on && <p role="status">{stateOf(view)}</p>}
      {view.heads.map((head) => (
        <Head key={head.id} head={head} onUse={(learned) => act("use_learned", { head: head.id, learned })} />
      ))}
      {view.heads.length > 0 && (
        <div class="ft-row">
          <SureButton
            text="Forget all"
            sure="Delete everything that was learned?"
            data-act="forget"
            onSure={() => act("forget_learned")}
          />
          <span class="ft-hint">{view.size} on disk. Deleting the chat history deletes it too.</span>
        </div>
      )}
    </Panel>
  );
}

function Head({ head, onUse }: { head: LearnedHead; onUse: (learned: boolean) => void }) {
  const { days, used } = head;
  const from = days.length ? Date.parse(days[0][0]) : 0;
  const DAY_MS = 86_400_000;
  return (
    <div class="learned ft-box ft-stack" data-head={head.id}>
      <div class="ft-row ft-spread">
        <b>{head.name}</b>
        <span class={`tag ${used ? "good" : ""}`}>{used ? "learned version in use" : "original version in use"}</span>
      </div>
      <p class="ft-hint">{learnedFrom(head)}</p>
      {days.length === 1 && <p class="ft-hint">{`So far ${fixed(days[0][1])} tokens per round, on ${days[0][0]}.`}</p>}
      {days.length > 1 && (
        <Chart
          points={days.map(([day, length]) => [(Date.parse(day) - from) / DAY_MS, length])}
          label="Tokens per round by day"
          axis="tokens per round"
          at={(x) => new Date(from + x * DAY_MS).toISOString().slice(0, 10)}
          from={1}
        />
      )}
      {head.version && (
        <div class="ft-row">
          <Button data-act={used ? "published" : "learned"} onClick={() => onUse(!used)}>
            {used ? "Back to the original version" : "Use the learned version"}
          </Button>
        </div>
      )}
    </div>
  );
}
