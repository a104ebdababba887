/** Tests the alert rules and the Grafana dashboard that ship with the server, with promtool and a real Prometheus. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { metrics as otelMetrics } from "@opentelemetry/api";
import { afterEach, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { find, installMissing, NotInstalled } from "../../nevertwice/test/services/packages.ts";
import { freePort } from "../../nevertwice/test/services/ports.ts";
import { startPrometheus } from "../../nevertwice/test/services/prometheus.ts";
import { startFor } from "../../nevertwice/test/services/services.ts";
import { start } from "./cli-process.ts";
import { documented, everything } from "./every-metric.ts";

const DEPLOY = fileURLToPath(new URL("../deploy", import.meta.url));
const RULES = join(DEPLOY, "prometheus/rules.yaml");
const run = promisify(execFile);

beforeAll(() => installMissing(["prometheus", "promtool"]), 300_000);
afterEach(() => otelMetrics.disable());

/** Skips the test where promtool cannot be installed. */
async function promtool({ skip }: TestContext, ...args: readonly string[]): Promise<string> {
  try {
    return (await run(find("promtool"), args)).stdout;
  } catch (error) {
    if (error instanceof NotInstalled) return skip(error.message);
    throw error;
  }
}

/** Writes a file to a folder of its own and returns its path. */
async function written(name: string, text: string): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), "nevertwice-monitoring-")), name);
  await writeFile(path, text);
  return path;
}

describe("the alert rules", () => {
  test("are accepted by promtool, which reports a bad one", async (context) => {
    expect(await promtool(context, "check", "rules", RULES)).toContain("11 rules found");
    const bad = (await readFile(RULES, "utf8")).replace("max by (", "max bye (");
    await expect(promtool(context, "check", "rules", await written("bad.yaml", bad))).rejects.toThrow();
  });

  test("fire when they should, and only then", async (context) => {
    const cases = await readFile(new URL("packaging/rules.test.yaml", import.meta.url), "utf8");
    const unit = async (rules: string) => written("test.yaml", cases.replace("- RULES", `- ${rules}`));
    expect(await promtool(context, "test", "rules", await unit(RULES))).toContain("SUCCESS");
    const lax = (await readFile(RULES, "utf8")).replaceAll(
      "(nevertwice_undecided) > 0",
      "(nevertwice_undecided) > 9",
    );
    const broken = await unit(await written("rules.yaml", lax));
    await expect(promtool(context, "test", "rules", broken)).rejects.toThrow();
  });
});

/** The names of metrics in an expression, without what Prometheus adds to those of histograms. */
function namesIn(text: string): readonly string[] {
  const names = [...text.matchAll(/\bnevertwice_[a-z_]+_?(?=[\s{[()]|$)/gm)].map(([name]) => name);
  return [...new Set(names.map((name) => name.replace(/_bucket$/, "")))];
}

test("every metric and label of the rules and of the dashboard is in /metrics", async () => {
  const { text } = await everything();
  const dashboard = await readFile(join(DEPLOY, "grafana/dashboard.json"), "utf8");
  const expressions = [
    ...[...dashboard.matchAll(/"(?:expr|query)": "(.*)",?$/gm)].map(([, expression]) => expression),
    ...[...(await readFile(RULES, "utf8")).matchAll(/expr: ((?:>-\n)?(?:.*\n)(?: {10}.*\n)*)/g)].map(
      ([, expr]) => expr,
    ),
  ].map((expression = "") => expression.replaceAll("\\", ""));
  const labels = new Set([...text.matchAll(/[{,](\w+)="/g)].map(([, label]) => label));
  const shown = new Set([...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name));
  const used = expressions.flatMap(namesIn).filter((name) => !labels.has(name));
  expect(new Set(used).size).toBeGreaterThan(12);
  for (const name of used) expect([name, shown.has(name)]).toEqual([name, true]);
  const matched = expressions.flatMap((expression) => [...expression.matchAll(/[{, (](\w+)(?:=~|!=|=)"/g)]);
  for (const [, label] of matched)
    expect([label, labels.has(label) || label === "job"]).toEqual([label, true]);
  expect(new Set((await documented()).map(({ inMetrics }) => inMetrics))).toEqual(shown);
});

test("a held key fires the alert in a real Prometheus that scrapes a real server, and its decision ends it", {
  timeout: 240_000,
}, async (context) => {
  const port = await freePort();
  const server = start("serve", "--store", "memory:", "--listen", `127.0.0.1:${port}`);
  await once(server.stdout, "data");
  // The same rules without their waiting times.
  const rules = (await readFile(RULES, "utf8")).replaceAll(/for: \w+/g, "for: 0s");
  const prometheus = await startFor(context, async () =>
    startPrometheus({
      target: `127.0.0.1:${port}`,
      job: "nevertwice",
      rules: await written("rules.yaml", rules),
    }),
  );
  const api = `http://127.0.0.1:${port}/v1`;
  const post = (path: string, body: object) =>
    fetch(`${api}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const firing = async () => {
    const { data } = (await (await fetch(`${prometheus.url}/api/v1/alerts`)).json()) as {
      readonly data: { readonly alerts: readonly Readonly<Record<string, Record<string, string>>>[] };
    };
    return data.alerts.map(({ labels, annotations }) => `${labels?.alertname}: ${annotations?.summary}`);
  };
  const scraped = async () => {
    const answer = await fetch(`${prometheus.url}/api/v1/query?query=nevertwice_undecided`);
    const { data } = (await answer.json()) as { readonly data: { readonly result: readonly unknown[] } };
    return data.result.length;
  };
  await expect.poll(scraped).toBe(1);
  expect(await firing()).toEqual([]);

  const claimed = await post("/claims", { operation: "sell", key: "order-1", leaseMs: 20, onLapsed: "hold" });
  const { id, fence } = (await claimed.json()) as { readonly id: string; readonly fence: number };
  await expect
    .poll(firing, { timeout: 60_000 })
    .toEqual(["NevertwiceDecisionWaits: 1 keys in default wait for a decision"]);

  const decided = await post(`/keys/${id}/resolve`, { fence, decision: "not-done" });
  expect(decided.status, await decided.text()).toBeLessThan(300);
  await expect.poll(firing, { timeout: 60_000 }).toEqual([]);
  server.kill();
});
