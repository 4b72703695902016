// The live log of API requests: a row for each, the newest first, while the page is shown.

import { useEffect, useState } from "preact/hooks";
import { Button, ErrorNote, Table, useServer } from "../../shared/components";
import { percent, seconds, speed } from "../../shared/format";
import { answered } from "../../shared/frame/server";
import { words } from "./words";

const PERIOD = 250; // ms between two questions
const AWAY = 2000; // ms until the next question if the app does not answer

// What `show_request` of the backend returns; times in seconds.
interface Request {
  number: number;
  at: number;
  seconds: number | null;
  address: string;
  agent: string;
  path: string;
  model: string;
  method: string;
  stage: keyof typeof words.stages;
  ended: boolean;
  message: string; // why it was refused or failed
  prompt_tokens: number;
  completion_tokens: number;
  tokens_per_s: number | null;
  acceptance_rate: number | null;
}

type Log = { version: number; rows: Map<number, Request> };

export function Requests({ shown }: { shown: boolean }) {
  const { ask, error } = useServer();
  const { rows } = useLog(shown);
  const newest = [...rows.values()].sort((one, other) => other.number - one.number);
  if (!newest.length) return <p class="ft-hint">{words.noRequests}</p>;
  return (
    <>
      <ErrorNote text={error} />
      <div class="ft-scroll" tabIndex={0} role="group" aria-label={words.requests}>
        <Table class="requests" columns={words.columns}>
          {newest.map((each) => (
            <Row key={each.number} request={each} onCancel={() => ask("cancel_request", { number: each.number })} />
          ))}
        </Table>
      </div>
    </>
  );
}

// Follows the log while `shown`.
function useLog(shown: boolean) {
  const { server } = useServer();
  const [log, setLog] = useState<Log>({ version: 0, rows: new Map() });
  useEffect(() => {
    if (!shown) return;
    let on = true;
    let version = log.version;
    const follow = async () => {
      while (on) {
        const changes = await answered(server.follow({ from: version })).catch(() => null);
        if (changes) setLog((before) => merged(before, changes));
        version = changes?.version ?? version;
        await new Promise((done) => setTimeout(done, changes ? PERIOD : AWAY));
      }
    };
    follow();
    return () => void (on = false);
  }, [shown, server]);
  return log;
}

// `numbers` are all requests that are still kept.
function merged(
  before: Log,
  { version, numbers, requests }: { version: number; numbers: number[]; requests: Request[] },
): Log {
  const known = version < before.version ? new Map() : new Map(before.rows); // else the app was restarted
  for (const request of requests) known.set(request.number, request);
  return { version, rows: new Map(numbers.filter((each) => known.has(each)).map((each) => [each, known.get(each)])) };
}

const LOOKS: Record<string, string> = { running: "good", done: "good", refused: "bad", failed: "bad" };

const clock = (at: number) => new Date(1000 * at).toLocaleTimeString();

function Row({ request, onCancel }: { request: Request; onCancel: () => void }) {
  const { prompt_tokens: prompt, completion_tokens: reply } = request;
  return (
    <tbody data-request={request.number} data-stage={request.stage}>
      <tr>
        <td>{clock(request.at)}</td>
        <td data-cell="from">
          {request.address}
          <span class="ft-hint" title={request.agent}>
            {request.agent.split(" ")[0]}
          </span>
        </td>
        <td data-cell="what">
          {request.model || "–"}
          <span class="ft-hint">{request.path}</span>
        </td>
        <td data-cell="method">{request.method || "–"}</td>
        <td data-cell="tokens">{prompt || reply ? words.tokens(prompt, reply) : "–"}</td>
        <td data-cell="speed">{speed(request.tokens_per_s)}</td>
        <td data-cell="accepted">{percent(request.acceptance_rate)}</td>
        <td>
          <span class={`stage tag ${LOOKS[request.stage] ?? ""}`}>{words.stages[request.stage]}</span>
          {request.ended ? (
            <span class="ft-hint">{seconds(request.seconds)}</span>
          ) : (
            <Button kind="link" data-act="cancel" aria-label={words.cancelOf(clock(request.at))} onClick={onCancel}>
              {words.cancel}
            </Button>
          )}
        </td>
      </tr>
      {request.message && (
        <tr>
          <td class="why" colSpan={words.columns.length}>
            {request.message}
          </td>
        </tr>
      )}
    </tbody>
  );
}
