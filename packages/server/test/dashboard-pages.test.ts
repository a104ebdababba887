/** Tests how the server delivers the dashboard: content security policy, cached files, and sessions. */
import { readFile } from "node:fs/promises";
import type { InjectOptions, LightMyRequestResponse } from "fastify";
import { afterAll, beforeAll, expect, it } from "vitest";
import { DASHBOARD_PAGES } from "../src/pages/dashboard-pages.ts";
import { createServer, type NevertwiceServer } from "../src/server.ts";
import { built } from "./dashboard-stage.ts";

const TOKEN = "a-token-of-the-configuration-0123456789";
let server: NevertwiceServer;

beforeAll(async () => {
  await built();
  server = await createServer({ store: "memory:", accessToken: TOKEN, logLevel: "silent" });
});

afterAll(() => server.close());

function ask(url: string, more: Omit<InjectOptions, "url"> = {}): Promise<LightMyRequestResponse> {
  return server.app.inject({ url, ...more, headers: { host: "localhost:4747", ...more.headers } });
}

async function signedIn(): Promise<{ readonly cookie: string; readonly csrf: string }> {
  const opened = await ask("/session", { method: "POST", payload: { token: TOKEN } });
  const [cookie = ""] = String(opened.headers["set-cookie"]).split(";");
  return { cookie, csrf: opened.json().csrf };
}

it.each(["/", "/keys", "/keys/abc", "/unknown", "/holds", "/outbox", "/audit", "/errors/pending"])(
  "%s is the dashboard's page, under a policy that allows only the server's own files",
  async (path) => {
    const { statusCode, headers, body } = await ask(path);

    expect(statusCode).toBe(200);
    expect(headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(headers["content-security-policy"]).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    );
    expect(headers["x-content-type-options"]).toBe("nosniff");
    expect(headers["cache-control"]).toBe("no-cache");
    expect(body).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\bon\w+=|https?:\/\//);
  },
);

it.each(DASHBOARD_PAGES)(
  "the page $path has a component, a title and an address of the server",
  async (page) => {
    const source = await readFile(new URL(`../dashboard/pages/${page.file}.tsx`, import.meta.url), "utf8");
    expect(source).toContain("export function Page(");
    expect(page.title).not.toBe("");
    expect(server.addresses).toContain(`GET ${page.path}`);
  },
);

it("files are named by their hash, cached permanently, and compressed for clients that accept gzip", async () => {
  const { body: page } = await ask("/");
  const [path = ""] = /\/assets\/[^"]+\.js/.exec(page) ?? [];

  const plain = await ask(path);
  const small = await ask(path, { headers: { "accept-encoding": "gzip, br" } });

  expect(plain.headers["cache-control"]).toBe("public, max-age=31536000, immutable");
  expect(plain.headers["content-type"]).toBe("text/javascript; charset=utf-8");
  expect(plain.headers.vary).toBe("accept-encoding");
  expect(small.headers["content-encoding"]).toBe("gzip");
  expect(small.rawPayload.length).toBeLessThan(plain.rawPayload.length / 2);
});

it.each([
  "/assets/none.js",
  "/assets/..%2findex.html",
  "/assets/%2e%2e/index.html",
  "/errors/no-such-code",
  "/nowhere",
])("%s is not found, as a problem", async (path) => {
  for (const accept of [undefined, "*/*", "application/json"]) {
    const { statusCode, headers } = await ask(path, { headers: accept === undefined ? {} : { accept } });

    expect(statusCode).toBe(404);
    expect(headers["content-type"]).toContain("application/problem+json");
  }
});

it.each(["/keyz", "/keys/a/b", "/v1/nowhere", "/errors/no-such-code"])(
  "%s is not found, as a page for a browser",
  async (path) => {
    const accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    const { statusCode, headers } = await ask(path, { headers: { accept } });
    const changing = await ask(path, { method: "POST", headers: { accept } });

    expect(statusCode).toBe(404);
    expect(headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(headers["content-security-policy"]).toContain("default-src 'none'");
    expect(changing.headers["content-type"]).toContain("application/problem+json");
  },
);

it("only a token opens a session, and its cookie is sent only with requests of this site", async () => {
  const wrong = await ask("/session", { method: "POST", payload: { token: "another" } });
  const right = await ask("/session", { method: "POST", payload: { token: TOKEN } });

  expect(wrong.statusCode).toBe(401);
  expect(wrong.headers["set-cookie"]).toBeUndefined();
  expect(right.headers["set-cookie"]).toMatch(/; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/);
  expect(right.headers["cache-control"]).toBe("no-store");
  expect(right.json()).toEqual({
    needed: true,
    caller: { name: "configured", roles: ["service", "operator", "auditor"], namespace: "default" },
    csrf: expect.any(String),
  });
  expect(right.body).not.toContain(TOKEN);
});

it.each([{}, { token: 5 }, { token: "x".repeat(2_000) }, [], "null"])(
  "a session is not opened by %j",
  async (payload) => {
    const { statusCode } = await ask("/session", {
      method: "POST",
      payload: JSON.stringify(payload),
      headers: { "content-type": "application/json" },
    });

    expect(statusCode).toBe(400);
  },
);

it("the state of a session needs its cookie, and without one there is no caller", async () => {
  const { cookie, csrf } = await signedIn();

  const own = await ask("/session", { headers: { cookie } });
  const none = await ask("/session");
  const forged = await ask("/session", { headers: { cookie: `${cookie}x` } });

  expect(own.json()).toMatchObject({ needed: true, caller: { name: "configured" }, csrf });
  expect(none.json()).toEqual({ needed: true, caller: null, csrf: null });
  expect(forged.json()).toEqual({ needed: true, caller: null, csrf: null });
});

it("a session ends only by a request with its CSRF header, and the cookie is removed", async () => {
  const { cookie, csrf } = await signedIn();

  const without = await ask("/session", { method: "DELETE", headers: { cookie } });
  const withIt = await ask("/session", { method: "DELETE", headers: { cookie, "x-nevertwice-csrf": csrf } });

  expect(without.statusCode).toBe(403);
  expect(withIt.statusCode).toBe(200);
  expect(withIt.headers["set-cookie"]).toMatch(/^nevertwice_session=; .*Max-Age=0/);
});

it("a copied cookie stops working when its session is closed", async () => {
  const { cookie, csrf } = await signedIn();
  const stolen = { cookie, "x-nevertwice-csrf": csrf };
  expect((await ask("/v1/keys", { headers: stolen })).statusCode).toBe(200);

  await ask("/session", { method: "DELETE", headers: stolen });

  expect((await ask("/v1/keys", { headers: stolen })).statusCode).toBe(401);
  expect((await ask("/session", { headers: stolen })).json()).toMatchObject({ caller: null, csrf: null });
});

it("a change without the CSRF header is refused, and a page of another origin is refused first", async () => {
  const { cookie, csrf } = await signedIn();
  const url = `/v1/keys/${"0".repeat(64)}/forget`;
  const forget = { method: "POST", payload: { fence: 1 } } as const;

  const alone = await ask(url, { ...forget, headers: { cookie } });
  const both = await ask(url, { ...forget, headers: { cookie, "x-nevertwice-csrf": csrf } });
  const stranger = await ask("/session", { headers: { cookie, origin: "https://elsewhere.example" } });

  expect(alone.statusCode).toBe(403);
  expect(both.statusCode).toBe(404);
  expect(stranger.statusCode).toBe(403);
});

it("a server without tokens needs no sign-in", async () => {
  const open = await createServer({ store: "memory:", logLevel: "silent" });

  const { body } = await open.app.inject({ url: "/session", headers: { host: "localhost" } });

  expect(JSON.parse(body)).toMatchObject({ needed: false, caller: { name: "local" }, csrf: null });
  await open.close();
});
