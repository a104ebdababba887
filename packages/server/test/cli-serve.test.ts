/** `nevertwice serve` as a shell runs it: what it prints works, and what it is asked to finish it finishes. */
import { execFileSync } from "node:child_process";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, describe, expect, it } from "vitest";
import { ended, printed, run, serving, start, stop } from "./cli-process.ts";

const upstreams: Server[] = [];
afterAll(() => {
  for (const server of upstreams) server.close().closeAllConnections();
});

/** A service that answers when the test says so. */
async function slowService(): Promise<{ readonly url: string; readonly asked: Promise<ServerResponse> }> {
  let take: (response: ServerResponse) => void;
  const asked = new Promise<ServerResponse>((resolve) => {
    take = resolve;
  });
  const server = createServer((_request, response) => take(response));
  upstreams.push(server);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

describe.concurrent("nevertwice serve", { timeout: 120_000 }, () => {
  it("prints where the dashboard is, and three curl lines that work when they are pasted", async () => {
    const child = start(
      "serve",
      "--store",
      "sqlite:./curl.db",
      "--listen",
      "127.0.0.1:0",
      "--log-level",
      "error",
    );
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

  it("finishes a request that is under way when it is told to stop, and takes no other", async () => {
    const service = await slowService();
    const server = await serving(
      "--store",
      "memory:",
      "--upstream",
      service.url,
      "--gateway-scope",
      "anyone",
      "--gateway-listen",
      "127.0.0.1:0",
    );
    const post = () =>
      fetch(`${server.gatewayUrl}/charges`, {
        method: "POST",
        headers: { "idempotency-key": '"k"' },
        body: "{}",
      });
    const first = post();
    const response = await service.asked;
    server.child.kill("SIGTERM");
    while (
      await fetch(`${server.url}/healthz`).then(
        ({ status }) => status === 200,
        () => false,
      )
    )
      await new Promise((resolve) => setTimeout(resolve, 20));
    await expect(post()).rejects.toThrow("fetch failed");
    response.writeHead(201).end("charged");
    const answer = await first;
    expect([answer.status, await answer.text()]).toEqual([201, "charged"]);
    expect((await server.ending).code).toBe(0);
  });

  it("ends at once, with code 1, when it is told twice", async () => {
    const service = await slowService();
    const server = await serving(
      "--store",
      "memory:",
      "--upstream",
      service.url,
      "--gateway-scope",
      "anyone",
      "--gateway-listen",
      "127.0.0.1:0",
    );
    const lost = fetch(`${server.gatewayUrl}/charges`, {
      method: "POST",
      headers: { "idempotency-key": '"k"' },
    }).catch(() => "lost");
    await service.asked;
    server.child.kill("SIGTERM");
    while (
      await fetch(`${server.url}/healthz`).then(
        ({ status }) => status === 200,
        () => false,
      )
    )
      await new Promise((resolve) => setTimeout(resolve, 20));
    server.child.kill("SIGTERM");
    expect((await server.ending).code).toBe(1);
    expect(await lost).toBe("lost");
  });

  it("is open to this machine alone without an access token", async () => {
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

  it("says which port is taken, and what to do", async () => {
    const server = await serving("--store", "memory:");
    const { host, port } = new URL(server.url);
    const second = await run(["serve", "--store", "memory:", "--listen", host, "--log-level", "silent"]);
    expect(second.code).toBe(1);
    expect(second.err).toEqual([
      `nevertwice serve: port ${port} is taken: another server may be running; stop it, or choose another port with --listen 127.0.0.1:${Number(port) + 1}.`,
    ]);
    expect((await stop(server)).code).toBe(0);
  });

  it("prints what is set without secrets, and starts nothing", async () => {
    const { code, out } = await run([
      "serve",
      "--print-config",
      "--store",
      "postgres://ada:secret@db/shop",
      "--access-token",
      "hush-hush-nobody-guesses-this-token",
      "--json",
    ]);
    expect(code).toBe(0);
    const shown = JSON.parse(out.join("\n"));
    expect(shown).toMatchObject({ store: "postgres://ada:(hidden)@db/shop", access_token: "(hidden)" });
    expect(out.join("\n")).not.toMatch(/secret|hush/);
  });

  it("says that a store does not answer, with code 3", async () => {
    const { code, err } = await run([
      "serve",
      "--store",
      "postgres://127.0.0.1:1/none",
      "--listen",
      "127.0.0.1:0",
    ]);
    expect(code, err.join("\n")).toBe(3);
  });
});
