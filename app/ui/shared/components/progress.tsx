import { status as feed, type Status } from "../frame/status";
import { words } from "../frame/words";
import { Button } from "./button";

// How far a load is, with a button that cancels it by the endpoint `cancel_loading`. Shows nothing without a load.
export function LoadProgress({ status, ask }: { status: Status | null; ask: (name: string) => Promise<any> }) {
  if (!status?.opening) return null;
  const { opening, progress, cancelling } = status;
  const cancel = async () => {
    await ask("cancel_loading");
    feed.refresh();
  };
  return (
    <div class="loading">
      <div class="ft-row">
        <span class="loading-name" role="status">
          {opening}
        </span>
        <span class="ft-hint">{cancelling ? words.cancelling : progress && words.progress(progress)}</span>
      </div>
      <Button small text={words.cancel} disabled={cancelling} data-action="cancel-loading" onClick={cancel} />
      {/* without a value the bar is indeterminate */}
      <progress max={1} value={progress?.share ?? undefined} aria-label={opening} />
    </div>
  );
}
