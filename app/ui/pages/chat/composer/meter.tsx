// The share of the context that the conversation takes; shown once it matters.

import { Button } from "../../../shared/components";
import { words } from "../words";
import type { ChatPage, PageState } from "../types";

const SHOWN = 0.6;
const NEARLY = 0.85;

export function ContextMeter({ page, state }: { page: ChatPage; state: PageState }) {
  const stats = state.live ?? page.replies.at(-1)?.stats;
  const limit = state.status?.loaded?.context;
  const used = stats?.prompt_tokens ? stats.prompt_tokens + stats.completion_tokens : 0; // the prompt is the whole chat
  const share = Math.min(used / limit, 1);
  if (!used || !limit || share < SHOWN) return null;
  const nearly = share >= NEARLY;
  const warning = share === 1 ? words.context.full : words.context.nearly;
  return (
    <div class="context-meter ft-row ft-fine" data-state={nearly ? "nearly" : ""}>
      <span
        class="ft-track"
        role="meter"
        aria-label={words.context.name}
        aria-valuemin={0}
        aria-valuemax={limit}
        aria-valuenow={Math.min(used, limit)}>
        <i class="fill" style={{ width: `${100 * share}%` }} />
      </span>
      <span class="meter-words">{words.context.used(used, limit)}</span>
      <span role="status">{nearly && warning}</span>
      {nearly && state.running === null && (
        <Button
          kind="link"
          data-act="choose-dropped"
          onClick={() => page.set({ overflow: { why: warning, turns: page.leavingOut.turns, data: null } })}>
          {words.chooseDropped}
        </Button>
      )}
    </div>
  );
}
