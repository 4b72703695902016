// The messages of the chat, or the welcome of an empty one; stays scrolled to the end while the reader is there.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ArrowDown } from "lucide";
import { Button } from "../../../shared/components";
import { Follow } from "../../../shared/follow";
import { attach } from "../composer/composer";
import { takesFiles } from "../composer/attachments";
import { differs } from "../notices";
import { MessageView } from "./message";
import { Welcome } from "./welcome";
import type { ChatPage, PageState } from "../types";

const FRESH = 4; // messages at the end that are drawn at once

export function Conversation({ page, state }: { page: ChatPage; state: PageState }) {
  const { messages, ready } = state;
  const log = useRef<HTMLDivElement>(null);
  const [stuck, setStuck] = useState(true);
  useLayoutEffect(() => {
    if (log.current) page.follow = new Follow(log.current, setStuck);
  }, [page]);
  const empty = ready && !messages.length;
  useLayoutEffect(() => {
    if (!empty || !log.current) return;
    log.current.scrollTop = 0;
    page.stay(); // show it from its heading on
  }, [empty, state.status?.loaded?.title]);
  const last = messages.at(-1);
  const loaded = state.status?.loaded;
  const other = Boolean(last?.model && loaded && differs(last, loaded));
  const asked = messages.filter(({ role, left_out }) => role === "user" && !left_out);
  const used = last?.stats?.prompt_tokens + last?.stats?.completion_tokens;
  const sealed = asked.length < 2 && used >= Number(loaded?.context); // no earlier turn can be excluded
  const toEnd = () => page.follow?.toEnd();
  return (
    <div class="messages-frame">
      <div
        class="messages"
        role="log"
        aria-label="Messages"
        tabIndex={0}
        ref={log}
        onClick={() => state.side && page.setSide(false)}
        {...takesFiles((files) => attach(page, files))}>
        <div class="stack ft-stack">
          {empty && <Welcome page={page} status={state.status} invites={state.tour === null} />}
          {messages.map((message, index) => (
            <MessageView
              key={message.id}
              page={page}
              message={message}
              editing={state.editing === message.id}
              idle={state.running === null}
              live={message.status === "running" ? state.live : null}
              last={message === last}
              inner={Boolean(message.calls) && messages[index + 1]?.role === "assistant"}
              fresh={index >= messages.length - FRESH}
              thinks={Boolean(state.view?.thinking.some(({ id }: any) => id === "off"))}
              other={message === last && other}
              sealed={message === last && sealed}
            />
          ))}
        </div>
      </div>
      <Button small class="newest" icon={ArrowDown} text="Newest" hidden={stuck || empty} onClick={toEnd} />
    </div>
  );
}
