// Every word of the Train page.

import { count, fixed, several } from "../../shared/format";

// What `show` of the backend returns; times in minutes of training.
export interface TrainingRun {
  name: string;
  target: string;
  kind: string;
  prompts: string; // general, pip, chats, or a file's name
  minutes: number;
  state: "running" | "stopping" | "stopped" | "failed" | "done";
  phase: string;
  done: number; // recorded answers; while it measures, measured ones
  of: number; // answers to record; while it measures, those to measure
  share: number; // of the training
  recorded: number; // share of the recording
  left: string | null; // the time left, as text
  loss: [number, number][];
  length: [number, number][]; // tokens per round
  positions: number[];
  error: string | null;
  drafter: string | null; // its folder
  pair: string | null;
  race: { rival: string; base: string; place: string | null } | null;
}

// What the backend's `learning` returns.
export interface LearnedHead {
  id: string;
  name: string; // of the model, and the kind of head
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
export type LearningView = { on: boolean; doing: boolean; size: string; heads: LearnedHead[] };

const change = (before: number, after: number) => `${fixed(before)} → ${fixed(after)}`;
const trialOf = ({ at, replies, tokens, before, after, others_before, others_after }: Trial) =>
  `${at}, from ${count(replies)} replies (${count(tokens)} tokens): ${change(before, after)} tokens per round on the newest ones, ${change(others_before, others_after)} on general prompts`;

const TOKENS_AN_ANSWER = 150;
const WEAK = 1.2; // tokens per round; less does not pay for the drafter's own time

const left = (run: TrainingRun) => (run.left ? `, ${run.left} left` : "");
const answers = (n: number) => several(n, "answer");
const SOURCES: Record<string, string> = { general: "general prompts", pip: "Pip's prompts", chats: "your chats" };

export const words = {
  title: "Train",
  intro: "Train a small drafter that imitates your model. The model itself does not change.",
  model: "Model",
  minutes: "Training time, minutes",
  estimate: (minutes: number | null, speed: number | null) => {
    if (!minutes || minutes <= 0) return "Enter a number of minutes.";
    const some = speed ? ` up to ${count(Math.max(1, Math.round((60 * minutes * speed) / TOKENS_AN_ANSWER)))}` : "";
    return `About ${several(2 * minutes, "minute")}: ${minutes} to record${some} answers from the model, ${minutes} to train. Then its acceptance is measured, which takes longer while other programs run.`;
  },
  kind: "Drafter type",
  prompts: "Training prompts",
  general: "General prompts",
  generalHint: "7,000 prompts: code to explain, write and test, everyday questions, JSON.",
  pip: "Pip's prompts",
  pipHint: "12,000 prompts: stories, questions, JSON, rewriting.",
  chats: "My chats",
  chatsHint: (n: number) =>
    n < 2
      ? "Needs at least two prompts; several hundred work well."
      : `${count(n)} prompts. They stay on this machine.${n < 200 ? " Several hundred work well." : ""}`,
  file: "File",
  fileHint: 'JSON lines: {"prompt": "..."} or {"messages": [...]}',
  filePath: "/path/to/prompts.jsonl",
  fileLabel: "File path",
  start: "Start training",
  noTargets: "There is no model on this machine. Download one on the Models page first.",
  runsHint: "Runs in the background while Foretoken is open. Progress is saved.",

  runTitle: ({ kind, target }: TrainingRun) => `${kind} for ${target}`,
  source: ({ prompts, minutes }: TrainingRun) => `From ${SOURCES[prompts] ?? prompts}, ${several(minutes, "minute")}`,
  states: { running: "running", stopping: "stopping", stopped: "stopped", failed: "failed", done: "done" },
  steps: ["Load", "Record answers", "Train", "Measure"],
  loading: "Loading the model",
  recording: (run: TrainingRun) => `${answers(run.done)} recorded${left(run)}`,
  learning: (run: TrainingRun) => `${Math.floor(100 * run.share)} %${left(run)}`,
  measuring: (run: TrainingRun) =>
    run.of ? `Measuring acceptance: ${run.done} of ${answers(run.of)}${left(run)}` : "Measuring acceptance",
  stop: "Stop",
  stopping: "Saving progress …",
  stopped: ({ share, done }: TrainingRun) =>
    share >= 1
      ? "Stopped while its acceptance was measured. The training is saved; Resume measures again."
      : share > 0
        ? `Stopped at ${Math.floor(100 * share)} % of the training. Progress is saved.`
        : `Stopped after ${answers(done)}. Progress is saved.`,
  resume: "Resume",
  again: "Try again",
  discard: "Delete",
  discardSure: "Delete this training run?",

  result: (length: number) => `Done: ${fixed(length)} tokens per round on held-out prompts.`,
  weak: (length: number) => (length < WEAK ? "That is too little to help. Train longer, or with more prompts." : ""),
  inCatalog: (pair: string) => `Listed on Models as ${pair}.`,
  where: "Saved in",
  load: "Load",
  loaded: "Loaded.",
  chatWith: "Chat with it",
  race: "Compare with before",
  another: "Train another",
  anotherHint: "The drafter stays; the recorded answers are deleted.",

  learnTitle: "Learn from your chats",
  learnSwitch: "Let the drafter learn while the app is idle",
  learnHint:
    "Stores the tokens of up to 8 MB of your latest prompts and replies, of chats and API, and the learned drafter in the data folder. Nothing leaves this machine. Replies keep their words; only the speed changes. Works for EAGLE-3, Medusa, LSTM and MLP drafters.",
  learnState: ({ doing, heads }: LearningView) =>
    doing
      ? "Learning now. A new message interrupts it."
      : heads.length
        ? "On. It learns when nobody has asked for some seconds, after enough new replies."
        : "On. Chat with a model that has such a drafter.",
  versionLearned: "learned version in use",
  versionPublished: "published version in use",
  learnedFrom: ({ replies, rounds, days, last, taken, trials }: LearnedHead) =>
    [
      `${count(replies)} stored ${replies === 1 ? "reply" : "replies"}, ${several(rounds, "drafted round")}${days.length ? `, ${days[0][0]} to ${days.at(-1)?.[0]}` : ""}.`,
      taken ? `Learned ${trialOf(taken)}.` : "",
      last && last !== taken && !last.taken ? `Last trial not taken: ${trialOf(last)}.` : "",
      trials ? "" : "Not tried yet.",
    ].join(" "),
  byDay: "Tokens per round by day",
  backToPublished: "Back to the published version",
  useLearned: "Use the learned version",
  forget: "Forget all",
  forgetSure: "Delete everything that was learned?",
  forgetHint: (size: string) => `${size} on disk. Deleting the chat history deletes it too.`,

  loss: "Loss",
  lossUnit: "nats per token",
  lossEmpty: "First value after the first step",
  length: "Tokens per round",
  lengthUnit: "on held-out prompts",
  lengthEmpty: "Measured every few minutes, and at the end",
  at: (minutes: number) => `${minutes > 0 && minutes < 10 ? minutes.toFixed(1) : Math.round(minutes)} min`,
  positions: "Accepted by position",
  position: (n: number) => `token ${n}`,
};
