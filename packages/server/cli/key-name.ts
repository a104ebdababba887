/**
 * Finds a key by a name that people know: its exact text, its id, or its hash, which is all that logs show. Several operations
 * and scopes may have a key with this text; then the flags `--operation` and `--scope` choose one of them.
 */
import type { KeyJson, KeyPageJson } from "../src/api/api-json.ts";
import { type CallApi, toRefused } from "./api.ts";
import { type CommandCall, Refused } from "./command.ts";
import { plain, table } from "./terminal.ts";

const ID = /^[0-9a-f]{64}$/;
const HASH = /^[0-9a-f]{16}$/;
const PAGE = 50;
/** So many are listed if several keys have this text. */
const MOST_LISTED = 20;

/** The id of the key that the command names. Throws `Refused` if there is none, or more than one. */
export async function findKeyId(call: CommandCall, callApi: CallApi): Promise<string> {
  const [key = ""] = call.args;
  const wanted = { operation: call.text("operation"), scope: call.text("scope") };
  const isNamed = wanted.operation !== undefined || wanted.scope !== undefined;
  if (!isNamed && ID.test(key)) {
    const reply = await callApi({ method: "GET", path: `/v1/keys/${key}` });
    // A key may look like an id itself, so it is searched for if no record has this id.
    if (reply.status === 200) return key;
    if (reply.status !== 404) throw toRefused(reply);
  }
  const found = await findByText(callApi, key, wanted);
  if (found.length === 0 && !isNamed && HASH.test(key)) found.push(...(await findByHash(callApi, key)));
  const [first, ...others] = found;
  if (first === undefined) throw notFound(key, isNamed);
  if (others.length > 0) throw ambiguous(key, found);
  return first.id;
}

interface Wanted {
  readonly operation: string | undefined;
  readonly scope: string | undefined;
}

async function findByText(callApi: CallApi, key: string, { operation, scope }: Wanted): Promise<KeyJson[]> {
  const found = new Map<string, KeyJson>();
  let after: string | undefined;
  do {
    const query = { key, operation, scope, limit: PAGE, after };
    const reply = await callApi({ method: "GET", path: "/v1/keys", query });
    if (reply.status !== 200) throw toRefused(reply);
    const { records, next } = reply.body as KeyPageJson;
    // A page may repeat a record that has changed.
    for (const record of records) found.set(record.id, record);
    after = next ?? undefined;
    // No two records have the same operation, scope and key.
    if (operation !== undefined && scope !== undefined && found.size > 0) break;
  } while (after !== undefined && found.size <= MOST_LISTED);
  return [...found.values()];
}

/** No store has an index of hashes, so this looks through the keys until it has found one. */
async function findByHash(callApi: CallApi, hash: string): Promise<readonly KeyJson[]> {
  let after: string | undefined;
  do {
    const reply = await callApi({ method: "GET", path: "/v1/keys", query: { search: hash, after } });
    if (reply.status !== 200) throw toRefused(reply);
    const { records, next } = reply.body as KeyPageJson;
    const found = records.filter(({ keyHash }) => keyHash === hash);
    if (found.length > 0) return found;
    after = next ?? undefined;
  } while (after !== undefined);
  return [];
}

function notFound(key: string, isNamed: boolean): Refused {
  const where = isNamed ? " with this operation and scope" : "";
  return new Refused(
    "not-found",
    `there is no key ${JSON.stringify(plain(key))}${where}; \`nevertwice keys list --search TEXT\` finds parts of it.`,
  );
}

function ambiguous(key: string, found: readonly KeyJson[]): Refused {
  const rows = found
    .slice(0, MOST_LISTED)
    .map(({ id, state, operation, scope }) => [id, state, operation, scope]);
  return new Refused(
    "ambiguous",
    `several keys have the text ${JSON.stringify(plain(key))}; add --operation and --scope, or give the id.`,
    { details: { records: found }, lines: table(["id", "state", "operation", "scope"], rows) },
  );
}
