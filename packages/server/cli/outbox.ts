/** `nevertwice outbox`: lists undelivered messages, and retries, parks or discards them. */
import type { MessageJson, MessagePageJson } from "../src/api/api-json.ts";
import { API_FLAGS, callApiOnce } from "./api.ts";
import { type Action, type Command, wholeNumber } from "./command.ts";
import { nextLine } from "./holds.ts";
import { agoText, paint, table } from "./terminal.ts";

export const outboxCommand: Command = {
  summary: "list undelivered messages, and retry, park or discard them",
  actions: {
    list: {
      summary: "Lists undelivered messages, oldest first, without their bodies.",
      flags: {
        state: { value: "waiting|behind|delivering|parked", what: "only messages in this state" },
        topic: { value: "TOPIC", what: "only messages of this topic" },
        key: { value: "KEY", what: "only messages of this key" },
        limit: { value: "N", what: "the most rows to print" },
        after: { value: "NEXT", what: "continue after the previous page" },
        ...API_FLAGS,
      },
      run: (call) => {
        const [state, topic, key, after] = ["state", "topic", "key", "after"].map(call.text);
        const query = { state, topic, key, after, limit: wholeNumber(call, "limit", 1) };
        return callApiOnce(call, { method: "GET", path: "/v1/outbox", query }, listLines);
      },
    },
    retry: messageAction("retry", "Makes a message due now. Its attempts start from 1 again."),
    park: messageAction("park", "Keeps a message, and the later ones of its key, from being delivered."),
    discard: messageAction("discard", "Deletes a message without delivering it. This cannot be undone."),
  },
};

function messageAction(verb: string, summary: string): Action {
  return {
    summary,
    takes: ["ID"],
    flags: API_FLAGS,
    run: (call) => {
      const [id = ""] = call.args;
      const request = { method: "POST", path: `/v1/outbox/${encodeURIComponent(id)}/${verb}` } as const;
      return callApiOnce(call, request, () => [`${paint("green", "done")}: ${verb} ${id}`]);
    },
  };
}

const STYLES: Readonly<Record<string, "green" | "yellow" | "red" | "dim">> = {
  waiting: "yellow",
  delivering: "green",
  behind: "dim",
  parked: "red",
};

function listLines({ messages, next }: MessagePageJson): readonly string[] {
  if (messages.length === 0)
    return [
      next === null ? "No matching messages." : "No matching messages on this page.",
      ...nextLine(next),
    ];
  const now = Date.now();
  const rows = messages.map((message) => [
    message.id,
    message.state,
    message.topic,
    message.key,
    message.attempts,
    agoText(message.createdAt, now),
    nextAttempt(message, now),
    shortened(message.lastError),
  ]);
  const columns = ["id", "state", "topic", "key", "attempts", "sent", "next try", "last error"];
  return [
    ...table(columns, rows, (column, text) => (column === "state" ? STYLES[text] : undefined)),
    ...nextLine(next),
  ];
}

function nextAttempt({ state, dueAt }: MessageJson, now: number): string | null {
  if (state !== "waiting") return null;
  return dueAt === null ? "now" : agoText(dueAt, now);
}

const MAX_ERROR = 80;

function shortened(error: string | null): string | null {
  return error !== null && error.length > MAX_ERROR ? `${error.slice(0, MAX_ERROR)}…` : error;
}
