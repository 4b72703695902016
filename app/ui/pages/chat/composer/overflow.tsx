// For a chat that is longer than the context: asks which turns to exclude, then sends what was waiting.

import { useEffect, useState } from "preact/hooks";
import { Button, Dialog } from "../../../shared/components";
import { words } from "../words";
import type { ChatPage, PageState } from "../types";

const short = (text: string) => (text.length > 90 ? `${text.slice(0, 89)}…` : text);

export function Overflow({ page, overflow }: { page: ChatPage; overflow: PageState["overflow"] }) {
  const [ticked, setTicked] = useState<number[]>([]);
  useEffect(() => setTicked([]), [overflow]);
  const { data = null, turns = [], why = "" } = overflow ?? {};
  const close = () => page.state.overflow && page.set({ overflow: null });
  const excludeOldest = () => {
    close();
    if (data) page.leavingOut.again({ ...data, drop: "oldest" });
  };
  const excludeTicked = () => {
    close();
    page.leavingOut.leaveOut(
      ticked.flatMap((index) => turns[index].map(({ id }) => id)),
      true,
      data,
    );
  };
  const tick = (index: number) =>
    setTicked(ticked.includes(index) ? ticked.filter((each) => each !== index) : [...ticked, index]);
  const actions = (
    <>
      {data && <Button kind="primary" text={words.dropOldest} data-act="oldest" onClick={excludeOldest} />}
      <Button data-act="chosen" disabled={!ticked.length} onClick={excludeTicked}>
        {data ? words.dropChosen : words.leaveChosen}
      </Button>
      <Button onClick={close}>{words.cancel}</Button>
    </>
  );
  return (
    <Dialog
      class="fitting"
      title={data ? words.tooLong : words.freeContext}
      open={Boolean(overflow)}
      onClose={close}
      actions={actions}>
      <p>{why}</p>
      <p class="ft-hint">{words.fullHint}</p>
      <ul class="turns ft-list ft-box">
        {turns.map((turn, index) => (
          <li key={turn[0].id}>
            <label>
              <input type="checkbox" checked={ticked.includes(index)} onChange={() => tick(index)} />
              <span dir="auto">{short(turn[0].text)}</span>
            </label>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
