/** node-idempotency 1: `prefix:METHOD:path:key` with a JSON record, in Redis. */
import { UsageError } from "../command.ts";
import { isObject, objectIn, type Peer, type PeerKey, refused, toError } from "./peer.ts";
import { redisSource, startingWith } from "./redis-source.ts";
import { toResponse } from "./response.ts";
import { schemeIn } from "./source.ts";

const PREFIX = "node-idempotency";

export const nodeIdempotency: Peer = {
  fields: ["method", "path", "key"],
  templates: { operation: "{method} {path}", scope: "", key: "{key}" },
  form: "response",
  async open(source, prefix = PREFIX) {
    if (!/^rediss?$/.test(schemeIn(source) ?? ""))
      throw new UsageError("keys of node-idempotency are read from a redis:// URL.");
    return redisSource(source, startingWith(`${prefix}:`));
  },
  read(entry, { prefix = PREFIX, form, isMatched }) {
    const record = objectIn(entry.value);
    const { status, response } = record ?? {};
    if (status === "IN_PROGRESS") return { status: "unfinished" };
    if (status !== "COMPLETE" || !isObject(response)) return { status: "not-recognized" };
    const fields = splitKey(entry.key, prefix);
    if (fields === undefined && !isMatched)
      return refused(
        "its path and its key cannot be told apart, since one of them has a colon; give both with --match.",
      );
    const outcome = form === "value" ? toValue(response) : toResponseOutcome(response);
    if (outcome === undefined) return refused("its response has a status that HTTP does not allow.");
    return { status: "completed", fields: fields ?? {}, leftMs: entry.leftMs, outcome };
  },
};

/** Undefined if there is more than one way to take the key apart. The path never has a colon otherwise. */
function splitKey(key: string, prefix: string): Readonly<Record<string, string>> | undefined {
  const [, method, target, own] = /^([A-Za-z]+):([^:]*):([^:]*)$/.exec(key.slice(prefix.length + 1)) ?? [];
  if (method === undefined || target === undefined || own === undefined) return undefined;
  const [path = ""] = target.split("?");
  return { method: method.toUpperCase(), path, key: unquoted(own) };
}

/** The HTTP layer takes `"k"` and `k` as the same key; node-idempotency keeps the quotes. */
function unquoted(key: string): string {
  const inner = /^"((?:[^"\\]|\\["\\])*)"$/.exec(key)?.[1];
  return inner === undefined ? key : inner.replace(/\\(.)/g, "$1");
}

type StoredResponse = Readonly<Record<string, unknown>>;
type PeerOutcome = PeerKey["outcome"];

function toValue({ body, error }: StoredResponse): PeerOutcome {
  return error === undefined || error === null ? { value: body } : { error: toError(error) };
}

/** `additional` has the status and the headers. An error is that of NestJS, whose response is its body. */
function toResponseOutcome({ body, error, additional }: StoredResponse): PeerOutcome | undefined {
  const { statusCode, ...headers } = isObject(additional) ? additional : { statusCode: undefined };
  const failed = isObject(error) ? error : undefined;
  const status = statusCode ?? failed?.status ?? (failed === undefined ? 200 : 500);
  const content =
    failed === undefined ? body : (failed.response ?? { statusCode: status, message: failed.message });
  const value = toResponse({ status, headers, body: content });
  return value === undefined ? undefined : { value };
}
