/** The messages between the store in a Worker and its objects, as JSON. */
import type { CallAnswer, CallReply, StoreCall } from "../sqlite/calls.ts";
import { copyErrors, isFailed, restoreErrors } from "../sqlite/calls.ts";

export const CALL_PATH = "/call";
export const WATCH_PATH = "/watch";

export interface CallMessage {
  readonly call: StoreCall;
  /** Which of how many objects the sender takes this one for. */
  readonly shard: number;
  readonly shards: number;
  /** The first object has confirmed the number of shards. */
  readonly isConfirmed?: boolean;
}

export interface WatchMessage {
  readonly id: string;
}

export type ObjectReply =
  /** The answer to the one call, and the size of the object's database. */
  | { readonly kind: "answered"; readonly reply: CallReply; readonly bytes: number }
  /** The object is new: the sender must first ask the first object whether the number of shards is right. */
  | { readonly kind: "unconfirmed" };

export function encodeReply(reply: ObjectReply): string {
  return JSON.stringify(reply.kind === "answered" ? { ...reply, reply: copyErrors(reply.reply) } : reply);
}

export function decodeReply(text: string): ObjectReply {
  const reply = JSON.parse(text, withoutNull) as ObjectReply;
  return reply.kind === "answered" ? { ...reply, reply: restoreErrors(reply.reply) } : reply;
}

export function decodeMessage<Message>(text: string): Message {
  return JSON.parse(text, withoutNull) as Message;
}

/** JSON writes an undefined item of a list as null. Neither calls nor answers contain null otherwise. */
function withoutNull(_name: string, value: unknown): unknown {
  return value === null ? undefined : value;
}

/** Throws if the call failed. */
export function onlyAnswer({ answers }: CallReply): CallAnswer {
  const answer = answers[0] as CallAnswer;
  if (isFailed(answer)) throw answer[1];
  return answer;
}
