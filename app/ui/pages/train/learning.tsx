// What heads learn from chats while the app is idle: the switch, the figures, and the way back.

import { useState } from "preact/hooks";
import { Button, ErrorNote, Panel, Toggle, useAnswer, useTimer } from "../../shared/components";
import { Chart } from "./chart";
import { words } from "./words";

type View = import("./words").LearningView;
type LearnedHead = import("./words").LearnedHead;

const EVERY_MS = 5000; // while it is on: a head may have learned meanwhile

export function Learning({ shown }: { shown: boolean }) {
  const { ask, answer, setAnswer, error, refresh } = useAnswer("learning", shown);
  const [sure, setSure] = useState(false); // asked whether to delete
  const view: View | null = answer;
  useTimer(shown && view?.on && EVERY_MS, () => void refresh(), [shown, view]);
  if (!view) return <ErrorNote text={error} />;
  const act = async (name: string, data = {}) => setAnswer((await ask(name, data)) ?? { ...view });
  const forget = () => {
    setSure(false);
    void act("forget_learned");
  };
  return (
    <Panel title={words.learnTitle} class="training" data-part="learning">
      <Toggle
        name="learn"
        label={words.learnSwitch}
        hint={words.learnHint}
        value={view.on}
        onChange={(on) => act("switch_learning", { on })}
      />
      <ErrorNote text={error} />
      {view.on && <p role="status">{words.learnState(view)}</p>}
      {view.heads.map((head) => (
        <Head key={head.id} head={head} onUse={(learned) => act("use_learned", { head: head.id, learned })} />
      ))}
      {view.heads.length > 0 && (
        <div class="ft-row">
          <Button
            kind={sure ? "danger" : undefined}
            data-act="forget"
            onBlur={() => setSure(false)}
            onClick={() => (sure ? forget() : setSure(true))}>
            {sure ? words.forgetSure : words.forget}
          </Button>
          <span class="ft-hint">{words.forgetHint(view.size)}</span>
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
    <div class="ft-box" data-head={head.id}>
      <div class="ft-row ft-spread">
        <b>{head.name}</b>
        <span class={`tag ${used ? "good" : ""}`}>{used ? words.versionLearned : words.versionPublished}</span>
      </div>
      <p class="ft-hint">{words.learnedFrom(head)}</p>
      {days.length > 0 && (
        <Chart
          points={days.map(([day, length]) => [(Date.parse(day) - from) / DAY_MS, length])}
          label={words.byDay}
          at={(x) => new Date(from + x * DAY_MS).toISOString().slice(0, 10)}
          from={1}
        />
      )}
      {head.version && (
        <Button data-act={used ? "published" : "learned"} onClick={() => onUse(!used)}>
          {used ? words.backToPublished : words.useLearned}
        </Button>
      )}
    </div>
  );
}
