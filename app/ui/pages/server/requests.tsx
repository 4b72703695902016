// The live log of API requests: a row for each, the newest first, while the page is shown.

import { useEffect, useState } from "preact/hooks";
import { Button, ErrorNote, Table, useServer } from "../../shared/components";
import { percent, seconds, speed } from "../../shared/format";
import { answered } from "../../shared/frame/server";

const PERIOD = 250; // ms between two questions
const AWAY = 2000; // ms until the next question if the app does not answer

const COLUMNS = ["Time", "From", "Endpoint", "Method", "Tokens", "Tokens/s", "Accepted", "State"];
const STAGES = { arrived: "received", length: "token limit" } as Record<string, string>; // others are told by their names
const LOOKS = { running: "good", done: "good", refused: "bad", failed: "bad" } as Record<string, string>;

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
  stage: string;
  ended: boolean;
  message: string; // why it was refused or failed
  prompt_tokens: number;
  completion_tokens: number;
  tokens_per_s: number | null;
  acceptance_rate: number | null;
}

type Log = { version: number; rows: Map<number, Request> };
type Changes = { version: number; numbers: number[]; requests: Request[] }; // `numbers`: all that are still kept

export function Requests({ shown }: { shown: boolean }) {
  const { ask, error } = useServer();
  const { rows } = useLog(shown);
  const newest = [...rows.values()].sort((one, other) => other.number - one.number);
  if (!newest.length)
    return <p class="ft-hint">No requests yet. They appear here live; their contents are not stored.</p>;
  return (
    <>
      <ErrorNote text={error} />
      <div class="ft-scroll" tabIndex={0} role="group" aria-label="Requests">
        <Table class="requests" columns={COLUMNS}>
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

function merged(before: Log, { version, numbers, requests }: Changes): Log {
  const known = version < before.version ? new Map() : new Map(before.rows); // else the app was restarted
  for (const request of requests) known.set(request.number, request);
  return { version, rows: new Map(numbers.filter((each) => known.has(each)).map((each) => [each, known.get(each)])) };
}

function Row({ request, onCancel }: { request: Request; onCancel: () => void }) {
  const { prompt_tokens: prompt, completion_tokens: reply } = request;
  const at = new Date(1000 * request.at).toLocaleTimeString();
  return (
    <tbody data-request={request.number} data-stage={request.stage}>
      <tr>
        <td>{at}</td>
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
        <td data-cell="tokens">{prompt || reply ? `${prompt} → ${reply}` : "–"}</td>
        <td data-cell="speed">{speed(request.tokens_per_s)}</td>
        <td data-cell="accepted">{percent(request.acceptance_rate)}</td>
        <td>
          <span class={`stage tag ${LOOKS[request.stage] ?? ""}`}>{STAGES[request.stage] ?? request.stage}</span>
          {request.ended ? (
            <span class="ft-hint">{seconds(request.seconds)}</span>
          ) : (
            <Button kind="link" aria-label={`Cancel the request from ${at}`} data-act="cancel" onClick={onCancel}>
              Cancel
            </Button>
          )}
        </td>
      </tr>
      {request.message && (
        <tr>
          <td class="why" colSpan={COLUMNS.length}>
            {request.message}
          </td>
        </tr>
      )}
    </tbody>
  );
}
