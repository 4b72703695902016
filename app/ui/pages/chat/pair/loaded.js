// The pair that is loaded or being opened, and what on this page depends on it: chip, settings, bar and meter.

import { pairKey } from "../../../shared/frame/status.js";

export class Loaded {
  constructor(page) {
    this.page = page;
    this.pair = undefined; // not known yet
  }

  show(latest) {
    const { loaded, opening, waits, failed, found, looking } = latest;
    const { pair, settings, loading, meter, notices } = this.page;
    const ended = this.opening && !opening;
    if (ended) notices.loadingEnded();
    this.opening = opening;
    this.waits = waits; // a message would be answered by what is being opened
    const first = this.pair === undefined;
    const other = first || (loaded && pairKey(loaded) !== pairKey(this.pair));
    const changed = settings.version !== latest.settings && !settings.keeping;
    this.pair = loaded;
    pair.show(latest);
    loading.show(latest);
    meter.setLimit(loaded?.context);
    if (other || changed) this.renewing = this.renewSettings(other && !first);
    if (!pair.popover.hidden && (other || ended)) pair.refresh();
    else if (!looking && found !== this.found) pair.again();
    if (!looking) this.found = found;
    if (failed && !opening) notices.notice(failed, true);
  }

  // The settings for what is loaded now; what could not be taken over is said.
  async renewSettings(tell) {
    const { settings, notices } = this.page;
    await settings.refresh(tell);
    document.body.dataset.controls = "ready";
    if (tell) notices.tell((settings.view?.news ?? []).join(" "));
  }
}
