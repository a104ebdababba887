/** The dialogs in which an operator retries, parks or discards a message of the outbox. */
import type { JSX } from "preact";
import type { MessageJson } from "../../src/api/api-json.ts";
import { post } from "../server.ts";
import { Confirm, confirmationPhrase } from "./confirm.tsx";
import { Fact } from "./fact.tsx";

export type MessageVerb = "retry" | "park" | "discard";

export function MessageDialog(props: {
  readonly message: MessageJson;
  readonly verb: MessageVerb;
  readonly onDone: (notice: string) => void;
  readonly onClose: () => void;
}): JSX.Element {
  const { message, verb, onDone, onClose } = props;
  const { title, text, action, notice } = TEXTS[verb];
  const isFinal = verb === "discard";
  return (
    <Confirm
      title={title}
      {...(isFinal && { phrase: confirmationPhrase(message.key ?? undefined, verb), isDangerous: true })}
      action={action}
      onClose={onClose}
      onConfirm={async () => {
        await post(`/v1/outbox/${encodeURIComponent(message.id)}/${verb}`, {});
        onDone(notice);
      }}
    >
      <p>{text}</p>
      <dl class="facts">
        <Fact name="Topic">{message.topic}</Fact>
        {message.key !== null && <Fact name="Key">{message.key}</Fact>}
        {message.lastError !== null && (
          <Fact name="Last error" isWide>
            <span class="clamped" title={message.lastError}>
              {message.lastError}
            </span>
          </Fact>
        )}
      </dl>
    </Confirm>
  );
}

const TEXTS: Readonly<Record<MessageVerb, Readonly<Record<"title" | "text" | "action" | "notice", string>>>> =
  {
    retry: {
      title: "Retry this message?",
      text: "A relay delivers it as soon as it can, and its attempts start from 1 again. Older messages of its key still come first.",
      action: "Retry",
      notice: "The message is due now.",
    },
    park: {
      title: "Park this message?",
      text: "It is not delivered until you retry it. Later messages of its key wait behind it.",
      action: "Park",
      notice: "The message was parked.",
    },
    discard: {
      title: "Discard this message?",
      text: "It is deleted, and the next message of its key follows. Discard it only if the receiver must never get it.",
      action: "Discard",
      notice: "The message was discarded.",
    },
  };
