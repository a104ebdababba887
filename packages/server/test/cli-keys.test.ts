/** Tests `nevertwice access`, `keys`, `holds` and `audit`, on a store and on a running server. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { createClaims } from "nevertwice/claims";
import { openStore } from "nevertwice/stores/open";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ended, FOLDER, json, run, type Serving, serving, startWith, stop, words } from "./cli-process.ts";
import { secretIn } from "./token-secret.ts";

interface Row {
  readonly id: string;
  readonly state: string;
  readonly fence: number;
  readonly outcome?: unknown;
}

interface Listed {
  readonly records: readonly Row[];
}

const STORE = `sqlite:${join(FOLDER, "keys.db")}`;
let server: Serving;
let reach: readonly string[];

beforeAll(async () => {
  server = await serving("--store", STORE);
  reach = ["--server", server.url];
});

afterAll(async () => {
  expect((await stop(server)).code).toBe(0);
});

/** A key with an unknown outcome. */
async function unknownKey(
  key: string,
  operation = "charge",
  onLapsed: "hold" | "takeover" = "takeover",
): Promise<{ readonly id: string; readonly fence: string }> {
  const store = await openStore(STORE);
  const claims = createClaims({ store, namespace: "default" });
  const claimed = await claims.claim({ operation, scope: "ada", key, onLapsed });
  if (claimed.status !== "new") throw new Error("the scene is not set");
  await claims.abandon({ id: claimed.id, token: claimed.token, as: "unknown" });
  await store.close();
  return { id: claimed.id, fence: String(claimed.fence) };
}

describe.concurrent("nevertwice keys", { timeout: 120_000 }, () => {
  it("lists and shows keys, with the command that resolves an unknown outcome", async () => {
    const { id, fence } = await unknownKey("order-1");
    const list = await run(["keys", "list", "--store", STORE, "--state", "lapsed", "--search", "order-1"]);
    expect(list.code, list.err.join("\n")).toBe(0);
    expect(list.out[0]).toMatch(/^id +state +operation +scope +key +attempts +claimed$/);
    expect(list.out[1]).toMatch(new RegExp(`^${id} +lapsed +charge +ada +order-1 +1 +\\S+ ago$`));
    const shown = await run(["keys", "show", id, ...reach]);
    const columns = ["attempt", "claimed", "renewed", "ended", "at"];
    const attempts = shown.out.findIndex((line) => line.trim().split(/ +/).join() === columns.join());
    expect(shown.out[attempts + 1]).toMatch(/^1 +[\dT:.-]+Z .*unknown/);
    expect(shown.out.at(-1)).toBe(
      `The outcome of this key is unknown. To resolve it: nevertwice keys resolve ${id} --fence ${fence} --as done|failed|not-done`,
    );
    const none = await run(["keys", "list", ...reach, "--search", "nothing"]);
    expect(none).toMatchObject({ code: 0, out: ["No matching keys."] });
  });

  it("shows and decides a key by its exact text, and asks for more if several have it", async () => {
    const { id, fence } = await unknownKey("by-name");
    await unknownKey("by-name-2");
    expect((await run(["keys", "show", "by-name", ...reach])).out[0]).toMatch(new RegExp(`^id +${id}$`));
    expect((await run(["keys", "show", "by-nam", ...reach])).err).toEqual([
      'nevertwice keys: there is no key "by-nam"; `nevertwice keys list --search TEXT` finds parts of it.',
    ]);
    const other = await unknownKey("by-name", "refund");
    const several = await run(["keys", "show", "by-name", ...reach]);
    expect(several.code).toBe(1);
    expect(several.err[0]).toContain("several keys have the text");
    expect(
      several.err
        .slice(2)
        .map((line) => line.split(" ")[0])
        .sort(),
    ).toEqual([id, other.id].sort());
    const named = ["by-name", "--operation", "charge", "--scope", "ada", ...reach];
    expect((await json<{ readonly record: Row }>("keys", "show", ...named)).record.id).toBe(id);
    const wrong = await run(["keys", "show", "by-name", "--scope", "bob", ...reach]);
    expect(wrong.err[0]).toContain("with this operation and scope");
    const decided = await run(["keys", "release", ...named, "--fence", fence]);
    expect(decided).toMatchObject({ code: 0, out: ["done: release by-name"] });
  });

  it("lists keys by their exact text, operation and time, and those that wait for a decision", async () => {
    const held = await unknownKey("exact", "payout", "hold");
    const other = await unknownKey("exact", "refund");
    await unknownKey("exact-2", "payout");
    const listed = async (...flags: readonly string[]) =>
      (await json<Listed>("keys", "list", ...flags, ...reach)).records.map(({ id }) => id);
    expect(await listed("--key", "exact")).toEqual([other.id, held.id]);
    expect(await listed("--key", "exact", "--operation", "payout")).toEqual([held.id]);
    expect(await listed("--key", "exact", "--before", "1h")).toEqual([]);
    expect(await listed("--key", "exact", "--before", "2060-01-01T00:00:00Z")).toEqual([other.id, held.id]);
    expect(await listed("--undecided")).toEqual([held.id]);
    expect(await listed("--undecided", "--key", "none")).toEqual([]);
    expect((await run(["keys", "namespaces", ...reach])).out).toEqual(["default"]);
  });

  it.each(["yesterday", "2026-11-18", "2026-11-18T20:00", "12", "2026-13-01T00:00:00Z"])(
    "refuses %s as a time, because it is none or means another time on each machine",
    async (time) => {
      const { code, err } = await run(["keys", "list", "--before", time, ...reach]);
      expect(code).toBe(2);
      expect(err[0]).toContain("--before must be a time such as 2026-11-18T20:00:00Z, or a duration");
    },
  );

  it("resolves a key once, and refuses a stale decision with code 1", async () => {
    const { id, fence } = await unknownKey("resolve-me");
    const decide = [...words(`keys resolve ${id} --fence ${fence} --as done --value {"paid":5}`), ...reach];
    expect(await run(decide)).toMatchObject({ code: 0, out: [`done: resolve ${id}`] });
    const { record } = await json<{ readonly record: Row }>("keys", "show", id, ...reach);
    expect(record).toMatchObject({ state: "completed", outcome: { kind: "value", value: { paid: 5 } } });
    const again = await run(decide);
    expect(again.code).toBe(1);
    expect(again.err[0]).toContain("concurrent-modification");
  });

  it("releases and forgets keys", async () => {
    const { id, fence } = await unknownKey("release-me");
    const free = await run(["keys", "release", id, ...reach, "--fence", fence]);
    expect(free.code, free.err.join("\n")).toBe(0);
    const [freed] = (await json<Listed>("keys", "list", "--search", "release-me", ...reach)).records;
    expect(freed?.state).toBe("released");
    const forget = await run(["keys", "forget", id, ...reach, "--fence", String(freed?.fence)]);
    expect(forget.code, forget.err.join("\n")).toBe(0);
    expect((await json<Listed>("keys", "list", "--search", "release-me", ...reach)).records).toEqual([]);
    expect((await run(["keys", "show", id, ...reach])).code).toBe(1);
  });

  it.each([
    ["no decision", ["resolve", "some-id", "--fence", "1"], "--as must be done, failed or not-done"],
    ["no fence", ["release", "some-id"], "--fence N is missing; `nevertwice keys show some-id` prints it."],
    [
      "a value that is not JSON",
      ["resolve", "i", "--as", "done", "--value", "paid", "--fence", "1"],
      "--value must be JSON",
    ],
    ["a token for a store", ["list", "--token", "t"], "--token works only with --server URL"],
    ["a server that is not a URL", ["list", "--server", "here"], "--server must be a URL"],
  ])("reports %s as wrong usage", async (_, args, reason) => {
    const { code, err } = await run(["keys", ...args]);
    expect(code).toBe(2);
    expect(err[0]).toContain(reason);
  });

  it("finds a key by the hash that logs show", async () => {
    const { id } = await unknownKey("order-in-logs");
    const shown = await json<{ readonly record: Row }>("keys", "show", id.slice(0, 16), ...reach);
    expect(shown.record.id).toBe(id);
    const { code, err } = await run(["keys", "show", "0123456789abcdef", ...reach]);
    expect({ code, err }).toEqual({
      code: 1,
      err: [expect.stringContaining('there is no key "0123456789abcdef"')],
    });
  });

  it("reports with code 3 that a server does not answer", async () => {
    const { code, err } = await run(["keys", "list", "--server", "http://127.0.0.1:1"]);
    expect({ code, err }).toEqual({
      code: 3,
      err: ["nevertwice keys: http://127.0.0.1:1 does not answer. Check that `nevertwice serve` runs there."],
    });
  });

  it.each([
    ["a file that is not a database", "sqlite:./broken.db", 1, "the file is not a SQLite database"],
    ["a server that does not answer", "redis://127.0.0.1:1", 3, "the store did not answer"],
  ])("says what is wrong with the store: %s", async (_, store, exit, reason) => {
    writeFileSync(join(FOLDER, "broken.db"), "not a database");
    for (const words of [["list"], ["show", "order-17"]]) {
      const { code, err } = await run(["keys", ...words, "--store", store]);
      expect(code).toBe(exit);
      expect(err).toEqual([expect.stringContaining(reason)]);
    }
  });

  it("prints control characters as text", async () => {
    const opened = await openStore(STORE);
    await createClaims({ store: opened, namespace: "default" }).claim({
      operation: "o",
      scope: "s",
      key: "\u001b[2Jgone",
    });
    await opened.close();
    const { out } = await run(["keys", "list", "--search", "gone", ...reach]);
    expect(out.join("\n")).toContain("\\u001b[2Jgone");
    expect(out.join("\n")).not.toContain("\u001b");
  });
});

describe.concurrent("nevertwice access", { timeout: 120_000 }, () => {
  it("creates and revokes tokens of a running server", async () => {
    const store = `sqlite:${join(FOLDER, "access.db")}`;
    expect((await run(["migrate", store])).code).toBe(0);
    const empty = await run(["access", "list", "--store", store]);
    expect(empty).toMatchObject({ code: 0, out: [expect.stringContaining("There are no access tokens")] });
    const own = await serving("--store", store);
    const made = await run(["access", "create", "--name", "ops", "--role", "operator", "--store", store]);
    expect(made.out).toEqual([expect.stringMatching(/^nt_[0-9a-z]{16}_[\w-]{43}$/)]);
    const [token = ""] = made.out;
    const asked = ["keys", "list", "--server", own.url, "--json"];
    expect((await run([...asked, "--token", token])).code).toBe(0);
    expect((await ended(startWith({ NEVERTWICE_TOKEN: token }, ...asked), "")).code).toBe(0);
    const stranger = await run(["keys", "list", "--server", own.url, "--token", "nt_wrong"]);
    expect(stranger.code).toBe(1);
    expect(stranger.err[0]).toContain("not-authenticated");
    const { tokens } = await json<{
      readonly tokens: readonly { readonly id: string; readonly role: string }[];
    }>("access", "list", "--store", store);
    expect(tokens).toMatchObject([{ name: "ops", role: "operator", namespace: "default", scope: "ops" }]);
    expect(JSON.stringify(tokens)).not.toContain(secretIn(token));
    const id = tokens[0]?.id as string;
    expect((await run(["access", "revoke", id, "--store", store])).code).toBe(0);
    const gone = await run(["access", "revoke", id, "--store", store]);
    expect(gone.code).toBe(1);
    expect(gone.err[0]).toContain("`nevertwice access list` lists all of them");
    expect((await stop(own)).code).toBe(0);
  });

  it.each([
    ["no name", ["create"], "--name NAME is missing"],
    [
      "an unknown role",
      ["create", "--name", "a", "--role", "king"],
      "--role must be service, operator or auditor.",
    ],
  ])("reports %s as wrong usage", async (_, args, reason) => {
    const { code, err } = await run(["access", ...args]);
    expect(code).toBe(2);
    expect(err[0]).toContain(reason);
  });
});

describe.concurrent("nevertwice holds and audit", { timeout: 120_000 }, () => {
  it("places a hold once for a key, confirms it, refuses invalid actions, and audits the result", async () => {
    const declared = await run(["holds", "declare", "room", "--capacity", "2", ...reach]);
    expect(declared.code, declared.err.join("\n")).toBe(0);
    const place = [...words("holds place room --requester ada --for 10m --units 2 --key k-1"), ...reach];
    const { id } = await json<{ readonly id: string }>(...place);
    expect((await json<{ readonly id: string }>(...place)).id).toBe(id);
    const full = await run(["holds", "place", "room", "--requester", "bob", "--for", "10m", ...reach]);
    expect(full.code).toBe(1);
    expect(full.err[0]).toContain("resource-unavailable");
    expect((await run(["holds", "list", ...reach])).out[1]).toMatch(
      new RegExp(`^${id} +room +ada +2 +held +in 9m$`),
    );
    expect((await run(["holds", "confirm", id, ...reach])).code).toBe(0);
    expect((await run(["holds", "release", id, ...reach])).err[0]).toContain("not-held");
    expect((await run(["holds", "show", id, ...reach])).out.join("\n")).toMatch(/state +confirmed/);
    expect((await run(["holds", "resources", ...reach])).out[1]).toMatch(/^room +2 +2 +0 +open$/);
    const audit = await run(["audit", "--store", STORE]);
    expect(audit.code, audit.err.join("\n")).toBe(0);
    expect(audit.out.at(-1)).toBe("every invariant holds");
    expect(await json("audit", "trace", id, ...reach)).toMatchObject({
      events: [{ kind: "placed" }, { kind: "confirmed" }],
    });
    expect((await run(["audit", "doubles", "--within", "1h", ...reach])).out).toEqual([
      "0 pairs among 1 holds; 0 of one key within its window",
    ]);
  });

  it("exits with code 1 if the audit finds a broken invariant", async () => {
    const file = join(FOLDER, "tampered.db");
    const placed = await run(words(`holds place room --requester ada --for 1h --store sqlite:${file}`));
    expect(placed.code, placed.err.join("\n")).toBe(0);
    const database = new DatabaseSync(file);
    database.exec("UPDATE nevertwice_resources SET taken = 0");
    database.close();
    const { code, out } = await run(["audit", "--store", `sqlite:${file}`]);
    expect(code).toBe(1);
    expect(out.at(-1)).toBe("broken");
  });
});
