/** Powertools for AWS Lambda 2: `prefix#hash` with status, end and data, in DynamoDB or Redis. */
import { UsageError } from "../command.ts";
import { dynamodbSource } from "./dynamodb-source.ts";
import { isObject, objectIn, type Peer, refused } from "./peer.ts";
import { redisSource, startingWith } from "./redis-source.ts";
import { toResponse } from "./response.ts";
import { schemeIn } from "./source.ts";

export const powertools: Peer = {
  fields: ["prefix", "hash"],
  templates: { operation: "{prefix}", scope: "", key: "{hash}" },
  form: "value",
  async open(source, prefix) {
    const scheme = schemeIn(source) ?? "";
    if (scheme === "dynamodb") return dynamodbSource(source, { key: "id", expires: "expiration" });
    if (!/^rediss?$/.test(scheme))
      throw new UsageError("keys of Powertools are read from a dynamodb:// or redis:// URL.");
    return redisSource(source, prefix === undefined ? "*#*" : startingWith(`${prefix}#`));
  },
  read(entry, { prefix, form }) {
    const item = isObject(entry.value) ? entry.value : objectIn(entry.value);
    const fields = splitKey(entry.key);
    const { status, data } = item ?? {};
    if (fields === undefined || (status !== "COMPLETED" && status !== "INPROGRESS"))
      return { status: "not-recognized" };
    if (prefix !== undefined && fields.prefix !== prefix) return { status: "not-recognized" };
    if (entry.leftMs !== null && entry.leftMs <= 0) return { status: "expired" };
    if (status === "INPROGRESS") return { status: "unfinished" };
    const value = form === "value" ? data : toResponse(data);
    if (form === "response" && value === undefined)
      return refused("its result is not a response; import it with --as value.");
    return { status: "completed", fields, leftMs: entry.leftMs, outcome: { value } };
  },
};

/** The hash is base64, which has no `#`; the prefix may have one. */
function splitKey(key: string): { readonly prefix: string; readonly hash: string } | undefined {
  const end = key.lastIndexOf("#");
  return end === -1 ? undefined : { prefix: key.slice(0, end), hash: key.slice(end + 1) };
}
