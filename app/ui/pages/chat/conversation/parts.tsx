// What a message is made of. A new kind of part is a component in PARTS, and its place in partsOf().

import { ReplyBody } from "../../../shared/reply_body";
import { CallList } from "../tools/calls";
import { FileChip } from "../composer/attachments";
import type { ComponentType } from "preact";
import type { ChatPage, Message } from "../types";

type PartProps = { message: Message; page: ChatPage };
export const PARTS: Record<string, ComponentType<PartProps>> = {
  files: ({ message, page }) => (
    <div class="files ft-row">
      {message.files.map((file, index) => (
        <FileChip key={index} page={page} file={file} />
      ))}
    </div>
  ),
  text: ({ message }) => (
    <div class="body plain" dir="auto">
      {message.text}
    </div>
  ),
  reply: ({ message, page }) => <ReplyBody reply={message.reply} onDrawn={() => page.follow?.grown()} />,
  calls: MessageCalls,
};

// Returns the parts of a message in their order.
export function partsOf(message: Message) {
  if (message.role === "assistant") return message.calls ? ["reply", "calls"] : ["reply"];
  return [message.files?.length && "files", message.text && "text"].filter((each) => typeof each === "string");
}

// The calls of tools that a reply made. The last reply's can be continued where they ended.
function MessageCalls({ message: { calls, id }, page }: PartProps) {
  const { messages, running } = page.state;
  const open = running === null && messages.at(-1)?.id === id;
  if (!calls) return null;
  return (
    <CallList
      calls={calls}
      onAnswer={(call, answer, reason) => page.answerCall(call, answer, reason)}
      onContinue={open ? () => page.sending.act({ action: "continue", message: id }) : null}
    />
  );
}
