/** Tests figures by namespace: what a token sees, and limits on labels. */
import { expect, test } from "vitest";
import { createLive } from "../src/live.ts";
import { createMetrics } from "../src/metrics.ts";
import { createPrometheusMeter } from "../src/prometheus.ts";
import { type Scene, sceneOf } from "./calling.ts";

const ACCESS_TOKEN = "0123456789abcdef0123456789abcdef";

/** Two applications on one server, each with a service that made claims, and tokens of all roles. */
async function twoNamespaces() {
  const scene = await sceneOf({ accessToken: ACCESS_TOKEN });
  const tokens = {
    shop: await scene.token({ name: "shop", namespace: "orders" }),
    bank: await scene.token({ name: "bank", namespace: "loans" }),
    orders: await scene.token({ name: "ann", namespace: "orders", role: "operator" }),
    loans: await scene.token({ name: "bob", namespace: "loans", role: "auditor" }),
  };
  const claim = (token: string, operation: string, key: string) =>
    scene.call("POST /v1/claims", { token, body: { operation, key } });
  await claim(tokens.shop, "sell-a-book", "1");
  await claim(tokens.bank, "grant-a-loan", "1");
  await claim(tokens.bank, "grant-a-loan", "2");
  return { scene, tokens, claim };
}

function firstRuns(live: { readonly seconds: readonly { readonly counts: { readonly first: number } }[] }) {
  return live.seconds.reduce((sum, { counts }) => sum + counts.first, 0);
}

async function linesFor({ call }: Scene, token: string, metric: string): Promise<readonly string[]> {
  const { text } = await call("GET /metrics", { token });
  return text.split("\n").filter((line) => line.startsWith(metric));
}

test("/metrics shows a token its own namespace, and nothing of the process or of another", async () => {
  const { scene, tokens } = await twoNamespaces();
  const { text } = await scene.call("GET /metrics", { token: tokens.orders });
  expect(text).toContain(
    'nevertwice_claims_total{nevertwice_namespace="orders",nevertwice_operation="sell-a-book",nevertwice_answer="new"} 1',
  );
  expect(text).not.toMatch(/loan|bytes/);
  const namespaces = [...text.matchAll(/nevertwice_namespace="([^"]*)"/g)].map(([, name]) => name);
  expect(new Set(namespaces)).toEqual(new Set(["orders"]));
  const requests = await linesFor(scene, tokens.loans, "nevertwice_http_requests_total");
  expect(requests).toEqual([
    'nevertwice_http_requests_total{nevertwice_namespace="loans",http_route="/v1/claims",http_request_method="POST",http_response_status_code="201"} 2',
  ]);
});

test("/metrics counts each claim once when it starts and once when it ends", async () => {
  const { scene, tokens } = await twoNamespaces();
  const steps = [
    ["complete", { value: 1 }],
    ["complete", { error: 1 }],
    ["abandon", {}],
    ["renew", {}],
  ] as const;
  for (const [index, [verb, more]] of steps.entries()) {
    const asked = { token: tokens.bank, body: { operation: "grant-a-loan", key: `loan-${index}` } };
    const { body: claim } = await scene.call("POST /v1/claims", asked);
    const { id, token } = claim;
    // The answer is lost, and the call is repeated.
    for (let tries = 0; tries < 2; tries++)
      await scene.call(`POST /v1/claims/${id}/${verb}`, { token: tokens.bank, body: { token, ...more } });
  }
  const { text } = await scene.call("GET /metrics", { token: tokens.loans });
  const own = 'nevertwice_namespace="loans",nevertwice_operation="grant-a-loan"';
  const counts = text.split("\n").filter((line) => line.includes(own) && !line.includes("_bucket"));
  // Six claims were made, two of them at the start; three are open.
  expect(counts.filter((line) => !line.includes("_sum"))).toEqual([
    `nevertwice_claims_total{${own},nevertwice_answer="new"} 6`,
    `nevertwice_renewals_total{${own}} 2`,
    `nevertwice_abandons_total{${own},nevertwice_as="released"} 1`,
    `nevertwice_work_duration_seconds_count{${own}} 2`,
  ]);
});

test("work that lost its lease to another attempt is no longer in flight", () => {
  const live = createLive();
  const observe = live.observer("shop");
  const attempt = { operation: "charge", keyHash: "0123456789abcdef", fence: 1 };
  observe({ ...attempt, kind: "claimed", number: 1 });
  observe({ ...attempt, kind: "lease-lost", reason: "not-renewed" });
  expect(live.inFlight("shop")).toBe(1);
  observe({ ...attempt, kind: "lease-lost", reason: "overtaken" });
  observe({ ...attempt, kind: "lease-lost", reason: "overtaken" });
  // Work that ran without a claim was never counted.
  observe({ ...attempt, fence: 0, kind: "completed", ranMs: 1 });
  observe({ ...attempt, fence: 2, kind: "taken-over", number: 2 });
  expect([live.inFlight("shop"), live.inFlight()]).toEqual([1, 1]);
});

test("/metrics shows the token of the configuration the whole server, by namespace", async () => {
  const { scene } = await twoNamespaces();
  await scene.call("GET /v1/holds");
  const { text } = await scene.call("GET /metrics", { token: ACCESS_TOKEN });
  for (const line of [
    'nevertwice_claims_total{nevertwice_namespace="orders",nevertwice_operation="sell-a-book",nevertwice_answer="new"} 1',
    'nevertwice_claims_total{nevertwice_namespace="loans",nevertwice_operation="grant-a-loan",nevertwice_answer="new"} 2',
    'nevertwice_http_requests_total{nevertwice_namespace="",http_route="/v1/holds",http_request_method="GET",http_response_status_code="401"} 1',
    'nevertwice_in_flight{nevertwice_namespace="loans"} 0',
  ])
    expect(text.split("\n")).toContain(line);
  expect(text).toMatch(/^nevertwice_resident_bytes \d+$/m);
  // A series that is there twice makes Prometheus refuse all of them.
  const series = text.split("\n").flatMap((line) => /^nevertwice\S+/.exec(line)?.[0] ?? []);
  expect(new Set(series).size).toBe(series.length);
});

test("/metrics shows the whole server to a caller that needs no token", async () => {
  const { call, server } = await sceneOf();
  await server.context.guard("elsewhere").run({ operation: "work", key: "1" }, () => 1);
  expect((await call("GET /metrics")).text).toContain(
    '{nevertwice_namespace="elsewhere",nevertwice_operation="work",nevertwice_answer="new"} 1',
  );
});

test("/v1/live counts the events of the caller's namespace", async () => {
  const { scene, tokens } = await twoNamespaces();
  const seen = async (token: string) => firstRuns((await scene.call("GET /v1/live", { token })).body);
  expect([await seen(tokens.orders), await seen(tokens.loans), await seen(ACCESS_TOKEN)]).toEqual([1, 2, 3]);
});

test("work in flight is counted by namespace too", async () => {
  const { scene, tokens } = await twoNamespaces();
  let finish: () => void = () => {};
  const started = new Promise<void>((began) => {
    void scene.server.context.guard("loans").run({ operation: "slow", key: "1" }, () => {
      began();
      return new Promise<void>((resolve) => {
        finish = resolve;
      });
    });
  });
  await started;
  const running = async (token: string) => (await scene.call("GET /v1/live", { token })).body.inFlight;
  expect([await running(tokens.orders), await running(tokens.loans), await running(ACCESS_TOKEN)]).toEqual([
    0, 1, 1,
  ]);
  finish();
});

test("events of a key are those of its own namespace", () => {
  const live = createLive();
  const event = { kind: "claimed", operation: "o", keyHash: "same", fence: 1, number: 1 } as const;
  live.observer("one")(event);
  expect(live.keyEvents("one", "same")).toHaveLength(1);
  expect(live.keyEvents("two", "same")).toEqual([]);
});

test("events of a key have their details, but no error: its message may contain data of users", () => {
  const live = createLive(() => 7);
  const subject = { operation: "o", keyHash: "k" } as const;
  live.observer("one")({ ...subject, kind: "claimed", fence: 2, number: 1 });
  live.observer("one")({ ...subject, kind: "unavailable", during: "claim", cause: new Error("secret") });
  expect(live.keyEvents("one", "k")).toEqual([
    { at: 7, kind: "claimed", detail: { operation: "o", fence: 2, number: 1 } },
    { at: 7, kind: "unavailable", detail: { operation: "o", during: "claim" } },
  ]);
});

test("a past second keeps the percentiles of its durations", () => {
  let now = 10_000;
  const live = createLive(() => now);
  const event = { kind: "completed", operation: "o", keyHash: "k", fence: 1 } as const;
  for (let ranMs = 1; ranMs <= 100; ranMs++) live.observer("one")({ ...event, ranMs });
  const spread = { count: 100, p50: 51, p99: 100 };
  expect(live.seconds(1, "one")[0]?.ranMs).toEqual(spread);
  now += 1_000;
  live.observer("one")({ ...event, ranMs: 5 });
  expect(live.seconds(2, "one").map(({ ranMs }) => ranMs)).toEqual([spread, { count: 1, p50: 5, p99: 5 }]);
  expect(live.seconds(2)[0]?.ranMs).toEqual(spread);
});

const CLAIMED = { kind: "claimed", keyHash: "k", fence: 1, number: 1 } as const;

test("labels are bounded: operations of a namespace, namespaces, and methods", () => {
  const metrics = createMetrics();
  for (let namespace = 0; namespace < 300; namespace++) {
    const observe = metrics.observer(`namespace-${namespace}`);
    for (let index = 0; index < 300; index++) observe({ ...CLAIMED, operation: `operation-${index}` });
    const request = { namespace: `namespace-${namespace}`, route: "none", status: 404, seconds: 0.1 };
    for (let index = 0; index < 50; index++) metrics.request({ ...request, method: `METHOD${index}` });
  }
  const text = metrics.text(undefined, []);
  const values = (label: string) =>
    new Set([...text.matchAll(new RegExp(`[{,]${label}="([^"]*)"`, "g"))].map(([, value]) => value));
  expect(values("nevertwice_namespace").size).toBe(51);
  expect(values("nevertwice_operation").size).toBe(101);
  expect(values("http_request_method")).toEqual(new Set(["_OTHER"]));
  expect(text.split("\n").length).toBeLessThan(51 * 200);
  expect(metrics.text("namespace-299", [])).not.toContain("operation-");
});

test("the series of an instrument are bounded, whatever its attributes are", () => {
  const meter = createPrometheusMeter();
  const counter = meter.createCounter("a.b");
  const histogram = meter.createHistogram("c", { unit: "s", advice: { explicitBucketBoundaries: [1] } });
  for (let index = 0; index < 3_000; index++) {
    counter.add(1, { "nevertwice.namespace": "shop", x: `value-${index}` });
    histogram.record(1, { "nevertwice.namespace": "shop", x: `value-${index}` });
  }
  const lines = meter.text("shop", []).split("\n");
  expect(lines.filter((line) => line.startsWith("a_b_total"))).toHaveLength(1_001);
  expect(lines.filter((line) => line.startsWith("c_seconds_count"))).toHaveLength(251);
  const rest = '{nevertwice_namespace="shop",otel_metric_overflow="true"}';
  expect(lines).toContain(`a_b_total${rest} 2000`);
  expect(lines).toContain(`c_seconds_count${rest} 2750`);
});

test("an operation is converted to its label before it is counted", () => {
  const metrics = createMetrics({ label: (operation) => operation.replace(/\d+/, "{id}") });
  const observe = metrics.observer("shop");
  for (let index = 0; index < 300; index++) observe({ ...CLAIMED, operation: `POST /payments/${index}` });
  const lines = metrics.text(undefined, []).split("\n");
  expect(lines.filter((line) => line.startsWith("nevertwice_claims_total{"))).toEqual([
    'nevertwice_claims_total{nevertwice_namespace="shop",nevertwice_operation="POST /payments/{id}",nevertwice_answer="new"} 300',
  ]);
});

test("a name in a label cannot break its line", () => {
  const metrics = createMetrics();
  metrics.observer('a"b\\c\nd')({ ...CLAIMED, operation: 'x"y\n' });
  expect(metrics.text(undefined, [])).toContain(
    '{nevertwice_namespace="a\\"b\\\\c\\nd",nevertwice_operation="x\\"y\\n",nevertwice_answer="new"} 1',
  );
});

test("live figures do not count the records of a quota", () => {
  const live = createLive(() => 0);
  const about = { scope: "", keyHash: "h", domain: undefined, fence: 1, number: 1 };
  for (const operation of ["nevertwice:quota", "charge"])
    live.observer("default")({ ...about, kind: "claimed", operation } as never);
  expect(live.inFlight("default")).toBe(1);
  expect(live.seconds(1, "default")[0]?.counts.first).toBe(1);
});
