/**
 * Tests the client in a real browser, against a service of another origin that is guarded by the layer: what a page needs, CORS
 * included, and nothing that only Node has.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Rollup } from "vite";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { idempotency } from "../../src/http/node.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { REPLAYED } from "../http/replayed-header.ts";
import { find, installMissing, NotInstalled } from "../services/packages.ts";

const CLIENT = fileURLToPath(new URL("../../src/client/index.ts", import.meta.url));

/** Runs in the page. What it returns is what the test looks at. */
const PROGRAM = `
  const { createFetch, createSubmission, problemOf } = client;
  const keyed = createFetch({ firstPauseMs: 1, maxPauseMs: 1 });
  const post = (path, body, more) => keyed(api + path, { method: "POST", body, ...more });
  const seen = async (response) => ({
    status: response.status,
    text: await response.clone().text(),
    replayed: response.headers.get("${REPLAYED}"),
    retryAfter: response.headers.get("retry-after"),
    code: (await problemOf(response))?.code,
  });
  const form = new FormData();
  form.append("sku", "a-1");
  form.append("photo", new Blob([new Uint8Array([0, 255, 10, 13])]), "photo.bin");
  const submission = createSubmission({ storage: {
    get: (name) => localStorage.getItem(name) ?? undefined,
    set: (name, value) => localStorage.setItem(name, value),
    delete: (name) => localStorage.removeItem(name),
  }, name: "checkout" });
  const clicks = await Promise.all([
    submission.send(api + "/orders", { method: "POST", body: form }),
    submission.send(api + "/orders", { method: "POST", body: form }),
  ]);
  return {
    first: await seen(await post("/orders", '{"a":1}', { idempotencyKey: "mine" })),
    again: await seen(await post("/orders", '{"a":1}', { idempotencyKey: "mine" })),
    other: await seen(await post("/orders", '{"a":2}', { idempotencyKey: "mine" })),
    flaky: await seen(await post("/flaky", "x")),
    clicks: await Promise.all(clicks.map(seen)),
    left: localStorage.length,
  };
`;

/** The service: its own CORS says which origin may call, and nothing about keys. */
function service(origin: string, runs: string[]): RequestListener {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  const guarded = idempotency(guard, { scope: "anyone" })((request, response) => {
    if (request.method === "OPTIONS") {
      response.writeHead(204, { "access-control-allow-headers": "content-type" }).end();
      return;
    }
    runs.push(`${request.url}`);
    const isFailing = request.url === "/flaky" && runs.filter((url) => url === "/flaky").length === 1;
    request.resume().on("end", () => response.writeHead(isFailing ? 503 : 201).end(`run ${runs.length}`));
  });
  return (request, response) => {
    response.setHeader("access-control-allow-origin", origin);
    void guarded(request, response);
  };
}

async function listen(listener: RequestListener): Promise<{ server: Server; url: string }> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function bundle(): Promise<string> {
  const [result] = (await build({
    configFile: false,
    logLevel: "silent",
    build: { write: false, lib: { entry: CLIENT, formats: ["iife"], name: "client" } },
  })) as Rollup.RollupOutput[];
  return (result as Rollup.RollupOutput).output[0].code;
}

function chromiumOr(skip: (reason: string) => never): string {
  try {
    return find("chromium");
  } catch (error) {
    if (error instanceof NotInstalled) return skip(error.message);
    throw error;
  }
}

let folder: string;
let browser: ChildProcess | undefined;
const servers: Server[] = [];

beforeAll(async () => {
  await installMissing(["chromium"]);
  folder = await mkdtemp(join(tmpdir(), "nevertwice-chromium-"));
}, 600_000);

afterAll(async () => {
  browser?.kill("SIGKILL");
  for (const server of servers) server.closeAllConnections();
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
});

it("a page of another origin creates one order for every intent, and can read the exposed headers", {
  timeout: 120_000,
}, async (context) => {
  const chromium = chromiumOr((reason) => context.skip(reason));
  const runs: string[] = [];
  let tell: (result: string) => void;
  const result = new Promise<string>((resolve) => {
    tell = resolve;
  });
  const code = await bundle();
  let api = "";
  const page = await listen((request, response) => {
    if (request.method === "POST") {
      let text = "";
      request.setEncoding("utf8").on("data", (chunk) => {
        text += chunk;
      });
      request.on("end", () => tell(text));
      response.end();
      return;
    }
    const program = `(async () => {${PROGRAM}})().catch((e) => String(e.stack)).then((r) => fetch("/", { method: "POST", body: JSON.stringify(r) }));`;
    response.setHeader("content-type", "text/html");
    response.end(`<script>${code}</script><script>const api = ${JSON.stringify(api)}; ${program}</script>`);
  });
  const guarded = await listen(service(page.url, runs));
  api = guarded.url;
  servers.push(page.server, guarded.server);
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"];
  browser = spawn(chromium, [...flags, `--user-data-dir=${folder}`, page.url], { stdio: "ignore" });

  const seen = JSON.parse(await result);

  expect(seen).toEqual({
    first: { status: 201, text: "run 2", replayed: null, retryAfter: null },
    again: { status: 201, text: "run 2", replayed: "true", retryAfter: null },
    other: { status: 422, text: expect.any(String), replayed: null, retryAfter: null, code: "conflict" },
    flaky: { status: 201, text: "run 4", replayed: null, retryAfter: null },
    clicks: [
      { status: 201, text: "run 1", replayed: null, retryAfter: null },
      { status: 201, text: "run 1", replayed: null, retryAfter: null },
    ],
    left: 0,
  });
  expect(runs).toEqual(["/orders", "/orders", "/flaky", "/flaky"]);
});
