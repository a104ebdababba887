/**
 * What the errors of `@upstash/redis` mean to the caller. Those that Redis answered mean the same as over TCP
 * (redis/errors.ts); the service adds a few of its own. Everything else is a request whose effect is unknown, which is
 * `unavailable`: the caller repeats it with the same token.
 */
import { NevertwiceError } from "../../core/errors.ts";
import { type DriverErrorTable, driverMessage, translateDriverError } from "../driver-errors.ts";

/** What Redis answers begins with a word in capitals. */
const REDIS = /^[A-Z]{3,}\b/;

/** The limits of a plan, by the texts in Upstash's documentation. */
const SERVICE: DriverErrorTable = {
  rules: [
    {
      text: /^ERR DB capacity quota exceeded/i,
      code: "store-full",
      says: "this Upstash database has no room left: raise its limit, or shorten the retention of outcomes",
    },
    {
      text: /^ERR max (?:requests|daily request) limit exceeded/i,
      code: "store-full",
      says: "this Upstash database has used up the requests of its plan: upgrade it",
    },
    {
      text: /^ERR max (?:request|single record|key) size exceeded/i,
      code: "options-invalid",
      says: "the record is larger than Upstash accepts",
    },
    {
      text: /^ERR max concurrent \w+ exceeded/i,
      code: "unavailable",
      says: "this Upstash database serves as many requests as its plan allows",
    },
  ],
  codesOf: () => [],
  otherwise(error) {
    if (REDIS.test(driverMessage(error))) return undefined;
    return { code: "store-unsafe", says: "Upstash answered with an error that the store does not expect" };
  },
};

/**
 * The client's error as ours, or what Redis answered, for redis/errors.ts to translate. The client quotes the whole command, with
 * tokens and outcomes, which must not come into a log: neither the message nor the cause has it.
 */
export function toReplyError(error: unknown): unknown {
  const { name } = (error ?? {}) as Partial<Error>;
  if (name !== "UpstashError") return unreachable(error);
  const [reply] = driverMessage(error).split(", command was: ");
  return translateDriverError(new Error(reply), SERVICE);
}

/** The body of a reply that cannot be parsed may have outcomes in it, so it is not quoted either. */
function unreachable(error: unknown): NevertwiceError {
  const isReply = error instanceof Error && error.name === "UpstashJSONParseError";
  const reason = isReply ? "its reply is not JSON" : describeError(error);
  return new NevertwiceError("unavailable", `Upstash cannot be reached (${reason}).`, {
    ...(!isReply && { cause: error }),
  });
}

/** `fetch` says only that it failed; the reason is the cause. */
function describeError(error: unknown): string {
  if (!(error instanceof Error)) return driverMessage(error);
  const cause = error.cause === undefined ? "" : `: ${driverMessage(error.cause)}`;
  return `${error.name}: ${error.message}${cause}`;
}
