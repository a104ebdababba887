/** Tests how `nevertwice import` maps, converts, refuses and continues. `import-peers.test.ts` tests it on full stores. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGuard, type Guard } from "nevertwice";
import { withIdempotency } from "nevertwice/http/fetch";
import { openStore } from "nevertwice/stores/open";
import { createClient } from "redis";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { sharedUrl } from "../../nevertwice/test/services/services.ts";
import { runHere } from "./cli-in-process.ts";
import { steadykeyManager, steadykeySqlite, unique } from "./import/peers.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "nevertwice-import-"));
afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

const newFile = (ending: string) => join(FOLDER, `${unique()}.${ending}`);

function csvFile(...lines: readonly string[]): string {
  const file = newFile("csv");
  writeFileSync(file, lines.join("\n"));
  return file;
}

interface Imported {
  readonly exit: number;
  readonly data: Readonly<Record<string, unknown>>;
}

async function importFrom(...words: readonly string[]): Promise<Imported> {
  const { out } = await runHere("import", ...words, "--json");
  return JSON.parse(out[0] ?? "{}");
}

async function guardOn(target: string): Promise<Guard> {
  const store = await openStore(target);
  const guard = createGuard({ store, namespace: "default" });
  onTestFinished(async () => {
    await guard.close();
    await store.close();
  });
  return guard;
}

const ranAgain = () => Promise.reject(new Error("the work ran again"));
const DAY_MS = 86_400_000;

describe("nevertwice import --from csv", () => {
  it("imports values, errors, scopes, fingerprints and ends, and quoted fields with line breaks", async () => {
    const file = csvFile(
      "\uFEFFkey,operation,scope,outcome,error,expires_at,fingerprint",
      `"a, ""b""\nc",charge,ada,"{""paid"":5}",,${new Date(Date.now() + DAY_MS).toISOString()},"{""amount"":5}"`,
      "k-2,charge,,,card declined,,",
      "k-3,charge,,7,,2001-01-01T00:00:00Z,\r",
    );
    const target = `sqlite:${newFile("db")}`;
    expect(await importFrom(file, "--from", "csv", "--store", target)).toMatchObject({
      ok: true,
      data: { read: 3, imported: 2, expired: 1, refused: 0 },
    });
    const guard = await guardOn(target);
    const first = { operation: "charge", scope: "ada", key: 'a, "b"\nc' };
    expect(await guard.run({ ...first, fingerprint: { amount: 5 } }, ranAgain)).toEqual({ paid: 5 });
    const other = await guard.tryRun({ ...first, fingerprint: { amount: 6 } }, ranAgain);
    expect(other.status).toBe("conflict");
    await expect(guard.run({ operation: "charge", key: "k-2" }, ranAgain)).rejects.toThrow("card declined");
    const { keptUntil = 0 } = (await guard.read({ operation: "charge", key: "k-2" })) ?? {};
    expect(keptUntil).toBeGreaterThan(Date.now() + 36_000 * DAY_MS);
  });

  it("reports each record that cannot be imported, with its reason and code 1", async () => {
    const file = csvFile("key,outcome", "a,paid", "b,1,2", `${"k".repeat(1_025)},1`, "c,1", ",1");
    const words = [file, "--from", "csv", "--operation", "charge", "--store", `sqlite:${newFile("db")}`];
    for (const more of [["--dry-run"], []]) {
      const { exit, data } = await importFrom(...words, ...more);
      expect({ exit, ...data }).toMatchObject({ exit: 1, imported: 1, refused: 4 });
      const reasons = (data.problems as readonly { readonly reason: string }[]).map(({ reason }) => reason);
      expect(reasons.sort()).toEqual([
        "its key is empty.",
        expect.stringContaining("1025 bytes"),
        "the column outcome must be JSON; text needs double quotes.",
        "the record has another number of fields than the first line.",
      ]);
    }
  });

  it("writes nothing in a dry run, and prints a verdict for people", async () => {
    const target = newFile("db");
    const words = ["import", csvFile("key,outcome", "a,1"), "--from", "csv", "--operation", "charge"];
    const dry = await runHere(...words, "--store", `sqlite:${target}`, "--dry-run");
    expect(dry).toEqual({
      code: 0,
      out: ["1  read", "1  would be imported", "dry run: nothing was written"],
      err: [],
    });
    expect(existsSync(target)).toBe(false);
    const real = await runHere(...words, "--store", `sqlite:${target}`);
    expect(real.out.at(-1)).toBe("complete: every finished key is recognised");
  });

  it("keeps what the store has, and says if that differs or is in use", async () => {
    const target = `sqlite:${newFile("db")}`;
    const guard = await guardOn(target);
    await guard.mark({ operation: "charge", key: "done", value: "here", retentionMs: DAY_MS });
    const claim = await guard.claim({ operation: "charge", key: "running" });
    const file = csvFile("key,outcome", 'done,"""there"""', 'running,"""there"""');
    const imported = await importFrom(file, "--from", "csv", "--operation", "charge", "--store", target);
    expect(imported).toMatchObject({ exit: 1, data: { imported: 0, different: 1, busy: 1 } });
    expect(await guard.run({ operation: "charge", key: "done" }, ranAgain)).toBe("here");
    expect(claim.status).toBe("claimed");
    // A guard that is closed waits for the claims that it gave.
    if (claim.status === "claimed") await claim.release();
  });

  it.each([
    ["no --from", [], "--from is missing: steadykey, node-idempotency, powertools, csv."],
    ["no operation", ["--from", "csv"], "the keys need an operation"],
    [
      "an unknown field",
      ["--from", "csv", "--operation", "{kind}"],
      "--operation has {kind}, but the fields are key, outcome",
    ],
    [
      "a bad pattern",
      ["--from", "csv", "--operation", "o", "--match", "("],
      "--match must be a regular expression",
    ],
    ["a source of another library", ["--from", "node-idempotency"], "are read from a redis:// URL"],
  ])("reports %s as wrong usage", async (_, words, reason) => {
    const file = csvFile("key,outcome", "a,1");
    const { code, err } = await runHere("import", file, ...words, "--store", `sqlite:${newFile("db")}`);
    expect({ code, err }).toEqual({ code: 2, err: [expect.stringContaining(reason)] });
  });

  it("continues at its checkpoint, and refuses that of another import", async () => {
    const keys = Array.from({ length: 1_200 }, (_, index) => `order-${index}`);
    const file = csvFile("key,outcome", ...keys.map((key) => `${key},1`));
    const [checkpoint, target] = [newFile("checkpoint"), `sqlite:${newFile("db")}`];
    const words = [
      file,
      "--from",
      "csv",
      "--operation",
      "charge",
      "--store",
      target,
      "--checkpoint",
      checkpoint,
    ];
    const before = process.listenerCount("SIGTERM");
    const running = importFrom(...words);
    while (process.listenerCount("SIGTERM") === before)
      await new Promise((resolve) => setTimeout(resolve, 1));
    // Only the command hears this signal: the import stops after the page that it is writing.
    (process.listeners("SIGTERM").at(-1) as () => void)();
    const stopped = await running;
    expect(stopped).toMatchObject({ exit: 1, data: { stopped: true } });
    const { read } = stopped.data as { readonly read: number };
    expect([500, 1_000]).toContain(read);
    expect(JSON.parse(readFileSync(checkpoint, "utf8"))).toMatchObject({ counts: { imported: read } });
    const other = await importFrom(...words, "--scope", "ada");
    expect(other).toMatchObject({
      exit: 2,
      error: { message: expect.stringContaining("another source, store or mapping") },
    });
    const rest = await importFrom(...words);
    expect(rest).toMatchObject({ exit: 0, data: { read: 1_200, imported: 1_200, alreadyThere: 0 } });
    expect(existsSync(checkpoint)).toBe(false);
  });
});

describe("nevertwice import --from steadykey", () => {
  it("converts stored payloads to fingerprints, failures to errors, and leaves unfinished keys out", async () => {
    const file = newFile("db");
    const { store, close } = steadykeySqlite(file);
    const manager = steadykeyManager(store, { storeCanonicalPayload: true });
    const payload = { amount: 5, note: "str:x", list: [1, null, "é"] };
    await manager.execute(payload, async () => "paid", { idempotencyKey: "a:b%" });
    const at = { day: new Date(0) } as never;
    await manager.execute(at, async () => "dated", { idempotencyKey: "dated" });
    await manager.register({}, { idempotencyKey: "running", status: "pending" });
    const declined = async () => Promise.reject(new TypeError("declined"));
    await expect(
      manager.execute({}, declined, { idempotencyKey: "failed", failureMode: "cache" }),
    ).rejects.toThrow();
    close();
    const target = `sqlite:${newFile("db")}`;
    const words = [file, "--from", "steadykey", "--operation", "charge", "--store", target];
    expect(await importFrom(...words)).toMatchObject({ exit: 0, data: { imported: 3, unfinished: 1 } });
    const guard = await guardOn(target);
    const request = { operation: "charge", key: "a:b%" };
    expect(await guard.run({ ...request, fingerprint: payload }, ranAgain)).toBe("paid");
    const other = await guard.tryRun({ ...request, fingerprint: { ...payload, amount: 6 } }, ranAgain);
    expect(other.status).toBe("conflict");
    // A date is no value of JSON: the key has no fingerprint, so any is accepted.
    expect(await guard.run({ operation: "charge", key: "dated", fingerprint: { day: 1 } }, ranAgain)).toBe(
      "dated",
    );
    await expect(guard.run({ operation: "charge", key: "failed" }, ranAgain)).rejects.toThrow("declined");
  });

  it("imports the responses of its middleware, with parts of the key as operation and scope", async () => {
    const file = newFile("db");
    const { store, close } = steadykeySqlite(file);
    const response = { status: 201, body: '{"id":1}', contentType: "application/json" };
    await steadykeyManager(store).execute(null, async () => response, {
      idempotencyKey: "k-1",
      namespace: "ada/payments",
    });
    close();
    const target = `sqlite:${newFile("db")}`;
    const imported = await importFrom(
      ...[file, "--from", "steadykey", "--as", "response", "--store", target],
      ...["--match", "^idempotency:(?<owner>\\w+)/(?<route>\\w+):"],
      ...["--operation", "POST /{route}", "--scope", "{owner}"],
    );
    expect(imported).toMatchObject({ exit: 0, data: { imported: 1 } });
    const handler = withIdempotency(await guardOn(target), { scope: () => "ada" }, ranAgain);
    const headers = { "idempotency-key": "k-1" };
    const replay = await handler(
      new Request("http://shop.test/payments", { method: "POST", headers, body: "{}" }),
    );
    expect(replay.status).toBe(201);
    expect(replay.headers.get("content-type")).toBe("application/json");
    expect(await replay.text()).toBe('{"id":1}');
  });
});

describe("nevertwice import --from node-idempotency", () => {
  it("imports errors and quoted keys, and asks for --match where path and key cannot be told apart", async (context) => {
    const url = sharedUrl(context, "redis");
    const prefix = `ni-${unique()}`;
    const client = createClient({ url });
    await client.connect();
    const complete = (response: object) => JSON.stringify({ status: "COMPLETE", response });
    const error = { response: { statusCode: 409, message: "sold out" }, status: 409, message: "sold out" };
    await client.set(`${prefix}:POST:/a:"k-1"`, complete({ error, additional: { statusCode: 409 } }), {
      PX: 60_000,
    });
    await client.set(`${prefix}:POST:/a:b:k-2`, complete({ body: "hi", additional: { statusCode: 200 } }));
    await client.set(`${prefix}:POST:/a:k-3`, JSON.stringify({ status: "IN_PROGRESS" }));
    await client.set(`${prefix}:POST:/a:k-4`, "something else");
    client.destroy();
    const target = `sqlite:${newFile("db")}`;
    const words = [url, "--from", "node-idempotency", "--prefix", prefix, "--store", target];
    const first = await importFrom(...words);
    expect(first).toMatchObject({
      exit: 1,
      data: { imported: 1, unfinished: 1, notRecognized: 1, refused: 1 },
    });
    const match = "^[^:]+:(?<method>\\w+):(?<path>/a(:b)?):(?<key>.+)$";
    const again = await importFrom(...words, "--match", match);
    // Where --match names the key, its quotes belong to it: it becomes a second record.
    expect(again.data).toMatchObject({ refused: 0 });
    const handler = withIdempotency(await guardOn(target), { scope: "anyone" }, ranAgain);
    const send = (path: string, key: string) =>
      handler(
        new Request(`http://shop.test${path}`, { method: "POST", headers: { "idempotency-key": key } }),
      );
    const soldOut = await send("/a", "k-1");
    expect([soldOut.status, await soldOut.json()]).toEqual([409, { statusCode: 409, message: "sold out" }]);
    const greeting = await send("/a:b", "k-2");
    expect([greeting.status, await greeting.text()]).toEqual([200, "hi"]);
  });
});
