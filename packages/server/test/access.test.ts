import { createGuard } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { manualClock } from "nevertwice/testing";
import { describe, expect, test } from "vitest";
import { type Access, CACHE_MS, createAccess } from "../src/access.ts";
import { SERVER_NAMESPACE } from "../src/server-guard.ts";
import { createSessions } from "../src/sessions.ts";
import { sceneOf } from "./calling.ts";
import { secretIn } from "./token-secret.ts";

const RIGHT = { name: "shop", role: "service" } as const;

/** Two servers on one store, each with its own memory. */
function copies() {
  const store = memoryStore();
  const clock = manualClock();
  const now = () => clock.now();
  const create = () => createAccess({ store, namespace: "default", now });
  return { store, clock, now, one: create(), two: create() };
}

async function dump(store: ReturnType<typeof memoryStore>): Promise<string> {
  const page = await store.list?.({ namespace: SERVER_NAMESPACE, limit: 1_000 });
  return JSON.stringify(page, (_, value) =>
    value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
  );
}

describe("tokens", () => {
  test("every server accepts a token, with its role, namespace and scope", async () => {
    const { one, two } = copies();
    const { token, id } = await one.create({ ...RIGHT, namespace: "orders", scope: "tenant-1" });
    expect(token).toMatch(/^nt_[0-9a-z]{16}_[A-Za-z0-9_-]{43}$/);
    const caller = { name: "shop", roles: ["service"], namespace: "orders", scope: "tenant-1", tokenId: id };
    expect(await two.verify(token)).toEqual(caller);
    expect(await two.recall(id)).toEqual(caller);
  });

  test("the store contains a hash, and neither the token nor its secret", async () => {
    const { store, one: access } = copies();
    const { token } = await access.create(RIGHT);
    const stored = await dump(store);
    expect(stored).toContain("shop");
    expect(stored).not.toContain(secretIn(token));
    expect(JSON.stringify(await access.list())).not.toContain("hash");
  });

  test("a token with one changed character is refused", async () => {
    const { one: access } = copies();
    const { token } = await access.create(RIGHT);
    const other = token.at(-1) === "A" ? "B" : "A";
    for (const wrong of [
      token.slice(0, -1) + other,
      token.slice(0, -1),
      `${token}A`,
      "",
      "nt__",
      token.toUpperCase(),
    ])
      expect(await access.verify(wrong), wrong).toBeUndefined();
  });

  test("a token that one server revoked is refused by the others within 5 seconds", async () => {
    const { clock, one, two } = copies();
    const { token, id } = await one.create(RIGHT);
    expect(await two.verify(token)).toBeDefined();
    expect(await one.revoke(id)).toBe(true);
    expect(await one.verify(token)).toBeUndefined();
    clock.advance(CACHE_MS);
    expect(await two.verify(token)).toBeUndefined();
    expect(CACHE_MS).toBe(5_000);
    expect(await one.list()).toEqual([]);
    expect(await one.revoke(id)).toBe(false);
  });

  test.each([
    ["nothing", null],
    ["a number", 7],
    ["an unrelated object", { name: "shop" }],
    [
      "a token without its hash",
      { id: "b", name: "n", role: "operator", namespace: "n", scope: "n", createdAt: "" },
    ],
    [
      "an unknown role",
      { id: "b", name: "n", role: "god", namespace: "n", scope: "n", createdAt: "", hash: "" },
    ],
  ])("a record that holds %s is not a token and does not hide the others", async (_, value) => {
    const { store, one: access } = copies();
    const { token, id } = await access.create(RIGHT);
    const damaged = "0123456789abcdef";
    const guard = createGuard({ store, namespace: SERVER_NAMESPACE, purgeEveryMs: 0 });
    const { operation = "" } = (await guard.list()).records.find(({ key }) => key === id) ?? {};
    await guard.mark({ operation, key: damaged, value });
    expect(await access.verify(`nt_${damaged}_${"A".repeat(43)}`)).toBeUndefined();
    expect(await access.recall(damaged)).toBeUndefined();
    expect((await access.list()).map(({ name }) => name)).toEqual(["shop"]);
    expect(await access.verify(token)).toBeDefined();
    await guard.close();
  });

  test("a slow read does not extend the time that a token is cached", async () => {
    const { store, clock, now } = copies();
    const maker = createAccess({ store, namespace: "default", now });
    const { token, id } = await maker.create(RIGHT);
    let slowed = false;
    const slow = {
      ...store,
      async read(...args: Parameters<typeof store.read>) {
        const found = await store.read(...args);
        if (!slowed) {
          slowed = true;
          clock.advance(4_000);
          await maker.revoke(id);
        }
        return found;
      },
    };
    const access = createAccess({ store: slow, namespace: "default", now });
    expect(await access.verify(token)).toBeDefined();
    clock.advance(1_000);
    expect(await access.verify(token)).toBeUndefined();
  });

  test("a token or session that the store has not confirmed is not returned", async () => {
    const store = memoryStore();
    const silent = { ...store, complete: () => Promise.reject(new Error("no connection")) };
    const unconfirmed = createAccess({ store: silent, namespace: "default" });
    await expect(unconfirmed.create(RIGHT)).rejects.toMatchObject({ code: "unavailable" });
    const access = createAccess({ store, namespace: "default", fixed: "correct horse battery" });
    const sessions = createSessions({ store: silent, access, isSecure: false });
    await expect(sessions.open("correct horse battery")).rejects.toMatchObject({ code: "unavailable" });
  });

  test.each([
    ["role", { role: "root" as "service" }],
    ["name", { name: "" }],
    ["name", { name: "a\u001b[2Jb" }],
    ["name", { name: "x".repeat(256) }],
    ["scope", { scope: " " }],
    ["namespace", { namespace: SERVER_NAMESPACE }],
  ])("a token whose %s is wrong is not made: %j", async (named, wrong) => {
    const { one: access } = copies();
    await expect(access.create({ ...RIGHT, ...wrong })).rejects.toThrow(
      new RegExp(`request-invalid: ${named}`),
    );
    expect(await access.isRequired()).toBe(false);
  });

  test("the token of the configuration has all roles and is not in the store", async () => {
    const store = memoryStore();
    const access = createAccess({ store, namespace: "default", fixed: "correct horse battery" });
    expect(await access.verify("correct horse battery")).toMatchObject({
      roles: ["service", "operator", "auditor"],
    });
    expect(await access.verify("correct horse batterz")).toBeUndefined();
    expect(await dump(store)).not.toContain("horse");
  });
});

describe("who needs a token", () => {
  test("on loopback no caller before the first token exists, and every caller afterwards", async () => {
    const { call, token } = await sceneOf();
    expect((await call("GET /v1/holds")).status).toBe(200);
    const operator = await token({ role: "operator" });
    expect((await call("GET /v1/holds")).body).toMatchObject({ status: 401, code: "not-authenticated" });
    expect((await call("GET /v1/holds", { token: operator })).status).toBe(200);
  });

  test("another server requires it too within 5 seconds", async () => {
    const { clock, one, two } = copies();
    expect(await two.isRequired()).toBe(false);
    await one.create(RIGHT);
    clock.advance(CACHE_MS);
    expect(await two.isRequired()).toBe(true);
  });

  test("a server with stored tokens starts without listing any records, of which there may be very many", async () => {
    const { store } = copies();
    const unlisted = {
      ...store,
      list: () => Promise.reject(new Error("the server lists records before it starts")),
    };
    const access = createAccess({ store: unlisted, namespace: "default", isReachable: true });
    expect(await access.hasAny()).toBe(false);
    await access.create(RIGHT);
    expect(await access.hasAny()).toBe(true);
  });

  test("revoking the last token does not open the server again, nor keep it from starting", async () => {
    const { clock, one: access } = copies();
    const { id } = await access.create(RIGHT);
    await access.revoke(id);
    clock.advance(CACHE_MS);
    expect([await access.hasAny(), await access.isRequired()]).toEqual([true, true]);
  });

  test.each([
    ["listen", { listen: { host: "0.0.0.0", port: 0 } }],
    ["listen", { listen: { host: "::", port: 0 } }],
    ["allow-host", { listen: { host: "127.0.0.1", port: 0 }, allowHost: ["nevertwice.example.com"] }],
    [
      "gateway-listen",
      {
        listen: { host: "127.0.0.1", port: 0 },
        upstream: "http://127.0.0.1:1",
        gatewayScope: "anyone" as const,
        gatewayListen: { host: "0.0.0.0", port: 0 },
      },
    ],
  ])("a server that others can reach by %s does not start without a token", async (named, config) => {
    const { server, call } = await sceneOf(config);
    await expect(server.listen()).rejects.toThrow(new RegExp(`^${named} is .*nevertwice access create`));
    if (named !== "gateway-listen") expect((await call("GET /v1/holds")).status).toBe(401);
  });

  test("with a token the server starts on any address, and refuses callers without it", async () => {
    const { server } = await sceneOf({
      listen: { host: "0.0.0.0", port: 0 },
      accessToken: "0123456789abcdef0123456789abcdef",
    });
    const { url } = await server.listen();
    const at = `http://127.0.0.1:${new URL(url).port}/v1/holds`;
    expect((await fetch(at)).status).toBe(401);
    const authorization = "Bearer 0123456789abcdef0123456789abcdef";
    expect((await fetch(at, { headers: { authorization } })).status).toBe(200);
  });
});

describe("sessions", () => {
  const cookieOf = (setCookie: string) => ({ cookie: setCookie.split(";")[0] as string });

  function sessionsOf(isSecure = false) {
    const { store, clock, now, one, two } = copies();
    const create = (access: Access) => createSessions({ store, access, isSecure, now, passed: now });
    return { clock, store, access: one, one: create(one), two: create(two) };
  }

  test("a session that one server opened works on the others, and its cookie contains no token", async () => {
    const { access, one, two } = sessionsOf();
    const { token } = await access.create({ name: "desk", role: "operator" });
    const opened = await one.open(token);
    expect(opened?.cookie).toMatch(
      /^nevertwice_session=\S+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    );
    expect(opened?.cookie).not.toContain(secretIn(token));
    const headers = cookieOf(opened?.cookie ?? "");
    expect(await two.findCaller(headers, true)).toMatchObject({ name: "desk", roles: ["operator"] });
  });

  test.each([[""], ["short"], [7], [undefined]])(
    "no session is signed with the damaged secret %j",
    async (damaged) => {
      const { access, store, one } = sessionsOf();
      const { token } = await access.create({ name: "desk", role: "operator" });
      const guard = createGuard({ store, namespace: SERVER_NAMESPACE });
      await guard.run({ operation: "session-secret", key: "1" }, () => damaged);
      await expect(one.open(token)).rejects.toMatchObject({ code: "store-unsafe" });
    },
  );

  test("over TLS the cookie is limited to this exact host", async () => {
    const { access, one } = sessionsOf(true);
    const { token } = await access.create({ name: "desk", role: "operator" });
    const opened = await one.open(token);
    expect(opened?.cookie).toMatch(/^__Host-nevertwice_session=.*; Secure$/);
    expect(await one.find(cookieOf(opened?.cookie ?? ""))).toBeDefined();
  });

  test("a change needs the CSRF header of the session", async () => {
    const { access, one } = sessionsOf();
    const { token } = await access.create({ name: "desk", role: "operator" });
    const [mine, other] = [await one.open(token), await one.open((await access.create(RIGHT)).token)];
    const headers = cookieOf(mine?.cookie ?? "");
    await expect(one.findCaller(headers, false)).rejects.toThrow("not-authorized");
    await expect(
      one.findCaller({ ...headers, "x-nevertwice-csrf": other?.session.csrf }, false),
    ).rejects.toThrow("not-authorized");
    expect(
      await one.findCaller({ ...headers, "x-nevertwice-csrf": mine?.session.csrf }, false),
    ).toBeDefined();
  });

  test("a session ends when its token is revoked, and after twelve hours", async () => {
    const { clock, access, one, two } = sessionsOf();
    const { token, id } = await access.create({ name: "desk", role: "operator" });
    const headers = cookieOf((await one.open(token))?.cookie ?? "");
    clock.advance(12 * 3_600_000 - 1);
    expect(await one.find(headers)).toBeDefined();
    clock.advance(1);
    expect(await one.find(headers)).toBeUndefined();
    const fresh = cookieOf((await one.open(token))?.cookie ?? "");
    expect(await two.find(fresh)).toBeDefined();
    await access.revoke(id);
    clock.advance(CACHE_MS);
    expect([await one.find(fresh), await two.find(fresh)]).toEqual([undefined, undefined]);
  });

  test("a closed session ends at once on this server and within 5 seconds on others", async () => {
    const { clock, access, one, two } = sessionsOf();
    const { token } = await access.create({ name: "desk", role: "operator" });
    const [stolen, other] = await Promise.all(
      [one, one].map(async (sessions) => cookieOf((await sessions.open(token))?.cookie ?? "")),
    );
    expect(await two.find(stolen ?? {})).toBeDefined();
    expect(await one.close(stolen ?? {})).toMatch(/^nevertwice_session=; .*Max-Age=0$/);
    expect(await one.find(stolen ?? {})).toBeUndefined();
    clock.advance(CACHE_MS);
    expect(await two.find(stolen ?? {})).toBeUndefined();
    // Another session of the same token, opened in the same millisecond, goes on.
    expect([await one.find(other ?? {}), await two.find(other ?? {})]).toEqual([
      expect.anything(),
      expect.anything(),
    ]);
  });

  test("the mark of a closed session is stored until its cookie would have expired", async () => {
    const { clock, store, access, one } = sessionsOf();
    const { token } = await access.create({ name: "desk", role: "operator" });
    const headers = cookieOf((await one.open(token))?.cookie ?? "");
    clock.advance(11 * 3_600_000);
    const before = Date.now();
    await one.close(headers);
    await one.close(headers);
    const page = await store.list?.({ namespace: SERVER_NAMESPACE, limit: 1_000 });
    const marks = (page?.records ?? []).filter(({ parts }) => parts?.operation === "session-closed");
    expect(marks).toHaveLength(1);
    const keptMs = Number(marks[0]?.keptUntil) - before;
    expect(keptMs).toBeGreaterThanOrEqual(3_600_000);
    expect(keptMs).toBeLessThan(3_700_000);
  });

  test("a changed, shortened or invented cookie opens no session", async () => {
    const { access, one } = sessionsOf();
    const { token } = await access.create({ name: "desk", role: "operator" });
    const cookie = (await one.open(token))?.cookie.split(";")[0] ?? "";
    const [body = "", signature = ""] = cookie.slice("nevertwice_session=".length).split(".");
    const forged = Buffer.from(JSON.stringify({ tokenId: "x", until: 9e15 })).toString("base64url");
    for (const value of [
      body,
      `${body}.`,
      `.${signature}`,
      `${forged}.${signature}`,
      `${body}.${signature}A`,
      "a.b.c",
      "",
    ])
      expect(await one.find({ cookie: `nevertwice_session=${value}` }), value).toBeUndefined();
    expect(await one.open("nt_0000000000000000_wrong")).toBeUndefined();
  });
});
