// Everything that the pages load: one script and one style.

import "@fontsource-variable/inter/wght.css";
import "katex/dist/katex.css";
import "./shared/ui.css";
import "./pages/chat/chat.css";
import "./pages/chat/chip/pair.css";
import "./pages/chat/conversation/conversation.css";
import "./pages/chat/rounds.css";
import "./pages/chat/tools/tools.css";
import "./pages/models/models.css";
import "./pages/plan/plan.css";
import "./pages/race/race.css";
import "./pages/server/server.css";
import "./pages/settings/settings.css";
import "./pages/settings/tools/tools.css";
import "./pages/train/train.css";
import "./pages/tune/tune.css";

import "./pages/chat/chat";
import "./pages/models/models";
import "./pages/plan/plan";
import "./pages/race/race";
import "./pages/server/server";
import "./pages/settings/settings";
import "./pages/train/train";
import "./pages/tune/tune";

import { presence } from "./shared/frame/presence";
import { begin } from "./shared/frame/topbar";

if (window.ForetokenPages) {
  begin();
  presence();
}

// What tests import from the bundle in a blank page.
export { Marked } from "marked";
export { h, render } from "preact";
export { Rounds } from "./pages/chat/drawer/rounds";
export { calls } from "./pages/server/calls";
export { Figures, SpeedBar, scaleFor } from "./shared/figures/figures";
export { Follow } from "./shared/follow";
export { Reply } from "./shared/reply";
export { Marks } from "./shared/text/marks";
export { place, source } from "./shared/text/places";
export { StreamingMarkdown } from "./shared/text/streaming";
