/** Tests the HTTP API with requests that are generated from its OpenAPI document: no failure, no leak, no growth. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { count, report } from "../../nevertwice/test/scale/figures.ts";
import type { NevertwiceServer } from "../src/server.ts";
import { type Answered, checkDocumented, documentOf, startServer } from "./api-client.ts";
import { type FuzzRequest, type KnownClaim, requestFor, type Target, targetsOf } from "./fuzz-requests.ts";
import { collectGarbage } from "./garbage.ts";

const REQUESTS = process.env.NEVERTWICE_SCALE === "full" ? 100_000 : 4_500;
const AT_ONCE = 50;
const SEED = Number(process.env.NEVERTWICE_FUZZ_SEED ?? 20_260_701);
const MOST_GROWTH_BYTES = 64 * 1_048_576;
const TIMEOUT_MS = process.env.NEVERTWICE_SCALE === "full" ? 3_600_000 : 600_000;

interface Sender {
  readonly name: string;
  readonly role: string;
  readonly token: string;
  readonly namespace: string;
  /** In every key and value of theirs. */
  readonly mark: string;
  /** Whether they may read what others of the namespace keep. */
  readonly seesAll: boolean;
}

const SENDERS = [
  { name: "shop", role: "service", namespace: "one" },
  { name: "bank", role: "service", namespace: "one" },
  { name: "far", role: "service", namespace: "two" },
  { name: "ops", role: "operator", namespace: "one" },
  { name: "far-ops", role: "operator", namespace: "two" },
  { name: "audit", role: "auditor", namespace: "one" },
] as const;

/** Texts that no response may ever contain. */
const INSIDES = /node_modules|\/packages\/|file:\/\/|\.[jt]s:\d+|\n\s+at |SQLITE_|\/tmp\//;

/** Tokens that the server made, not those that a request sent. */
const MADE_HERE = /^[\w-]{32}$/;

async function scene() {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-fuzz-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  // Records are on the disk, so that what grows in memory is the server's own.
  const server = await startServer({ store: `sqlite:${join(folder, "fuzz.db")}` });
  const senders: Sender[] = [];
  for (const { name, role, namespace } of SENDERS) {
    const { token } = await server.context.access.create({ name, role, namespace });
    senders.push({ name, role, token, namespace, mark: `mark-of-${name}-q7x`, seesAll: role === "operator" });
  }
  return { server, senders, targets: targetsOf(await documentOf(server)) };
}

test(`${REQUESTS} requests: no 500, nothing that is another's, and no more memory than at the start`, {
  timeout: TIMEOUT_MS,
}, async () => {
  const { server, senders, targets } = await scene();
  const known: KnownClaim[] = [];
  const statuses = new Map<string, number>();
  let sent = 0;
  let early = 0;

  async function ask(sender: Sender, { operation }: Target, request: FuzzRequest): Promise<Answered> {
    const answered = await send(server, sender, request);
    const name = `${operation.operationId} ${answered.status}`;
    statuses.set(name, (statuses.get(name) ?? 0) + 1);
    await judge({ server, senders, sender, request, answered, known });
    return answered;
  }

  await arrangeLife(senders, async (sender, operationId, path, body) => {
    const target = targets.find(({ operation }) => operation.operationId === operationId) as Target;
    const { method } = target;
    const payload = method === "POST" ? { payload: JSON.stringify(body) } : {};
    const headers: Record<string, string> = method === "POST" ? { "content-type": "application/json" } : {};
    return (await ask(sender, target, { method, url: path, headers, ...payload })).body;
  });

  const property = fc.asyncProperty(fc.gen(), async (draw) => {
    const batch = Array.from({ length: AT_ONCE }, () => {
      const target = draw(fc.constantFrom, ...targets) as Target;
      // Most often somebody who may.
      const able = senders.filter(({ role }) => rolesOf(target).includes(role));
      const sender = draw(fc.constantFrom, ...(draw(fc.nat, 3) > 0 ? able : senders)) as Sender;
      return { sender, target, request: requestFor(draw, target, sender.mark, known) };
    });
    await Promise.all(batch.map(({ sender, target, request }) => ask(sender, target, request)));
    sent += AT_ONCE;
    if (early === 0 && sent >= REQUESTS / 5) early = heapAfterCollection();
  });
  const { errorInstance } = await fc.check(property, {
    seed: SEED,
    numRuns: REQUESTS / AT_ONCE,
    endOnFailure: true,
  });
  if (errorInstance !== null)
    throw new Error(`NEVERTWICE_FUZZ_SEED=${SEED} shows it`, { cause: errorInstance });

  expect(sent).toBe(REQUESTS);
  const growth = heapAfterCollection() - early;
  expect(growth).toBeLessThan(MOST_GROWTH_BYTES);
  // The requests were worth sending: each operation did what it is for, and refused too.
  for (const { operation } of targets) {
    const met = [...statuses.keys()].filter((name) => name.startsWith(`${operation.operationId} `));
    expect(met.length, `${operation.operationId} answered only ${met}`).toBeGreaterThan(2);
  }
  expect(WORTH_SENDING.filter((name) => !statuses.has(name))).toEqual([]);
  await report(server.context.store, {
    trial: "Requests generated from the API's own description",
    figures: `${count(sent)} requests by ${senders.length} callers to ${targets.length} operations (seed ${SEED}): ${statuses.size} different answers, all as documented, none a 500 and none meant for another caller; ${Math.max(0, Math.round(growth / 1_048_576))} MiB more memory after the last four fifths`,
  });
});

type Arranged = (
  sender: Sender,
  operationId: string,
  path: string,
  body?: object,
) => Promise<Answered["body"]>;

/** Sequences of requests about a few keys, since random requests rarely hit the same key. */
async function arrangeLife(senders: readonly Sender[], request: Arranged): Promise<void> {
  const [shop, , , ops] = senders as [Sender, Sender, Sender, Sender];
  const asked = (fingerprint: number) => ({
    operation: "arranged",
    key: `${shop.mark}-arranged`,
    fingerprint,
  });
  const claim = (fingerprint = 1) => request(shop, "claim", "/v1/claims", asked(fingerprint));
  const { id, token } = await claim();
  await claim();
  await claim(2);
  await request(shop, "readClaim", `/v1/claims/${id}`);
  await request(shop, "renewClaim", `/v1/claims/${id}/renew`, { token });
  await request(shop, "completeClaim", `/v1/claims/${id}/complete`, { token, value: shop.mark });
  const { fence } = await request(ops, "showKey", `/v1/keys/${id}`);
  await claim();
  await request(ops, "releaseKey", `/v1/keys/${id}/release`, { fence });
  const again = await claim();
  await request(shop, "abandonClaim", `/v1/claims/${id}/abandon`, { token: again.token });
  await request(ops, "forgetKey", `/v1/keys/${id}/forget`, { fence: again.fence });
  for (let told = 0; told < 2; told++)
    await request(shop, "markEvent", "/v1/events", { source: shop.mark, id: "arranged" });
}

/** Codes that only related requests can produce. */
const WORTH_SENDING = [
  "claim 201",
  "claim 200",
  "claim 409",
  "claim 422",
  "readClaim 200",
  "completeClaim 200",
  "renewClaim 200",
  "abandonClaim 200",
  "markEvent 201",
  "markEvent 200",
  "showKey 200",
  "releaseKey 200",
  "forgetKey 200",
];

function rolesOf({ operation }: Target): readonly string[] {
  return operation["x-roles"];
}

async function send(server: NevertwiceServer, { token }: Sender, request: FuzzRequest): Promise<Answered> {
  const response = await server.app.inject({
    method: request.method as "GET",
    url: request.url,
    headers: { authorization: `Bearer ${token}`, ...request.headers },
    ...(request.payload !== undefined && { payload: request.payload }),
  });
  const isJson = String(response.headers["content-type"]).includes("json") && response.payload !== "";
  return {
    status: response.statusCode,
    headers: response.headers,
    text: response.payload,
    body: isJson ? response.json() : response.payload,
  };
}

interface Judged {
  readonly server: NevertwiceServer;
  readonly senders: readonly Sender[];
  readonly sender: Sender;
  readonly request: FuzzRequest;
  readonly answered: Answered;
  readonly known: KnownClaim[];
}

async function judge({ server, senders, sender, request, answered, known }: Judged): Promise<void> {
  const { method, url } = request;
  const { status, text, body } = answered;
  const what = `${sender.name}: ${method} ${url.slice(0, 200)} ${String(request.payload).slice(0, 300)} → ${status} ${text.slice(0, 300)}`;
  if (status >= 500 && ![501, 503].includes(status)) throw new Error(`failed: ${what}`);
  if (["GET", "POST"].includes(method)) await checkDocumented(server, method, url, answered);
  if (INSIDES.test(text)) throw new Error(`tells of its insides: ${what}`);
  for (const other of senders) {
    if (text.includes(other.token)) throw new Error(`tells an access token: ${what}`);
    // The owner of a key learns what an operator decided about it.
    const isOfOneNamespace = other.namespace === sender.namespace;
    const mayRead = other === sender || ((sender.seesAll || other.seesAll) && isOfOneNamespace);
    if (!mayRead && text.includes(other.mark)) throw new Error(`tells what is ${other.name}'s: ${what}`);
  }
  const isClaim = status === 201 && typeof body.token === "string";
  const asked = String(request.payload);
  for (const { token } of known)
    if (!isClaim && MADE_HERE.test(token) && text.includes(token) && !asked.includes(token))
      throw new Error(`tells a token: ${what}`);
  if (!isClaim) return;
  known.push(body);
  // Older ones are used up.
  if (known.length > 60) known.shift();
}

function heapAfterCollection(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
