/** Tests `nevertwice serve` as a separate process: its output, and how it starts and stops. */
import { execFileSync } from "node:child_process";
import { createServer, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createSilent } from "node:net";
import { setTimeout } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { startProxy } from "../../nevertwice/test/services/proxy.ts";
import { sharedUrl } from "../../nevertwice/test/services/services.ts";
import { ended, printed, run, type Serving, serving, start, startWith, stop, words } from "./cli-process.ts";

/** The URL of a module that makes a process take a second for twenty where it measures a duration. */
const HASTE = `data:text/javascript,${encodeURIComponent(
  "const now = performance.now.bind(performance); performance.now = () => 20 * now();",
)}`;

const upstreams: Server[] = [];
afterAll(() => {
  for (const server of upstreams) server.close().closeAllConnections();
});

interface Charging extends Serving {
  /** Sends a request with a key through the gateway. */
  charge(): Promise<Response>;
  /** The response of the service to the first request. */
  readonly asked: Promise<ServerResponse>;
  /** Tells the server to stop, and waits until it accepts no more requests. */
  beginStop(): Promise<void>;
}

/** A gateway in front of a service that answers when the test allows it. */
async function chargingServer(): Promise<Charging> {
  let take: (response: ServerResponse) => void;
  const asked = new Promise<ServerResponse>((resolve) => {
    take = resolve;
  });
  const server = createServer((_request, response) => take(response));
  upstreams.push(server);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const upstream = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const gateway = `--upstream ${upstream} --gateway-scope anyone --gateway-listen 127.0.0.1:0`;
  const { url, gatewayUrl, child, ending } = await serving(...words(`--store memory: ${gateway}`));
  const isHealthy = () =>
    fetch(`${url}/healthz`).then(
      ({ status }) => status === 200,
      () => false,
    );
  return {
    url,
    gatewayUrl,
    child,
    ending,
    charge: () =>
      fetch(`${gatewayUrl}/charges`, {
        method: "POST",
        headers: { "idempotency-key": '"k"' },
        body: "{}",
      }),
    asked,
    async beginStop() {
      child.kill("SIGTERM");
      while (await isHealthy()) await setTimeout(20);
    },
  };
}

describe.concurrent("nevertwice serve", { timeout: 120_000 }, () => {
  it("stops within its drain time when a signal arrives while a silent store keeps it from starting", async () => {
    let meet = () => {};
    const met = new Promise<void>((resolve) => {
      meet = resolve;
    });
    const silent = createSilent(meet);
    await new Promise<void>((resolve) => void silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as AddressInfo;
    const store = `redis://127.0.0.1:${port}`;
    const child = start("serve", "--store", store, "--listen", "127.0.0.1:0", "--drain", "0s");
    const ending = ended(child);
    await met;
    child.kill("SIGTERM");
    const { code, err } = await ending;
    silent.close();
    expect([code, err.at(-1)]).toEqual([1, expect.stringContaining("before it had started")]);
  });

  it("prints the address of the dashboard, and three curl commands that work", async () => {
    const child = start(...words("serve --store sqlite:./curl.db --listen 127.0.0.1:0 --log-level error"));
    const ending = ended(child);
    const text = await printed(child, "/v1/keys?search=");
    const [, dashboard = ""] = /dashboard {2}(http\S+)/.exec(text) ?? [];
    expect(dashboard).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
    expect((await fetch(new URL("/healthz", dashboard))).status).toBe(200);
    const lines = text.split("\n").filter((line) => line.startsWith("  curl "));
    expect(lines).toHaveLength(3);
    const answers = lines.map((line) => JSON.parse(execFileSync("sh", ["-c", line], { encoding: "utf8" })));
    expect(answers).toMatchObject([{ first: true }, { first: false }, { records: [{ state: "completed" }] }]);
    child.kill("SIGINT");
    expect((await ending).code).toBe(0);
  });

  it("waits at the start for a database that is not up yet, and says so", async (context) => {
    const proxy = await startProxy(sharedUrl(context, "postgres"));
    proxy.refuse();
    const child = start("serve", "--store", proxy.url, "--listen", "127.0.0.1:0", "--log-level", "error");
    const ending = ended(child);
    await new Promise<void>((resolve) => {
      child.stderr.on("data", (text) => String(text).includes("Retrying for 30 s") && resolve());
    });
    proxy.heal();
    await printed(child, "/v1/keys?search=");
    child.kill("SIGINT");
    expect((await ending).code).toBe(0);
    await proxy.stop();
  });

  it("ends at once if a signal arrives while it waits for its database", async (context) => {
    const proxy = await startProxy(sharedUrl(context, "postgres"));
    proxy.refuse();
    const child = start("serve", "--store", proxy.url, "--listen", "127.0.0.1:0");
    const ending = ended(child);
    child.stderr.once("data", () => child.kill("SIGTERM"));
    expect((await ending).code).toBe(3);
    await proxy.stop();
  });

  it("finishes a running request after a signal, and accepts no other", async () => {
    const { charge, asked, beginStop, ending } = await chargingServer();
    const first = charge();
    const response = await asked;
    await beginStop();
    await expect(charge()).rejects.toThrow("fetch failed");
    response.writeHead(201).end("charged");
    const answer = await first;
    expect([answer.status, await answer.text()]).toEqual([201, "charged"]);
    expect((await ending).code).toBe(0);
  });

  it("ends at once, with code 1, on the second signal", async () => {
    const { charge, asked, beginStop, child, ending } = await chargingServer();
    const lost = charge().catch(() => "lost");
    await asked;
    await beginStop();
    child.kill("SIGTERM");
    expect((await ending).code).toBe(1);
    expect(await lost).toBe("lost");
  });

  it("accepts only loopback addresses without an access token", async () => {
    const args = ["serve", "--store", "memory:", "--listen", "0.0.0.0:0", "--log-level", "silent"];
    const { code, err } = await run(args);
    expect(code).toBe(2);
    expect(err.join("\n")).toContain("unless there is an access token");
    const child = start(...args, "--access-token", "a-token-that-nobody-guesses-0123");
    const ending = ended(child);
    expect(await printed(child, "/v1/keys?search=")).toContain(
      '-H "Authorization: Bearer $NEVERTWICE_TOKEN"',
    );
    child.kill("SIGTERM");
    expect((await ending).code).toBe(0);
  });

  it.each([
    ["records", ["--store", "memory:"], "store is"],
    ["holds", ["--store", "sqlite:./production.db", "--holds-store", "memory:"], "holdsStore is"],
  ])("refuses %s in memory in production, unless that is allowed", async (_, stores, said) => {
    const args = ["serve", ...stores, "--listen", "127.0.0.1:0", "--log-level", "silent"];
    const production = { NODE_ENV: "production" };
    const { code, err } = await ended(startWith(production, ...args), "");
    expect(code).toBe(2);
    expect(err.join("\n")).toContain(said);
    expect(err.join("\n")).toContain("NEVERTWICE_ALLOW_LOCAL=true");
    const child = startWith({ ...production, NEVERTWICE_ALLOW_LOCAL: "yes" }, ...args);
    const ending = ended(child);
    await printed(child, "dashboard");
    child.kill("SIGTERM");
    expect((await ending).code).toBe(0);
  });

  it("reports a port that is in use, and what to do", async () => {
    const server = await serving("--store", "memory:");
    const { host, port } = new URL(server.url);
    const second = await run(["serve", "--store", "memory:", "--listen", host, "--log-level", "silent"]);
    expect(second.code).toBe(1);
    expect(second.err).toEqual([
      `nevertwice serve: port ${port} is in use, perhaps by another server; stop it, or choose another port with --listen 127.0.0.1:${Number(port) + 1}.`,
    ]);
    expect((await stop(server)).code).toBe(0);
  });

  it("prints the configuration without secrets, and exits", async () => {
    const settings =
      "--store postgres://ada:whisper@db/shop --access-token hush-hush-nobody-guesses-this-token " +
      "--region eu --region-secret hush-hush-nobody-guesses-this-either";
    const { code, out } = await run(words(`serve --print-config ${settings} --json`));
    expect(code).toBe(0);
    const { data: shown } = JSON.parse(out.join("\n"));
    expect(shown).toMatchObject({
      store: "postgres://ada:(hidden)@db/shop",
      access_token: "(hidden)",
      region_secret: "(hidden)",
    });
    expect(out.join("\n")).not.toMatch(/whisper|hush/);
  });

  it("tries for half a minute to reach a store that does not answer, and reports it with code 3", async () => {
    const command = words("serve --store postgres://127.0.0.1:1/none --listen 127.0.0.1:0");
    const { code, err } = await ended(startWith({ NODE_OPTIONS: `--import ${HASTE}` }, ...command));
    expect(code, err.join("\n")).toBe(3);
    expect(err).toContainEqual(expect.stringContaining("Retrying for 30 s."));
  });
});
