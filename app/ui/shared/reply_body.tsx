import { useLayoutEffect, useRef } from "preact/hooks";
import { useListener } from "./frame/hooks";
import { MARKS_SHOWN, type Reply } from "./reply";

// The thought and the text of a reply. They grow without Preact; see app/ui/shared/reply.ts.
export function ReplyBody({ reply, onDrawn }: { reply: Reply; onDrawn?: (body: HTMLElement) => void }) {
  const node = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const body = node.current as HTMLDivElement;
    reply.onDrawn = () => onDrawn?.(body);
    reply.drawIn(body);
    return () => {
      reply.leave();
      body.replaceChildren();
    };
  }, [reply]);
  useListener(window, MARKS_SHOWN, () => reply.markAll());
  return <div class="body markdown" dir="auto" ref={node} />;
}
