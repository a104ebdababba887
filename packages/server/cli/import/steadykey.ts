/** steadykey 3: `prefix:[namespace:]id` with a JSON record, in Redis, a SQL table or DynamoDB. */
import { UsageError } from "../command.ts";
import { dynamodbSource } from "./dynamodb-source.ts";
import { objectIn, type Peer, type PeerReading, refused, toError } from "./peer.ts";
import { redisSource, startingWith } from "./redis-source.ts";
import { toResponse } from "./response.ts";
import { type Source, schemeIn } from "./source.ts";
import { sqlSource } from "./sql-source.ts";
import { fromCanonical } from "./steadykey-payload.ts";

const PREFIX = "idempotency";
const TABLE = "steadykey_entries";

export const steadykey: Peer = {
  fields: ["namespace", "id"],
  templates: { operation: "{namespace}", scope: "", key: "{id}" },
  form: "value",
  open,
  read(entry, { prefix = PREFIX, form }) {
    const parts = splitKey(entry.key, prefix);
    const record = objectIn(entry.value);
    if (parts === undefined || record === undefined) return { status: "not-recognized" };
    const { id, createdAt, status = "completed", result, error, canonicalPayload } = record;
    if (typeof id !== "string" || typeof createdAt !== "string") return { status: "not-recognized" };
    if (entry.leftMs !== null && entry.leftMs <= 0) return { status: "expired" };
    if (status === "pending") return { status: "unfinished" };
    const base = {
      status: "completed",
      fields: { ...parts, id },
      leftMs: entry.leftMs,
      // Over HTTP the fingerprint covers more than the payload, so it cannot be made from the payload alone.
      ...(form === "value" && fromCanonical(canonicalPayload)),
    } as const;
    if (status === "failed") return readFailure({ ...base, outcome: { error: toError(error) } }, form);
    if (form === "value") return { ...base, outcome: { value: result } };
    const value = toResponse(result);
    if (value === undefined) return refused("its result is not a response; import it with --as value.");
    return { ...base, outcome: { value } };
  },
};

/** A failure that steadykey remembers has no response: its middleware lets the client try again. */
function readFailure(key: PeerReading, form: "value" | "response"): PeerReading {
  return form === "value" ? key : { status: "unfinished" };
}

async function open(source: string, prefix = PREFIX): Promise<Source> {
  switch (schemeIn(source)) {
    case "redis":
    case "rediss":
      return redisSource(source, startingWith(`${prefix}:`));
    case "postgres":
    case "postgresql":
    case "mysql":
    case "sqlite":
      return sqlSource(source, TABLE);
    case "dynamodb":
      return dynamodbSource(source, { key: "key", value: "value", expires: "expiresAt" });
    case undefined:
      return sqlSource(`sqlite:${encodeURI(source)}`, TABLE);
    default:
      throw new UsageError(
        "keys of steadykey are read from a SQLite file, or a sqlite:, postgres://, mysql://, redis:// or dynamodb:// URL.",
      );
  }
}

/** Its parts are encoded, so that none contains a colon. */
function splitKey(key: string, prefix: string): { readonly namespace: string } | undefined {
  if (!key.startsWith(`${prefix}:`)) return undefined;
  const parts = key.slice(prefix.length + 1).split(":");
  if (parts.length > 2) return undefined;
  try {
    return { namespace: parts.length === 2 ? decodeURIComponent(parts[0] as string) : "" };
  } catch {
    return undefined;
  }
}
